// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"testing"
)

// applySampleOf applies a file of config/samples that contains a UnitedDeployment of a kind and with a
// name.
func applySampleOf(t *testing.T, kind, file, name string) *contracted {
	t.Helper()
	k := kindNamed(kind)
	if k.manager != nil {
		k.manager(shared, t)
	}
	e := newEnv(t)
	e.Kubectl("apply", "-f", filepath.Join(samplesDir(t), file))
	return e.Workload(name).of(k)
}

// TestDeploymentSample applies config/samples/deployment.yaml, stages a version, and checks that zone-a
// is updated.
func TestDeploymentSample(t *testing.T) {
	t.Parallel()
	w := applySampleOf(t, "Deployment", "deployment.yaml", "api")
	w.comesTo("2 v1", "2 v1", "2 v1")
	w.setImage("v2")
	w.comesTo("2 v2", "2 v1", "2 v1")
}
