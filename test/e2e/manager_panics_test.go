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
	return shared.soundEnv(t)
}

func (p *plane) soundEnv(t *testing.T) *env {
	t.Helper()
	t.Cleanup(func() {
		select {
		case <-p.manager.Done():
			t.Errorf("the manager ended, see %s", p.manager.LogPath())
		default:
		}
		log, err := os.ReadFile(p.manager.LogPath())
		if err != nil {
			t.Error(err)
		}
		if panics := panicsIn(log); len(panics) > 0 {
			t.Errorf("the manager panicked, see %s:\n%s", p.manager.LogPath(), strings.Join(panics, "\n"))
		}
	})
	return p.newEnv(t)
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
	t.Parallel()
	log := `{"level":"info","msg":"Starting workers"}
{"level":"error","msg":"Observed a panic","controller":"uniteddeployment","panic":"assignment to entry in nil map"}
panic: runtime error: index out of range [1] with length 1
`
	if panics := panicsIn([]byte(log)); len(panics) != 2 {
		t.Error(panics)
	}
}
