// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestGoingBackByHand goes back to a revision of the history as docs/going-back.md says, patches and tolerations of subsets
// included, for every kind.
func TestGoingBackByHand(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		w := k.ContractOf(t, Replicas(2), Zones("1", "1"), Rolling(`{maxUnavailable: 2}`))
		w.ComesTo("1 v1", "1 v1", "")
		pods, graced := "template", `{"spec":{"terminationGracePeriodSeconds":2}}`
		if k.Title == "LeaderWorkerSet" {
			pods, graced = "leaderWorkerTemplate", `{"workerTemplate":`+graced+`}`
		}
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":{"spec":{%q:%s}}},
			{"op":"add","path":"/spec/topology/subsets/0/tolerations","value":[{"key":"a","operator":"Exists"}]}]`, pods, graced)
		revision := ""
		w.Eventually(func(g Gomega) {
			status := w.Parent().Status
			g.Expect(status.ObservedGeneration).To(BeNumerically(">", 1))
			g.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
			revision = status.CurrentRevision
		}).Should(Succeed())
		was := w.Parent().Spec.Topology
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"},{"op":"add","path":"/spec/topology/subsets/0/patch","value":{"spec":{%q:%s}}},
			{"op":"remove","path":"/spec/topology/subsets/0/tolerations"}]`, pods, graced)
		w.SetImages("v2")
		w.ComesTo("1 v2", "1 v2", "")
		w.GoBackByHand(revision)
		w.ComesTo("1 v1", "1 v1", "")
		w.Eventually(func() string { return w.Parent().Status.CurrentRevision }).Should(Equal(revision), "the same revision, and no new one")
		w.Expect(w.Parent().Spec.Topology.Subsets[1].Patch).To(Equal(was.Subsets[1].Patch))
		w.Expect(w.Parent().Spec.Topology.Subsets[0].Tolerations).To(Equal(was.Subsets[0].Tolerations))
	})
}
