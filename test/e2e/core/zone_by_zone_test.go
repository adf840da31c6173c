// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestZoneByZone checks the main use case: a canary that proceeds with kubectl patch --type=merge.
func TestZoneByZone(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(10), Policy(p), Zones("2", "50%", ""), Hold()))
		w.Settle()
		BringToRest(w, "zone-a", "zone-b", "zone-c")
		nothing := e.History.Forbid(AnyNewPod)

		e.Step("a staged image moves no pod", func() {
			mark := e.AuditMark()
			w.SetImage("v2")
			w.Settle()
			nothing.Holds()
			for _, subset := range []string{"zone-a", "zone-b", "zone-c"} {
				template := w.Child(subset).Spec.Template
				e.Expect(template.Spec.Containers[0].Image).To(Equal(Image("v2")), "it is staged in the child")
				e.Expect(w.Status(subset).Phase).To(Equal(v1alpha1.PhaseHeld))
			}
			e.Expect(e.WithoutConflicts(mark, Children)).To(HaveLen(3), "one for each child; and the control of what is counted below")
		})

		e.Step("releasing zone-a moves zone-a alone", func() {
			others := e.History.Forbid(Outside("zone-a"))
			expectOneChildWrite(w, "zone-a", func() { w.SetPartitions(Parts{"zone-a": 0}) })
			others.Holds()
			nothing.Fires()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1 v1 v1 v1", "zone-c": "v1 v1 v1"}))
			e.Expect(w.Status("zone-a").Phase).To(Equal(v1alpha1.PhaseComplete))
		})

		e.Step("50% of zone-b moves exactly its upper ordinals", func() {
			others := e.History.Forbid(Outside("zone-b"), Protect("zone-b", 3, "v1"))
			expectOneChildWrite(w, "zone-b", func() { w.SetPartitions(Parts{"zone-b": "50%"}) })
			others.Holds()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1 v1 v2 v2", "zone-c": "v1 v1 v1"}))
		})

		nothing = e.History.Forbid(AnyNewPod)
		e.Step("naming and un-naming one zone releases no other", func() {
			for _, change := range []Parts{
				{"zone-c": "100%"}, {"zone-c": nil}, {"zone-c": 3}, {"zone-a": nil}, {"zone-c": nil}, {"zone-b": nil}, {"zone-b": "50%"},
			} {
				w.SetPartitions(change)
				w.Settle()
			}
			w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":null}}}}`)
			w.Settle()
			w.SetPartitions(Parts{"zone-b": "50%"})
			w.Settle()
			nothing.Holds()
		})

		e.Step("raising a partition moves nothing", func() {
			expectOneChildWrite(w, "zone-b", func() { w.SetPartitions(Parts{"zone-b": 4}) })
			expectOneChildWrite(w, "zone-b", func() { w.SetPartitions(Parts{"zone-b": "100%"}) })
			nothing.Holds()
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v1 v1 v1 v2 v2"))
			expectOneChildWrite(w, "zone-b", func() { w.SetPartitions(Parts{"zone-b": 3}) })
			nothing.Holds()
		})

		e.Step("touched children at rest cost no write", func() { ExpectRest(w, "zone-a", "zone-b", "zone-c") })

		e.Step("the rest follows", func() {
			nothing.Holds()
			before := w.Parent().Status
			e.Expect(before.CurrentRevision).NotTo(Equal(before.UpdateRevision))
			w.SetPartitions(Parts{"zone-b": 0, "zone-c": 0})
			w.Settle()
			nothing.Fires()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2 v2 v2 v2", "zone-c": "v2 v2 v2"}))
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
	w.T.Helper()
	mark := w.AuditMark()
	change()
	w.Settle()
	writes := w.WithoutConflicts(mark, Children)
	w.Expect(writes).To(HaveLen(1))
	w.Expect(writes[0].Name).To(Equal(w.Name + "-" + subset))
}
