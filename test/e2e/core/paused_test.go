// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestPaused checks that paused freezes the rollout, while scaling and repair continue.
func TestPaused(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(12), Policy(p), Zones("", "", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": "50%"})
		w.Settle()
		frozen := Images{"zone-a": "v2 v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1 v1 v1"}
		e.Expect(w.Images()).To(Equal(frozen))

		w.Patch(`{"spec":{"paused":true}}`)
		w.Settle()
		moved := e.History.Forbid(RestartOf(w.Pods(), "v2"))
		nothing := e.History.Forbid(AnyNewPod)
		e.Step("a new template is not staged", func() {
			generations := func() (all []int64) {
				for _, zone := range []string{"zone-a", "zone-b", "zone-c"} {
					all = append(all, w.Child(zone).Generation)
				}
				return all
			}
			before := generations()
			w.SetImage("v3")
			w.Settle()
			nothing.Holds()
			e.Expect(generations()).To(Equal(before), "only the record of what was asked is written")
			e.Expect(w.Child("zone-a").Spec.Template.Spec.Containers[0].Image).To(Equal(Image("v2")))
			e.Expect(w.Status("zone-b").Phase).To(Equal(v1alpha1.PhasePaused))
			e.Expect(w.Parent().Status.UpdatedReplicas).To(BeZero())
		})
		e.Step("a lower partition releases nothing", func() {
			w.SetPartitions(Parts{"zone-c": 0, "zone-b": 0})
			w.Settle()
			nothing.Holds()
			w.SetPartitions(Parts{"zone-b": "50%"})
			w.Settle()
			nothing.Holds()
		})
		e.Step("scaling up releases nothing", func() {
			line := e.History.Forbid(Protect("zone-a", Everything, "v2"), Protect("zone-b", Everything, "v1"), Protect("zone-c", Everything, "v1"))
			w.Scale(18)
			w.Settle()
			line.Holds()
			moved.Holds()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2 v2 v2 v2", "zone-b": "v1 v1 v2 v2 v1 v1", "zone-c": "v1 v1 v1 v1 v1 v1"}))
		})
		e.Step("scaling down releases nothing", func() {
			none := e.History.Forbid(AnyNewPod)
			w.Scale(6)
			w.Settle()
			none.Holds()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
		})
		e.Step("repair goes on", func() {
			line := e.History.Forbid(Protect("zone-a", Everything, "v2"), Protect("zone-b", Everything, "v1"), Protect("zone-c", Everything, "v1"))
			w.DeletePod("zone-a", 1)
			w.DeletePod("zone-b", 0)
			w.DeleteChild("zone-c", metav1.DeletePropagationBackground)
			w.DeleteChild("zone-a", metav1.DeletePropagationBackground)
			w.Settle()
			w.Scale(0)
			w.Settle()
			w.Scale(12)
			w.Settle()
			line.Holds()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2 v2", "zone-b": "v1 v1 v1 v1", "zone-c": "v1 v1 v1 v1"}))
		})
		e.Step("unpaused it goes on", func() {
			line := e.History.Forbid(Protect("zone-b", 2, "v1"))
			w.Patch(`{"spec":{"paused":false}}`)
			w.Settle()
			line.Holds()
			moved.Fires()
			nothing.Fires()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v3 v3 v3 v3", "zone-b": "v1 v1 v3 v3", "zone-c": "v3 v3 v3 v3"}))
		})
	})
}
