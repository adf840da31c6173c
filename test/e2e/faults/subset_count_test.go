// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestHundredSubsets checks a canary over the maximum number of subsets.
func TestHundredSubsets(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	const most = 100
	name := func(i int) string { return fmt.Sprintf("pool-%d", i) }
	nodes := []string{"zone-a-1", "zone-a-2", "zone-b-1", "zone-b-2", "zone-c-1", "zone-c-2"}
	many := func(n int) Edit {
		return func(d *Draft) {
			for i := range n {
				Subset(v1alpha1.Subset{Name: name(i), NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodes[i%len(nodes)]},
					}},
				}}}})(d)
			}
		}
	}
	_, err := e.TryCreate(NewDraft("web", many(most+1)))
	e.Expect(err).To(MatchError(ContainSubstring("spec.topology.subsets: Too many: 101: must have at most 100 items")))

	w := e.Create(NewDraft("web", Replicas(most), many(most), Hold()))
	w.Settle()
	e.Expect(w.Pods()).To(HaveLen(most))
	for i := range most {
		for _, p := range w.PodsOf(name(i)) {
			e.Expect(p.Spec.NodeName).To(Equal(nodes[i%len(nodes)]), p.Name)
		}
	}
	none := e.History.Forbid(AnyNewPod)
	w.SetImage("v2")
	w.Settle()
	none.Holds()
	one := e.History.Forbid(Outside(name(42)))
	w.SetPartitions(Parts{name(42): 0})
	w.Settle()
	one.Holds()
	half, named := Parts{}, []string{}
	for i := range most / 2 {
		half[name(i)] = "0%"
		named = append(named, name(i))
	}
	upper := e.History.Forbid(Outside(named...))
	w.SetPartitions(half)
	w.Settle()
	upper.Holds()
	e.Expect(none.Broken()).To(HaveLen(most / 2))
	w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":{"defaultPartition":0}}}}`)
	w.Settle()
	upper.Fires()
	e.Expect(none.Broken()).To(HaveLen(most))
	status := w.Parent().Status
	e.Expect(status.UpdatedReadyReplicas).To(BeEquivalentTo(most))
	e.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
}
