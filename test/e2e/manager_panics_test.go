// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// soundEnv is newEnv for a test that tries to crash the manager.
func soundEnv(t *testing.T) *env {
	t.Helper()
	t.Cleanup(func() {
		select {
		case <-shared.manager.Done():
			t.Errorf("the manager ended, see %s", shared.manager.LogPath())
		default:
		}
		log, err := os.ReadFile(shared.manager.LogPath())
		if err != nil {
			t.Error(err)
		}
		if panics := panicsIn(log); len(panics) > 0 {
			t.Errorf("the manager panicked, see %s:\n%s", shared.manager.LogPath(), strings.Join(panics, "\n"))
		}
	})
	return newEnv(t)
}

// panicsIn returns the lines of a log that report a panic. A panic in Reconcile does not end the
// process: controller-runtime recovers it and logs it.
func panicsIn(log []byte) []string {
	var panics []string
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("goroutine ")) {
			panics = append(panics, string(line))
		}
	}
	return panics
}

// TestPanicsAreSeen checks that soundEnv detects panics, as its positive control.
func TestPanicsAreSeen(t *testing.T) {
	log := `{"level":"info","msg":"Starting workers"}
{"level":"error","msg":"Observed a panic","controller":"uniteddeployment","panic":"assignment to entry in nil map"}
panic: runtime error: index out of range [1] with length 1
`
	if panics := panicsIn([]byte(log)); len(panics) != 2 {
		t.Error(panics)
	}
}
