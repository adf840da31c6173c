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

// TestRolloutSteps goes through steps with a timed pause and approvals, and checks that stale approvals
// open nothing.
func TestRolloutSteps(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("", "", ""), Rolling(`{maxUnavailable: 2, steps: [
			{subsets: [zone-a], partition: "90%", pause: {}}, {subsets: [zone-a], partition: "0%", pause: {}}, {subsets: [zone-b], partition: "0%", pause: {duration: 1h}}]}`)))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		ledger := w.Ledger(9)
		zones := []string{"zone-a", "zone-b", "zone-c"}

		w.SetImage("v2")
		older := w.AwaitApproval(0)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1 v1"}))
		ExpectRest(w, zones...)

		var first string
		e.Step("the key of an older revision opens nothing", func() {
			w.SetImage("v3")
			first = w.AwaitApproval(0)
			e.Expect(first).NotTo(Equal(older))
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-a", "v1 v1 v3"))
			opensAlone(w, 0, first, "zone-a", older)
		})
		e.Step("nor does that of an older step", func() {
			second := w.AwaitApproval(1)
			e.Expect(second).NotTo(Equal(first))
			opensAlone(w, 1, second, "zone-b", older, first)
		})
		e.Step("nor does force", func() {
			w.AwaitPhase(v1alpha1.RolloutPaused, "step 3 of 3")
			w.IsNotReady(v1alpha1.ReasonStepPaused)
			still := e.History.Forbid(AnyNewPod)
			w.Force(w.Parent().Status.UpdateRevision)
			w.Eventually(func() bool { return w.Rollout().Forced }).Should(BeTrue())
			ComesToRest(w, zones...)
			still.Holds()
			e.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
			w.AwaitPhase(v1alpha1.RolloutPaused, "step 3 of 3")
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-c", "v1 v1 v1"))
		})
		e.Step("a pause ends by itself", func() {
			w.Patch(`{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AnnotationForceUpdate)
			still := e.History.Forbid(AnyNewPod)
			w.SetRolling(`{steps: [{subsets: [zone-b], partition: "0%", pause: {duration: 2h}}]}`) // fewer steps than have passed
			w.AwaitPhase(v1alpha1.RolloutPaused, "step 1 of 1")
			ComesToRest(w, zones...)
			still.Holds()
			w.SetRolling(`{steps: [{subsets: [zone-b], partition: "0%", pause: {duration: 2s}}]}`)
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			e.Expect(w.Images()).To(Equal(ThreeZones("v3 v3 v3")))
		})
		e.Step("a timed pause is not ready, and the next revision goes through it", func() {
			mark := e.AuditMark()
			w.SetImage("v4")
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			sawPause(w, mark)
		})
		ledger.Within(2)
	})
}

// opensAlone checks that stale keys do not open a step, and that its own key brings v3 to a zone.
func opensAlone(w *Workload, step int32, key, zone string, stale ...string) {
	w.T.Helper()
	still := w.History.Forbid(AnyNewPod)
	for _, other := range stale {
		w.ApproveInVain(other)
	}
	// The status reports a zone as complete before its StatefulSet has settled.
	w.AwaitObserved()
	w.Eventually(func() string { return NotSettledInStatus(w.Parent()) }).Should(BeEmpty())
	ExpectRest(w, "zone-a", "zone-b", "zone-c")
	still.Holds()
	w.Expect(w.AwaitApproval(step)).To(Equal(key))
	w.Approve(key)
	w.Eventually(w.Images).Should(HaveKeyWithValue(zone, "v3 v3 v3"))
	still.Fires()
}

// sawPause waits until the status has reported a timed pause since a mark, and checks that it never
// reported Ready during the pause.
func sawPause(w *Workload, mark int64) {
	w.T.Helper()
	w.Eventually(func() int {
		paused := 0
		for _, write := range w.Writes(mark, Statuses) {
			status := StatusOf(w.Env, write)
			if status.Rollout != nil && status.Rollout.Phase == v1alpha1.RolloutPaused {
				paused++
				ready := Condition(&v1alpha1.UnitedDeployment{Status: status}, v1alpha1.ConditionReady)
				w.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
			}
		}
		return paused
	}).Should(BeNumerically(">", 0))
}

// TestRolloutBack checks that going back to what all replicas ran needs no approval.
func TestRolloutBack(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("", "", ""), Rolling(`{steps: [{subsets: ["*"], partition: "50%", pause: {}}]}`)))
		w.Settle()
		w.SetImage("v2")
		key := w.AwaitApproval(0)
		e.Expect(w.Images()).To(Equal(ThreeZones("v1 v2")))
		kept := e.History.Forbid(RestartOf(w.Pods(), "v1"))
		ledger := w.Ledger(6)
		w.SetImage("v1")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(ThreeZones("v1 v1")))
		ledger.Within(1)
		kept.Holds()

		e.Step("the same revision again waits for an approval of its own", func() {
			w.Approve(key) // of the abandoned rollout
			w.SetImage("v2")
			again := w.AwaitApproval(0)
			e.Expect(again).NotTo(Equal(key))
			e.Expect(w.Images()).To(Equal(ThreeZones("v1 v2")))
			w.Approve(again)
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			kept.Fires()
		})
	})
}

// TestRolloutAndManual switches between the strategies in mid-canary, and checks that replicas stay
// until the spec asks for more.
func TestRolloutAndManual(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("", "", ""), Partitions(Parts{"zone-a": 1})))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
		canary := Images{"zone-a": "v1 v2 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1 v1"}
		e.Expect(w.Images()).To(Equal(canary))
		still := e.History.Forbid(AnyNewPod)
		w.Patch(`{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{"partition":"100%%"}}}}`)
		w.IsReady(v1alpha1.ReasonRolloutHeld)
		ExpectRest(w, "zone-a", "zone-b", "zone-c")
		w.Patch(`{"spec":{"updateStrategy":{"type":"Manual","rollingUpdate":null,"manualUpdate":{"partitions":{}}}}}`)
		w.IsReady(v1alpha1.ReasonRolloutHeld)
		e.Expect(w.Parent().Status.Rollout).To(BeNil())
		ExpectRest(w, "zone-a", "zone-b", "zone-c")
		still.Holds()
		e.Expect(w.Images()).To(Equal(canary))

		e.Step("a step from where it stands", func() {
			line := e.History.Forbid(Protect("zone-b", 1, "v1"), Protect("zone-c", Everything, "v1"))
			w.Patch(`{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,
				"rollingUpdate":{"steps":[{"subsets":["zone-b"],"partition":1,"pause":{}}]}}}}`)
			w.AwaitApproval(0)
			line.Holds()
			still.Fires()
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v1 v2 v2"))
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-a", "v1 v2 v2"))
		})
		e.Step("back to Manual, which holds", func() {
			still := e.History.Forbid(AnyNewPod)
			w.Patch(`{"spec":{"updateStrategy":{"type":"Manual","rollingUpdate":null,"manualUpdate":{"partitions":{"zone-a":1,"zone-b":1}}}}}`)
			w.IsReady(v1alpha1.ReasonRolloutHeld)
			ExpectRest(w, "zone-a", "zone-b", "zone-c")
			still.Holds()
			w.SetPartitions(Parts{"zone-c": 2})
			w.IsReady(v1alpha1.ReasonRolloutHeld)
			still.Fires()
		})
		w.Patch(`{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{"order":"Sequential"}}}}`)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(ThreeZones("v2 v2 v2")))
		for _, p := range w.Pods() {
			e.Expect(e.History.CreatedOn(p.Name)).To(Equal("v1 v2"), p.Name)
		}
	})
}
