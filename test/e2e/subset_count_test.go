// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestHundredSubsets checks a canary over the maximum number of subsets.
func TestHundredSubsets(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	const most = 100
	name := func(i int) string { return fmt.Sprintf("pool-%d", i) }
	nodes := []string{"zone-a-1", "zone-a-2", "zone-b-1", "zone-b-2", "zone-c-1", "zone-c-2"}
	many := func(n int) edit {
		return func(d *Draft) {
			for i := range n {
				subset(v1alpha1.Subset{Name: name(i), NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodes[i%len(nodes)]},
					}},
				}}}})(d)
			}
		}
	}
	_, err := e.TryCreate(draft("web", many(most+1)))
	e.Expect(err).To(MatchError(ContainSubstring("spec.topology.subsets: Too many: 101: must have at most 100 items")))

	w := e.Create(draft("web", replicas(most), many(most), hold()))
	w.Settle()
	e.Expect(w.Pods()).To(HaveLen(most))
	for i := range most {
		for _, p := range w.podsOf(name(i)) {
			e.Expect(p.Spec.NodeName).To(Equal(nodes[i%len(nodes)]), p.Name)
		}
	}
	none := e.History.Forbid(anyNewPod)
	w.SetImage("v2")
	w.Settle()
	none.Holds()
	one := e.History.Forbid(outside(name(42)))
	w.SetPartitions(parts{name(42): 0})
	w.Settle()
	one.Holds()
	half, named := parts{}, []string{}
	for i := range most / 2 {
		half[name(i)] = "0%"
		named = append(named, name(i))
	}
	upper := e.History.Forbid(outside(named...))
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

// TestNoSubsets checks that a parent without subsets is not ready and reports that, and continues when
// it gets a subset.
func TestNoSubsets(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(4), hold()))
	nowhere := func() { w.StallsWhole(v1alpha1.ReasonNoSubsets, "spec.topology.subsets is empty") }
	nowhere()
	e.Expect(w.Parent().Status.Replicas).To(BeZero())
	w.SetImage("v2")
	nowhere()
	w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets","value":[{"name":"a"},{"name":"b"}]}]`)
	w.Settle()
	e.Expect(w.Images()).To(Equal(images{"a": "v2 v2", "b": "v2 v2"}), "there was never another revision that worked")
	for _, slip := range []string{`{"spec":{"topology":{"subsets":[]}}}`, `{"spec":{"topology":{"subsets":null}}}`, `{"spec":{"topology":null}}`} {
		e.Expect(w.TryPatch(types.MergePatchType, slip)).To(MatchError(ContainSubstring("the last subset cannot be removed while spec.replicas is above 0")))
	}
	w.Patch(`{"spec":{"replicas":0,"topology":{"subsets":null}}}`)
	e.Eventually(w.Pods).Should(BeEmpty())
	w.Scale(7)
	nowhere()
	w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets","value":[{"name":"a"}]}]`)
	w.Settle()
	e.Expect(w.Count("a")).To(Equal(7))
}
