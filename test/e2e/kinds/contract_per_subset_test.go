// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestContractPerSubset checks what United promises for every kind about maxUnavailablePerSubset: a
// subset never has more replicas down than its share, even if the total has room, and each subset has
// as many down at once as allowed.
func TestContractPerSubset(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		w := k.ContractOf(t, Policy(appsv1.ParallelPodManagement), Replicas(9), Zones("6", "3"), Rolling(`{maxUnavailable: 5, maxUnavailablePerSubset: "34%"}`))
		w.ComesTo("6 v1", "3 v1", "")
		a, b := w.Ledger(6).Of("zone-a"), w.Ledger(3).Of("zone-b")
		w.SetImages("quiet-v2")
		atOnce := map[string]int{"zone-a": 2, "zone-b": 1}
		if k.Title == "LeaderWorkerSet" && IsKubernetes136(t) {
			atOnce["zone-a"] = 1 // the StatefulSet of the leaders replaces one after the other (docs/workloads.md)
		}
		w.Eventually(func() map[string]int { return running(w, "quiet-v2") }).Should(Equal(atOnce))
		becomesReady(w, map[string]string{"zone-a": "6 quiet-v2", "zone-b": "3 quiet-v2"})
		a.Within(2)
		b.Within(1)

		w.Step("the way back keeps to it", func() {
			a, b := w.Ledger(6).Of("zone-a"), w.Ledger(3).Of("zone-b")
			w.SetImages("slow-v3") // another revision, and then back in the middle
			w.Eventually(func() string { return w.Mix()["zone-a"] }).Should(ContainSubstring("slow-v3"))
			w.SetImages("quiet-v2")
			becomesReady(w, map[string]string{"zone-a": "6 quiet-v2", "zone-b": "3 quiet-v2"})
			w.Expect(a.Taken()).To(BeNumerically("<=", 2))
			w.Expect(b.Taken()).To(BeNumerically("<=", 1))
		})
	})
}

// running returns, by subset, how many pods run an image.
func running(w *Contracted, tag string) map[string]int {
	on := map[string]int{}
	for _, p := range w.Pods() {
		if p.Image == tag && p.Running {
			on[p.Subset]++
		}
	}
	return on
}

// becomesReady makes all pods ready that wait for that, until the replicas run these images.
func becomesReady(w *Contracted, mix map[string]string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		w.RemindKubeletsOf("")
		g.Expect(w.Mix()).To(Equal(mix))
	}).Should(Succeed())
}

// TestUnavailableOfASubsetCounts checks that nothing of zone-a is released while one of its replicas is
// not ready for another reason, although the total has room, and that the status gives the name of the
// field to raise once nothing else can continue. The other zone continues.
func TestUnavailableOfASubsetCounts(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("3", "3"), Rolling(`{maxUnavailable: 4, maxUnavailablePerSubset: 1}`)))
	w.Settle()
	w.Disturbed()
	w.MarkUnready("zone-a", 0)
	w.SetImage("quiet-v2")
	w.Eventually(func() string { return w.Rollout().Message }).Should(ContainSubstring("web-zone-b-2"))
	w.Eventually(func() string { return w.Status("zone-a").Message }).Should(ContainSubstring("web-zone-a-0 (not ready since"))
	w.Expect(w.Partition("zone-a")).To(BeNumerically(">=", 3))

	e.Step("the message of Blocked names the field that helps", func() {
		w.RemindKubeletsUntil("zone-b", 3)
		w.AwaitPhase(v1alpha1.RolloutBlocked, "web-zone-a-0", "1 of maxUnavailablePerSubset 1 of zone-a in use", "raise maxUnavailablePerSubset,")
		w.SetRolling(`{maxUnavailablePerSubset: 2}`)
		w.RemindKubeletsUntil("zone-a", 2)
	})
	e.Step("ready again", func() {
		w.RemindKubeletsUntil("zone-a", 3)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
	})
}

// TestMaxSkewSubsets checks that zone-a and zone-b stay together, and that zone-c does not wait for
// them, nor they for it.
func TestMaxSkewSubsets(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(9), Zones("3", "3", "3"), Rolling(`{maxUnavailable: 4, maxSkew: "0%", maxSkewSubsets: [zone-a, zone-b]}`)))
	w.Settle()
	from := len(w.History.Events(w.Name))
	w.SetImage("quiet-v2")
	w.RemindKubeletsUntil("zone-c", 3)
	ready := map[string]int{}
	for _, p := range w.Pods() {
		if p.Ready && p.Image == "quiet-v2" {
			ready[p.Subset]++
		}
	}
	w.Expect(ready).To(Equal(map[string]int{"zone-c": 3}), "zone-c is through before anything of the others is")
	w.Eventually(func(g Gomega) {
		w.RemindKubeletsOf("")
		g.Expect(w.Images()).To(Equal(ThreeZones("quiet-v2 quiet-v2 quiet-v2")))
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).Should(Succeed())
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	events := w.History.Events(w.Name)[from:]
	w.Expect(Widest(events, "quiet-v2", map[string]int{"zone-a": 3, "zone-b": 3})).To(BeNumerically("~", 100.0/3, 1), "one replica, and no more")
	w.Expect(Widest(events, "quiet-v2", map[string]int{"zone-a": 3, "zone-c": 3})).To(BeNumerically("~", 100.0, 1), "the control: zone-c was far ahead")
}

// podLabels returns the values of a label of all pods, including the workers of groups, by subset; "" for
// a pod without it.
func podLabels(w *Contracted, label string) map[string]map[string]int {
	w.T.Helper()
	values := map[string]map[string]int{}
	for _, subset := range []string{"zone-a", "zone-b"} {
		values[subset] = map[string]int{}
		for _, p := range w.PodsOf(subset) {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				values[subset][p.Labels[label]]++
			}
		}
	}
	return values
}
