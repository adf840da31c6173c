// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestPanicsAreSeen checks that soundEnv detects panics, as its positive control.
func TestPanicsAreSeen(t *testing.T) {
	t.Parallel()
	log := `{"level":"info","msg":"Starting workers"}
{"level":"error","msg":"Observed a panic","controller":"uniteddeployment","panic":"assignment to entry in nil map"}
panic: runtime error: index out of range [1] with length 1
`
	if panics := PanicsIn([]byte(log)); len(panics) != 2 {
		t.Error(panics)
	}
}
