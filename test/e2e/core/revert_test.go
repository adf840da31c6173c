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

// TestRevert stages a third template in mid-canary and goes back.
func TestRevert(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("2", "4", ""), Hold()))
		w.Settle()
		first := w.Parent().Status.UpdateRevision
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 2})
		w.Settle()
		second := w.Parent().Status.UpdateRevision

		e.Step("a second template moves what is released", func() {
			line := e.History.Forbid(Protect("zone-a", 0, ""), Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1"))
			w.SetImage("v3")
			w.Settle()
			line.Holds()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v3 v3", "zone-b": "v1 v1 v3 v3", "zone-c": "v1 v1 v1"}))
		})

		e.Step("there and back at once moves nothing that matches", func() {
			ran := e.History.Forbid(RestartOf(w.Pods(), "v1"))
			w.SetImage("v4")
			w.SetImage("v2")
			w.SetImage("v3")
			w.Settle()
			ran.Holds()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v3 v3", "zone-b": "v1 v1 v3 v3", "zone-c": "v1 v1 v1"}))
		})

		e.Step("back to the second re-uses its revision", func() {
			w.SetImage("v2")
			w.Settle()
			e.Expect(w.Parent().Status.UpdateRevision).To(Equal(second))
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1 v1"}))
		})

		e.Step("back to the first restarts no pod that runs it", func() {
			ran := e.History.Forbid(RestartOf(w.Pods(), "v1"))
			others := e.History.Forbid(RestartOf(w.Pods(), "v2"))
			w.SetImage("v1")
			w.Settle()
			ran.Holds()
			others.Fires()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1 v1 v1", "zone-c": "v1 v1 v1"}))
			status := w.Parent().Status
			e.Expect(status.UpdateRevision).To(Equal(first))
			e.Expect(status.CurrentRevision).To(Equal(first))
			e.Expect(status.UpdatedReadyReplicas).To(BeEquivalentTo(9), "held zones count too: they match")
		})

		e.Step("and the way on is open again", func() {
			line := e.History.Forbid(Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1"))
			w.SetImage("v2")
			w.Settle()
			line.Holds()
			e.Expect(w.Parent().Status.UpdateRevision).To(Equal(second))
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1 v1"}))
		})
	})
}

// TestRevertHeld holds everything in mid-canary, and goes back to the first template: what runs the second one goes back,
// although it is held, also in the zone that had finished it.
func TestRevertHeld(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("", "", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 1})
		w.Settle()
		w.SetPartitions(Parts{"zone-a": nil, "zone-b": nil})
		w.Settle()
		w.DeleteChild("zone-a", metav1.DeletePropagationBackground)
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v2", "zone-c": "v1 v1"}), "zone-a had finished v2 and protects it")

		ran := e.History.Forbid(RestartOf(w.Pods(), "v1"))
		second := e.History.Forbid(RestartOf(w.Pods(), "v2"))
		w.SetImage("v1")
		w.Settle()
		ran.Holds()
		second.Fires()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
	})
}
