// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
)

// TestSample applies config/samples/web.yaml, the example of the design, with
// kubectl.
func TestSample(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	_, err = shared.cluster.Kubectl(e.ctx, "-n", e.Namespace, "apply", "-f", filepath.Join(root, "config", "samples", "web.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	w := e.Workload("web")
	w.Settle()

	e.Expect(w.Images()).To(Equal(images{"zone-a": "v1", "zone-b": "v1 v1 v1", "zone-c": "v1 v1"}))
	for _, p := range w.Pods() {
		e.Expect(p.Zone).To(Equal(p.Subset), p.Name)
	}
	for _, subset := range []string{"zone-a", "zone-b", "zone-c"} {
		e.Expect(w.Status(subset).Replicas).To(BeEquivalentTo(w.Count(subset)))
	}

	scale, err := shared.cluster.Kubectl(e.ctx, "-n", e.Namespace, "get", "united", "web", "--subresource=scale",
		"-o", "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}")
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(scale).To(HavePrefix("6 6 app=web"))
}

// applySample applies a file of config/samples, which has a UnitedDeployment of a kind and a name.
func applySample(t *testing.T, kind, file, name string) *contracted {
	t.Helper()
	k := kindNamed(kind)
	if k.manager != nil {
		k.manager(t)
	}
	e := newEnv(t)
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	e.Kubectl("apply", "-f", filepath.Join(root, "config", "samples", file))
	return &contracted{e.Workload(name), k}
}

// TestDeploymentSample applies config/samples/deployment.yaml, and stages a version: zone-a is updated.
func TestDeploymentSample(t *testing.T) {
	t.Parallel()
	w := applySample(t, "Deployment", "deployment.yaml", "api")
	w.comesTo("2 v1", "2 v1", "2 v1")
	w.setImage("v2")
	w.comesTo("2 v2", "2 v1", "2 v1")
}
