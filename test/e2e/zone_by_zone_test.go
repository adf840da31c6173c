// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
)

// TestZoneByZone checks the main use case: a canary that proceeds with kubectl patch --type=merge.
func TestZoneByZone(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(10), policy(p), zones("2", "50%", ""), hold()))
		w.Settle()
		bringToRest(w, "zone-a", "zone-b", "zone-c")
		nothing := e.History.Forbid(anyNewPod)

		e.Step("a staged image moves no pod", func() {
			mark := e.AuditMark()
			w.SetImage("v2")
			w.Settle()
			nothing.Holds()
			for _, subset := range []string{"zone-a", "zone-b", "zone-c"} {
				template := w.Child(subset).Spec.Template
				e.Expect(template.Spec.Containers[0].Image).To(Equal(image("v2")), "it is staged in the child")
				e.Expect(w.Status(subset).Phase).To(Equal(v1alpha1.PhaseHeld))
			}
			e.Expect(e.Writes(mark, children)).To(HaveLen(3), "one for each child; and the control of what is counted below")
		})

		e.Step("releasing zone-a moves zone-a alone", func() {
			others := e.History.Forbid(outside("zone-a"))
			expectOneChildWrite(w, "zone-a", func() { w.SetPartitions(parts{"zone-a": 0}) })
			others.Holds()
			nothing.Fires()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v1 v1 v1 v1 v1", "zone-c": "v1 v1 v1"}))
			e.Expect(w.Status("zone-a").Phase).To(Equal(v1alpha1.PhaseComplete))
		})

		e.Step("50% of zone-b moves exactly its upper ordinals", func() {
			others := e.History.Forbid(outside("zone-b"), protect("zone-b", 3, "v1"))
			expectOneChildWrite(w, "zone-b", func() { w.SetPartitions(parts{"zone-b": "50%"}) })
			others.Holds()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v1 v1 v1 v2 v2", "zone-c": "v1 v1 v1"}))
		})

		nothing = e.History.Forbid(anyNewPod)
		e.Step("naming and un-naming one zone releases no other", func() {
			for _, change := range []parts{
				{"zone-c": "100%"}, {"zone-c": nil}, {"zone-c": 3}, {"zone-a": nil}, {"zone-c": nil}, {"zone-b": nil}, {"zone-b": "50%"},
			} {
				w.SetPartitions(change)
				w.Settle()
			}
			w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":null}}}}`)
			w.Settle()
			w.SetPartitions(parts{"zone-b": "50%"})
			w.Settle()
			nothing.Holds()
		})

		e.Step("raising a partition moves nothing", func() {
			expectOneChildWrite(w, "zone-b", func() { w.SetPartitions(parts{"zone-b": 4}) })
			expectOneChildWrite(w, "zone-b", func() { w.SetPartitions(parts{"zone-b": "100%"}) })
			nothing.Holds()
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v1 v1 v1 v2 v2"))
			expectOneChildWrite(w, "zone-b", func() { w.SetPartitions(parts{"zone-b": 3}) })
			nothing.Holds()
		})

		e.Step("touched children at rest cost no write", func() { expectRest(w, "zone-a", "zone-b", "zone-c") })

		e.Step("the rest follows", func() {
			nothing.Holds()
			before := w.Parent().Status
			e.Expect(before.CurrentRevision).NotTo(Equal(before.UpdateRevision))
			w.SetPartitions(parts{"zone-b": 0, "zone-c": 0})
			w.Settle()
			nothing.Fires()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v2 v2 v2 v2 v2", "zone-c": "v2 v2 v2"}))
			after := w.Parent().Status
			e.Expect(after.CurrentRevision).To(Equal(before.UpdateRevision))
			e.Expect(after.UpdatedReadyReplicas).To(BeEquivalentTo(10))
			for _, p := range w.Pods() {
				e.Expect(e.History.CreatedOn(p.Name)).To(Equal("v1 v2"), p.Name)
			}
		})
	})
}

// expectOneChildWrite checks that a change of one subset's partition causes one write of its child, and
// no write of another child. The subset's partition must differ.
func expectOneChildWrite(w *Workload, subset string, change func()) {
	w.t.Helper()
	mark := w.AuditMark()
	change()
	w.Settle()
	writes := w.Writes(mark, children)
	w.Expect(writes).To(HaveLen(1))
	w.Expect(writes[0].Name).To(Equal(w.Name + "-" + subset))
}

// expectRest touches all children of a workload at rest and checks that the manager writes nothing. To
// see that the manager has processed them, it then removes a label from the last child, which comes
// later in the same order of events and causes one write, of that child alone.
func expectRest(w *Workload, subsets ...string) {
	w.t.Helper()
	w.Expect(notResting(w, subsets)).To(BeEmpty())
}

// comesToRest is expectRest for a workload that does not show when all work is done: it repeats the
// check until the manager writes nothing.
func comesToRest(w *Workload, subsets ...string) {
	w.t.Helper()
	w.Eventually(func() []cluster.Event { return notResting(w, subsets) }).Should(BeEmpty())
}

// bringToRest waits until the controllers have reported the state of all pods of their children, and
// the manager has processed that. Any later write has a later cause.
func bringToRest(w *Workload, subsets ...string) {
	w.t.Helper()
	w.AwaitObserved()
	comesToRest(w, subsets...)
}

// notResting touches all children, and returns the writes of the manager, except for those that restore
// the label.
func notResting(w *Workload, subsets []string) []cluster.Event {
	w.t.Helper()
	last := w.Name + "-" + subsets[len(subsets)-1]
	mark := w.AuditMark()
	for round := range 2 { // the second round sees writes of the first that came too late
		for _, subset := range subsets {
			w.PatchChild(subset, `{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, round)
		}
		w.PatchChild(subsets[len(subsets)-1], `{"metadata":{"labels":{"app":"drift"}}}`)
		w.Eventually(func() string { return w.Child(subsets[len(subsets)-1]).Labels["app"] }).Should(Equal(w.Name))
	}
	var others []cluster.Event
	w.Eventually(func() int { // a write takes effect a moment before it is answered and logged
		expected := 2
		others = slices.DeleteFunc(w.Writes(mark), func(write cluster.Event) bool {
			ours := expected > 0 && write.Resource+"/"+write.Name == children+"/"+last
			if ours {
				expected--
			}
			return ours
		})
		return expected
	}).Should(BeZero(), "writes about the label that are missing")
	return others
}
