// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// withoutStrategy is what a new user writes.
func withoutStrategy(d *Draft) { d.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{} }

// isComplete checks the condition Complete.
func isComplete(w *Workload, want metav1.ConditionStatus, reason string) {
	w.T.Helper()
	complete := Condition(w.Parent(), v1alpha1.ConditionComplete)
	w.Expect(complete.Status).To(Equal(want), complete.Message)
	w.Expect(complete.Reason).To(Equal(reason), complete.Message)
	w.Expect(complete.ObservedGeneration).To(Equal(w.Parent().Generation))
}

// TestAbsentMeansHeld checks that nothing is released by what is not there: no manualUpdate, one that a patch removes, and
// neither strategy after a coordinated rollout with a broken image.
func TestAbsentMeansHeld(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", ""), withoutStrategy))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	isComplete(w, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete)

	still := e.History.Forbid(AnyNewPod)
	w.SetImage("v2")
	w.IsReady(v1alpha1.ReasonRolloutHeld)
	isComplete(w, metav1.ConditionFalse, v1alpha1.ReasonRolloutHeld)
	e.Expect(Condition(w.Parent(), v1alpha1.ConditionReady).Message).To(HaveSuffix("; to release, set manualUpdate.partitions"))
	still.Holds()

	w.SetPartitions(Parts{"zone-a": 0})
	w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v1 v1"})
	still.Fires() // the control
	w.Settle()

	still = e.History.Forbid(AnyNewPod)
	w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":null}}}`)
	w.IsReady(v1alpha1.ReasonRolloutHeld)
	w.Patch(`{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{"partition":"100%%"}}}}`)
	w.SetImage("v3")
	w.Settle()
	w.Patch(`{"spec":{"updateStrategy":{"type":"Manual","rollingUpdate":null}}}`)
	w.IsReady(v1alpha1.ReasonRolloutHeld)
	still.Holds()

	w.Scale(0)
	w.Settle()
	isComplete(w, metav1.ConditionFalse, v1alpha1.ReasonNoReplicas)
}

// TestScalingReleasesNothing checks that what was protected stays so when an autoscaler scales in, also without the status,
// and with a new child; and that what the status says to write releases it.
func TestScalingReleasesNothing(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": "50%", "zone-b": "50%"})
		w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v2"})
		w.Settle()

		line := e.History.Forbid(Protect("zone-a", 2, "v1"), Protect("zone-b", 2, "v1"))
		w.Scale(4)
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))
		e.Expect(w.Status("zone-a").Message).To(Equal(`partition "50%" of 2 replicas protects 1, but scaling releases nothing, so 2 stay protected: to release, write 1`))

		w.WipeStatus()
		w.DeletePod("zone-a", 1)
		w.DeleteChildren(metav1.DeletePropagationBackground, "zone-b")
		w.Runs(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"})
		w.Settle()
		w.DeleteChildren(metav1.DeletePropagationOrphan, "zone-a")
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))
		line.Holds()

		w.SetPartitions(Parts{"zone-a": 1})
		w.Runs(Images{"zone-a": "v1 v2", "zone-b": "v1 v1"})
		line.Fires()
	})
}

// TestUndoEnds checks that nothing stays on a version that is taken back, whatever the partitions are: every replica goes
// back, one at a time in each subset, but not while the rollout is paused.
func TestUndoEnds(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(8), Policy(p), Zones("", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		second := w.Parent().Status.UpdateRevision
		w.SetPartitions(Parts{"zone-a": "50%"})
		w.Runs(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v1 v1"})
		w.Scale(12)
		w.Settle()
		e.Expect(w.Images()).To(HaveKeyWithValue("zone-a", "v1 v1 v2 v2 v2 v2"))
		w.Patch(`{"spec":{"paused":true,"updateStrategy":{"manualUpdate":{"partitions":null,"revision":%q}}}}`, second)
		w.Settle()

		still := e.History.Forbid(AnyNewPod)
		w.SetImage("v1")
		w.Settle()
		still.Holds()
		ran := e.History.Forbid(RestartOf(w.Pods(), "v1"))
		w.Patch(`{"spec":{"paused":false}}`)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		still.Fires()
		ran.Holds()
		all := "v1 v1 v1 v1 v1 v1"
		e.Expect(w.Images()).To(Equal(Images{"zone-a": all, "zone-b": all}))
		isComplete(w, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete)

		// The same template again is held as before.
		still = e.History.Forbid(AnyNewPod)
		w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":{"revision":null}}}}`)
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutHeld)
		still.Holds()
	})
}

// TestBoundRelease checks that partitions that are for one revision release nothing of another.
func TestBoundRelease(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Zones("", ""), withoutStrategy))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	second := w.Parent().Status.UpdateRevision
	w.SetImage("v3")
	w.Settle()

	still := e.History.Forbid(AnyNewPod)
	release := func(revision, partitions string) {
		w.JSONPatch(`[{"op":"add","path":"/spec/updateStrategy/manualUpdate","value":{"revision":%q,"partitions":%s}}]`, revision, partitions)
	}
	release(second, `{"zone-a":0,"zone-b":"50%"}`)
	w.IsReady(v1alpha1.ReasonRolloutHeld)
	third := w.Parent().Status.UpdateRevision
	e.Expect(Condition(w.Parent(), v1alpha1.ConditionReady).Message).To(HaveSuffix("; partitions are for " + known.Short(second) + ", so " + known.Short(third) + " is held"))
	still.Holds()

	release(third, `{"zone-b":"50%"}`)
	w.Runs(Images{"zone-a": "v1 v1", "zone-b": "v1 v3"})
	still.Fires()
	w.Settle()
	still = e.History.Forbid(AnyNewPod)
	w.SetImage("v4")
	w.IsReady(v1alpha1.ReasonRolloutHeld)
	still.Holds()
}

// TestRollbackAfterCompletion goes back from a version that is complete: without steps and approvals. The version that is left
// must go through the steps again, also if it was forced before, and then it is a version like any other.
func TestRollbackAfterCompletion(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(4), Policy(p), Zones("", ""), Rolling(`{maxUnavailable: 2, steps: [{subsets: [zone-a], partition: "50%", pause: {}}]}`)))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		w.SetImage("v2")
		w.Approve(w.AwaitApproval(0))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		isComplete(w, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete)
		second := w.Parent().Status.CurrentRevision
		w.Force(second)

		w.SetImage("v1")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))

		line := e.History.Forbid(Protect("zone-b", Everything, "v1"), Protect("zone-a", 1, "v1"))
		w.SetImage("v2")
		key := w.AwaitApproval(0)
		e.Expect(w.Rollout().Forced).To(BeFalse(), "it is spent")
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v2", "zone-b": "v1 v1"}))
		line.Holds()
		w.Approve(key)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		line.Fires()

		w.SetRolling(`{rollbackRevisions: 0}`)
		w.SetImage("v1")
		w.AwaitApproval(0)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v1", "zone-b": "v2 v2"}))
	})
}
