// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/cluster"
)

// TestDerived checks that the chart renders the same objects as config/, from which parts of it are
// generated.
func TestDerived(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	rendered := e.Decode([]byte(e.Helm("template", "united", e.Chart("united"), "--namespace=united-system")))
	compared := 0
	for _, file := range []string{"crd/apps.united.dev_uniteddeployments.yaml", "admission/policy.yaml", "admission/colocation.yaml", "rbac/role.yaml", "rbac/leader_election.yaml", "rbac/metrics_auth.yaml"} {
		content, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(file)))
		e.Expect(err).NotTo(HaveOccurred())
		for key, want := range e.Decode(content) {
			got := rendered[key]
			e.Expect(got).NotTo(BeNil(), key)
			if rules, ok := want.Object["rules"].([]any); ok {
				// In the chart the rules of optional kinds come last.
				e.Expect(got.Object["rules"]).To(ConsistOf(rules...), "%s: rules", key)
			}
			for _, field := range []string{"spec", "roleRef", "subjects"} {
				if want.Object[field] != nil {
					e.Expect(got.Object[field]).To(Equal(want.Object[field]), "%s: %s", key, field)
				}
			}
			compared++
		}
	}
	e.Expect(compared).To(Equal(11))
}
