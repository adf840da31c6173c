// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestDeploymentSample applies config/samples/deployment.yaml, stages a version, and checks that zone-a
// is updated.
func TestDeploymentSample(t *testing.T) {
	t.Parallel()
	w := ApplySampleOf(t, "Deployment", "deployment.yaml", "api")
	w.ComesTo("2 v1", "2 v1", "2 v1")
	w.SetImages("v2")
	w.ComesTo("2 v2", "2 v1", "2 v1")
}
