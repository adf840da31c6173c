// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestOneRevisionAhead stages v2 in zone-a only, with v1 everywhere else, and then v3. zone-a protects
// v2, the others v1.
func TestOneRevisionAhead(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("", "", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": 0})
		w.Settle()
		second := w.Parent().Status.UpdateRevision
		w.JSONPatch(`[{"op":"remove","path":"/spec/updateStrategy/manualUpdate/partitions/zone-a"},
			{"op":"replace","path":%q,"value":%q}]`, ImagePath, Image("v3"))
		w.Settle()
		e.Expect(w.Status("zone-a").CurrentRevision).To(Equal(second))
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1 v1"}))
		held := e.History.Forbid(Protect("zone-a", 2, "v2"), Protect("zone-b", 1, "v1"), Protect("zone-c", Everything, "v1"))

		for _, line := range []struct {
			name       string
			partitions Parts
			want       Images
		}{
			{"held", nil, Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1 v1"}},
			{"in its middle", Parts{"zone-a": 2, "zone-b": 1}, Images{"zone-a": "v2 v2 v3", "zone-b": "v1 v3 v3", "zone-c": "v1 v1 v1"}},
		} {
			e.Step(line.name, func() {
				if line.partitions != nil {
					w.SetPartitions(line.partitions)
				}
				w.Settle()
				e.Expect(w.Images()).To(Equal(line.want))
				expect := func(how string) {
					e.T.Helper()
					w.Settle()
					held.Holds()
					e.Expect(w.Images()).To(Equal(line.want), how)
				}
				for _, subset := range []string{"zone-a", "zone-b"} {
					w.DeletePod(subset, 0)
					expect("after deletion of a pod in " + subset)
					w.DeleteChild(subset, metav1.DeletePropagationBackground)
					expect("after deletion of " + subset)
					none := e.History.Forbid(AnyNewPod)
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
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v5", "zone-b": "v1 v5 v5", "zone-c": "v1 v1 v1"}))
		})

		e.Step("to the end", func() {
			w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
			w.Settle()
			held.Fires()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v5 v5 v5", "zone-b": "v5 v5 v5", "zone-c": "v5 v5 v5"}))
			status := w.Parent().Status
			e.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
		})
	})
}

// TestFinishedJustNow stages a template at the moment when the status reports that a subset has
// finished another one, possibly before its StatefulSet has noticed: the subset protects the version
// that it finished.
func TestFinishedJustNow(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(4), Policy(p), Zones("", ""), Hold()))
		w.Settle()
		last := "v1"
		for _, round := range [][2]string{{"v2", "v3"}, {"v4", "v5"}, {"v6", "v7"}} {
			finished, next := round[0], round[1]
			e.Step(finished, func() {
				w.SetImage(finished)
				w.SetPartitions(Parts{"zone-a": 0})
				w.Eventually(func(g Gomega) {
					parent := w.Parent()
					g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
					g.Expect(parent.Status.Subsets[0].UpdatedReadyReplicas).To(Equal(int32(2)))
				}).WithPolling(time.Millisecond).Should(Succeed())
				w.JSONPatch(`[{"op":"remove","path":"/spec/updateStrategy/manualUpdate/partitions/zone-a"},
					{"op":"replace","path":%q,"value":%q}]`, ImagePath, Image(next))
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
