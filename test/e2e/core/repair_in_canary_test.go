// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRepairInCanary breaks things in mid-canary: zone-a is done and held, zone-b is in the middle,
// zone-c has not begun. Every deleted object comes back as it was.
func TestRepairInCanary(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("3", "4", ""), Hold()))
		w.Settle()
		canary := Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 2})
		w.Settle()
		w.SetPartitions(Parts{"zone-a": nil})
		w.Settle()
		e.Expect(w.Images()).To(Equal(canary))
		before := w.Parent().Status

		// From here to the end, over the whole history: zone-a never goes back to v1, and the protected
		// ordinals of the other zones never go to v2.
		protected := e.History.Forbid(
			Protect("zone-a", Everything, "v2"), Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1"))
		asBefore := func() {
			e.T.Helper()
			w.Settle()
			protected.Holds()
			e.Expect(w.Images()).To(Equal(canary))
			after := w.Parent().Status
			e.Expect(after.CurrentRevision).To(Equal(before.CurrentRevision))
			e.Expect(after.UpdateRevision).To(Equal(before.UpdateRevision))
		}

		e.Step("a pod", func() {
			for _, victim := range []struct {
				subset  string
				ordinal int
			}{{"zone-a", 0}, {"zone-b", 0}, {"zone-b", 3}, {"zone-c", 1}} {
				w.DeletePod(victim.subset, victim.ordinal)
			}
			asBefore()
		})

		for _, subset := range []string{"zone-a", "zone-b", "zone-c"} {
			e.Step("the child of "+subset, func() {
				others := e.History.Forbid(Outside(subset))
				again := e.History.Forbid(AnyNewPod)
				w.DeleteChild(subset, metav1.DeletePropagationBackground)
				asBefore()
				others.Holds()
				e.Expect(again.Broken()).To(HaveLen(w.Count(subset)), "each of its pods was made anew, and once")
			})
			e.Step("the child of "+subset+", without its pods", func() {
				none := e.History.Forbid(AnyNewPod)
				living := e.History.Living()
				w.DeleteChild(subset, metav1.DeletePropagationOrphan)
				asBefore()
				none.Holds()
				e.Expect(e.History.Living()).To(Equal(living), "no pod is gone")
			})
		}

		e.Step("several children at once", func() {
			w.DeleteChildren(metav1.DeletePropagationBackground, "zone-b", "zone-c")
			asBefore()
			w.DeleteChildren(metav1.DeletePropagationBackground, "zone-a", "zone-b", "zone-c")
			asBefore()
			none := e.History.Forbid(AnyNewPod)
			w.DeleteChildren(metav1.DeletePropagationOrphan, "zone-a", "zone-b", "zone-c")
			asBefore()
			none.Holds()
		})

		e.Step("a child in the middle of its own repair", func() {
			for range 4 {
				w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
			}
			asBefore()
		})

		e.Step("scaled to 0 and at once back", func() {
			for range 3 {
				w.Scale(0)
				w.Scale(9)
				asBefore()
			}
		})

		e.Step("scaled to 0 and back when the children know", func() {
			w.Scale(0)
			w.Eventually(func() int32 { return *w.Child("zone-b").Spec.Replicas }).Should(BeZero())
			w.Scale(9)
			asBefore()
		})

		e.Step("scaled to 0 and back when all is gone", func() {
			w.Scale(0)
			w.Settle()
			e.Expect(w.Pods()).To(BeEmpty())
			e.Expect(w.Parent().Status.CurrentRevision).To(Equal(before.CurrentRevision), "no pods finish nothing")
			w.Scale(9)
			asBefore()
		})

		e.Step("the status is lost", func() {
			none := e.History.Forbid(AnyNewPod)
			w.WipeStatus()
			w.Eventually(func() string { return w.Status("zone-a").CurrentRevision }).Should(Equal(before.UpdateRevision))
			asBefore()
			none.Holds()
			w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
			asBefore()
		})

		e.Step("a subset that goes and comes again at once", func() {
			others := e.History.Forbid(Outside("zone-c"))
			w.Disturbed() // the old child may still exist
			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/2"},{"op":"replace","path":"/spec/replicas","value":7}]`)
			w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":%s},{"op":"replace","path":"/spec/replicas","value":9}]`, AsJSON(Zone(2, "")))
			asBefore()
			others.Holds()
		})

		e.Step("a new subset is held", func() {
			others := e.History.Forbid(Outside("zone-d"))
			held := e.History.Forbid(Protect("zone-d", Everything, "v1"))
			w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-d","replicas":2}},
				{"op":"replace","path":"/spec/replicas","value":11}]`)
			canary["zone-d"] = "v1 v1"
			asBefore()
			others.Holds()
			held.Holds()
		})

		e.Step("a new subset with a partition", func() {
			w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-e","replicas":3}},
				{"op":"replace","path":"/spec/replicas","value":14},
				{"op":"add","path":"/spec/updateStrategy/manualUpdate/partitions/zone-e","value":1}]`)
			canary["zone-e"] = "v1 v2 v2"
			line := e.History.Forbid(Protect("zone-e", 1, "v1"))
			asBefore()
			line.Holds()
			e.Expect(e.History.CreatedOn("web-zone-e-2")).To(Equal("v2"), "it never was on another")
		})

		e.Step("to the end", func() {
			w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0, "zone-d": 0, "zone-e": 0})
			w.Settle()
			protected.Fires()
			e.Expect(w.Images()).To(Equal(Images{
				"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2 v2", "zone-c": "v2 v2", "zone-d": "v2 v2", "zone-e": "v2 v2 v2",
			}))
			e.Expect(w.Parent().Status.CurrentRevision).To(Equal(before.UpdateRevision))
			w.SetPartitions(Parts{"zone-a": "100%", "zone-b": "100%", "zone-c": "100%", "zone-d": "100%", "zone-e": "100%"})
			w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
			w.Settle()
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v2 v2 v2 v2"), "what is protected now is v2")
		})
	})
}
