// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRepairInCanary breaks things in mid-canary: zone-a is done and held, zone-b is in the middle,
// zone-c has not begun. Every deleted object comes back as it was.
func TestRepairInCanary(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(9), policy(p), zones("3", "4", ""), hold()))
		w.Settle()
		canary := images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}
		w.SetImage("v2")
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 2})
		w.Settle()
		w.SetPartitions(parts{"zone-a": nil})
		w.Settle()
		e.Expect(w.Images()).To(Equal(canary))
		before := w.Parent().Status

		// From here to the end, over the whole history: zone-a never goes back to v1, and the protected
		// ordinals of the other zones never go to v2.
		protected := e.History.Forbid(
			protect("zone-a", everything, "v2"), protect("zone-b", 2, "v1"), protect("zone-c", everything, "v1"))
		asBefore := func() {
			e.t.Helper()
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
				others := e.History.Forbid(outside(subset))
				again := e.History.Forbid(anyNewPod)
				w.DeleteChild(subset, metav1.DeletePropagationBackground)
				asBefore()
				others.Holds()
				e.Expect(again.Broken()).To(HaveLen(w.Count(subset)), "each of its pods was made anew, and once")
			})
			e.Step("the child of "+subset+", without its pods", func() {
				none := e.History.Forbid(anyNewPod)
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
			none := e.History.Forbid(anyNewPod)
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
			none := e.History.Forbid(anyNewPod)
			w.WipeStatus()
			w.Eventually(func() string { return w.Status("zone-a").CurrentRevision }).Should(Equal(before.UpdateRevision))
			asBefore()
			none.Holds()
			w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
			asBefore()
		})

		e.Step("a subset that goes and comes again at once", func() {
			others := e.History.Forbid(outside("zone-c"))
			w.Disturbed() // the old child may still exist
			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/2"},{"op":"replace","path":"/spec/replicas","value":7}]`)
			w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":%s},{"op":"replace","path":"/spec/replicas","value":9}]`, asJSON(zone(2, "")))
			asBefore()
			others.Holds()
		})

		e.Step("a new subset is held", func() {
			others := e.History.Forbid(outside("zone-d"))
			held := e.History.Forbid(protect("zone-d", everything, "v1"))
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
			line := e.History.Forbid(protect("zone-e", 1, "v1"))
			asBefore()
			line.Holds()
			e.Expect(e.History.CreatedOn("web-zone-e-2")).To(Equal("v2"), "it never was on another")
		})

		e.Step("to the end", func() {
			w.SetPartitions(parts{"zone-a": 0, "zone-b": 0, "zone-c": 0, "zone-d": 0, "zone-e": 0})
			w.Settle()
			protected.Fires()
			e.Expect(w.Images()).To(Equal(images{
				"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2 v2", "zone-c": "v2 v2", "zone-d": "v2 v2", "zone-e": "v2 v2 v2",
			}))
			e.Expect(w.Parent().Status.CurrentRevision).To(Equal(before.UpdateRevision))
			w.SetPartitions(parts{"zone-a": "100%", "zone-b": "100%", "zone-c": "100%", "zone-d": "100%", "zone-e": "100%"})
			w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
			w.Settle()
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v2 v2 v2 v2"), "what is protected now is v2")
		})
	})
}

// TestOneRevisionAhead stages v2 in zone-a only, with v1 everywhere else, and then v3. zone-a protects
// v2, the others v1.
func TestOneRevisionAhead(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(9), policy(p), zones("", "", ""), hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(parts{"zone-a": 0})
		w.Settle()
		second := w.Parent().Status.UpdateRevision
		w.JSONPatch(`[{"op":"remove","path":"/spec/updateStrategy/manualUpdate/partitions/zone-a"},
			{"op":"replace","path":%q,"value":%q}]`, imagePath, image("v3"))
		w.Settle()
		e.Expect(w.Status("zone-a").CurrentRevision).To(Equal(second))
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1 v1"}))
		held := e.History.Forbid(protect("zone-a", 2, "v2"), protect("zone-b", 1, "v1"), protect("zone-c", everything, "v1"))

		for _, line := range []struct {
			name       string
			partitions parts
			want       images
		}{
			{"held", nil, images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1 v1"}},
			{"in its middle", parts{"zone-a": 2, "zone-b": 1}, images{"zone-a": "v2 v2 v3", "zone-b": "v1 v3 v3", "zone-c": "v1 v1 v1"}},
		} {
			e.Step(line.name, func() {
				if line.partitions != nil {
					w.SetPartitions(line.partitions)
				}
				w.Settle()
				e.Expect(w.Images()).To(Equal(line.want))
				expect := func(how string) {
					e.t.Helper()
					w.Settle()
					held.Holds()
					e.Expect(w.Images()).To(Equal(line.want), how)
				}
				for _, subset := range []string{"zone-a", "zone-b"} {
					w.DeletePod(subset, 0)
					expect("after deletion of a pod in " + subset)
					w.DeleteChild(subset, metav1.DeletePropagationBackground)
					expect("after deletion of " + subset)
					none := e.History.Forbid(anyNewPod)
					w.DeleteChild(subset, metav1.DeletePropagationOrphan)
					expect("after deletion of " + subset + " without its pods")
					none.Holds()
				}
				w.Scale(0)
				w.Scale(9)
				expect("scaled to 0 and at once back")
				w.Scale(0)
				w.Settle()
				w.Scale(9)
				expect("scaled to 0 and back")
			})
		}

		e.Step("with other templates staged while there is no pod", func() {
			w.Scale(0)
			w.Settle()
			w.SetImage("v4")
			w.Settle()
			w.SetImage("v5")
			w.Scale(9)
			w.Settle()
			held.Holds()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2 v5", "zone-b": "v1 v5 v5", "zone-c": "v1 v1 v1"}))
		})

		e.Step("to the end", func() {
			w.SetPartitions(parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
			w.Settle()
			held.Fires()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v5 v5 v5", "zone-b": "v5 v5 v5", "zone-c": "v5 v5 v5"}))
			status := w.Parent().Status
			e.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
		})
	})
}

// TestFinishedJustNow stages a template at the moment when the status reports that a subset has
// finished another one, possibly before its StatefulSet has noticed: the subset protects the version
// that it finished.
func TestFinishedJustNow(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(4), policy(p), zones("", ""), hold()))
		w.Settle()
		last := "v1"
		for _, round := range [][2]string{{"v2", "v3"}, {"v4", "v5"}, {"v6", "v7"}} {
			finished, next := round[0], round[1]
			e.Step(finished, func() {
				w.SetImage(finished)
				w.SetPartitions(parts{"zone-a": 0})
				w.Eventually(func(g Gomega) {
					parent := w.Parent()
					g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
					g.Expect(parent.Status.Subsets[0].UpdatedReadyReplicas).To(Equal(int32(2)))
				}).WithPolling(time.Millisecond).Should(Succeed())
				w.JSONPatch(`[{"op":"remove","path":"/spec/updateStrategy/manualUpdate/partitions/zone-a"},
					{"op":"replace","path":%q,"value":%q}]`, imagePath, image(next))
				w.Settle()
				w.DeletePod("zone-a", 1)
				w.Settle()
				w.DeleteChild("zone-a", metav1.DeletePropagationBackground)
				w.Settle()
				e.Expect(w.Images()).To(HaveKeyWithValue("zone-a", finished+" "+finished))
				e.Expect(e.History.CreatedOn("web-zone-a-1")).To(HaveSuffix(strings.Join([]string{last, finished, finished, finished}, " ")))
				last = finished
			})
		}
	})
}
