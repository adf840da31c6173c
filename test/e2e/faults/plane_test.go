// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// newestPlaneOf is newPlaneOf, but the control plane is always a new one.
func newestPlaneOf(t *testing.T) *Plane {
	t.Helper()
	AwaitTurn(t)
	if p := TakeIdle(); p != nil {
		if err := p.StopAll(); err != nil {
			t.Error(err)
		}
	}
	return StartPlane(t)
}
