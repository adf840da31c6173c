// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRolloutDisturbed checks, on a real control plane, disturbances that a rollout does not cause:
// readiness that flaps, replicas that never come up, scaling in the middle, foreign objects, quotas,
// and users who change their mind.
func TestRolloutDisturbed(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T){
		"flapping in order":      flappingInOrder,
		"flapping under Manual":  flappingUnderManual,
		"never ready":            neverReady,
		"a later zone is broken": laterZoneBroken,
		"to zero and back":       toZeroAndBack,
		"another image at zero":  anotherImageAtZero,
		"growing while failed":   growingWhileFailed,
		"a name clash":           nameClash,
		"a foreign partition":    foreignPartition,
		"foreign replicas":       foreignReplicas,
		"an edited step":         editedStep,
		"a lost zone":            lostZone,
		"barred":                 barred,
		"blocked and forced":     blockedAndForced,
		"no more revisions":      noMoreRevisions,
		"a pause with an outage": pauseWithOutage,
	} {
		t.Run(name, run)
	}
}

// flappingInOrder checks that replicas which are briefly not ready, while another one is being updated,
// are neither deleted nor released.
func flappingInOrder(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("w", Replicas(3), Plain("a", ""), Rolling(`{}`)))
	w.Settle()
	losses := w.Losses()
	w.SetImage("quiet-v2")
	w.AwaitWaiting("w-a-2")
	still := e.History.Forbid(AnyNewPod)
	for _, ordinals := range [][]int{{1}, {0}, {1, 0}} {
		w.Unreadies("a", ordinals...)
		ComesToRest(w, "a")
		w.Readies("a", "v1")
		ComesToRest(w, "a")
	}
	still.Holds()
	e.Expect(losses.Names()).To(Equal([]string{"w-a-2"}))

	e.Step("it goes on, and the watch sees it", func() {
		w.MarkReady("a", 2)
		w.Waves(1, nil)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		still.Fires()
		e.Expect(losses.Names()).To(Equal([]string{"w-a-2", "w-a-1", "w-a-0"}))
		w.DeletePod("a", 1)
		e.Expect(losses.Names()).To(Equal([]string{"w-a-2", "w-a-1", "w-a-0", "w-a-1"}))
	})
}

// flappingUnderManual releases everything, while one replica is being updated. The manager does not
// delete a replica that is briefly not ready, but deletes a broken one. From Kubernetes 1.37 on the
// StatefulSet itself replaces released replicas that are not ready.
func flappingUnderManual(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("w", Replicas(8), Policy(appsv1.ParallelPodManagement), Plain("a", ""), Partitions(Parts{"a": 0})))
	w.Settle()
	w.SetImage("quiet-v2")
	w.AwaitWaiting("w-a-7")
	mark, losses := e.AuditMark(), w.Losses()
	w.Unreadies("a", upTo(7)...)
	ComesToRest(w, "a")
	w.Readies("a", "v1")
	ComesToRest(w, "a")
	e.Expect(e.Deleted(mark)).To(BeEmpty())
	e.Expect(e.DeletedBy(mark, statefulSets)).To(ContainElements(losses.Names()))
	w.RemindKubeletsUntil("a", 8)
	w.Settle()
	w.CreatedAll("a", "v1 quiet-v2", upTo(8)...)

	e.Step("a broken one it deletes", func() {
		x := e.Create(NewDraft("x", Replicas(3), Plain("a", ""), Partitions(Parts{"a": 0})))
		x.Settle()
		x.SetImage("quiet-v2")
		x.AwaitWaiting("x-a-2")
		mark, losses := e.AuditMark(), x.Losses()
		x.Unreadies("a", 1)
		e.Expect(e.Deleted(mark)).To(BeEmpty())
		e.Expect(losses.Names()).To(BeEmpty(), "in order not even the StatefulSet does")
		x.MarkReady("a", 1)
		x.Crash("a", 1)
		e.Eventually(func() []string { return e.Deleted(mark) }).Should(Equal([]string{"x-a-1"}))
		e.Expect(e.DeletedBy(mark, statefulSets)).NotTo(ContainElement("x-a-1"))
		e.Expect(losses.Names()).To(Equal([]string{"x-a-1"}))
		x.RemindKubeletsUntil("a", 3)
		x.Settle()
		x.CreatedAll("a", "v1 quiet-v2", upTo(3)...)
	})
}

// neverReady checks a new version whose lowest replica never becomes ready and does not crash. Neither
// going back nor going forward needs help.
func neverReady(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		for _, to := range []string{"v1", "v3"} {
			w := e.Create(NewDraft("w-"+to, Replicas(3), Policy(p), Plain("a", ""), Rolling(`{}`)))
			w.Settle()
			w.SetImage("quiet-v2")
			w.RemindKubeletsUntil("a", 2)
			w.AwaitWaiting(w.Name + "-a-0")
			still := e.History.Forbid(AnyNewPod)
			ComesToRest(w, "a") // it waits without a deadline
			still.Holds()
			ledger := w.Ledger(3)
			w.SetImage(to)
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			still.Fires()
			e.Expect(w.Images()).To(Equal(Images{"a": fmt.Sprintf("%[1]s %[1]s %[1]s", to)}))
			ledger.TakenWithin(1)
		}
	})
}

// laterZoneBroken checks zones that go one after the other, the second of which is broken. On the way
// back no zone waits for another one.
func laterZoneBroken(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		for _, crash := range []bool{false, true} {
			w := e.Create(NewDraft(fmt.Sprintf("w-%t", crash), Replicas(4), Policy(p), Zones("2", "2"), Rolling(`{order: Sequential}`)))
			w.Settle()
			w.SetImage("quiet-v2")
			w.RemindKubeletsUntil("zone-a", 2)
			w.AwaitWaiting(w.Name + "-zone-b-1")
			if crash {
				w.Crash("zone-b", 1)
				w.StallsWhole(v1alpha1.ReasonReplicaFailed, w.Name+"-zone-b-1 (CrashLoopBackOff")
			}
			kept := e.History.Forbid(RestartOf(w.Pods(), "v1"))
			ledger := w.Ledger(4)
			w.SetImage("v1")
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			kept.Holds()
			ledger.TakenWithin(1)
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))
			w.CreatedAll("zone-b", "v1 quiet-v2 v1", 1)
			w.CreatedAll("zone-b", "v1", 0)
			e.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
			w.SetImage("v3")
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			kept.Fires()
		}
	})
}

// growingWhileFailed checks that a failed rollout creates no more replicas of the failing version, not
// even by scaling.
func growingWhileFailed(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("w", Replicas(4), Policy(p), Plain("a", ""), Rolling(`{}`)))
		w.Settle()
		bad := e.History.Forbid(on("broken-v2"))
		w.SetImage("broken-v2")
		w.StallsWhole(v1alpha1.ReasonReplicaFailed, "w-a-3 (CrashLoopBackOff")
		w.Scale(12)
		if p == appsv1.ParallelPodManagement {
			w.Eventually(func() int { return w.Count("a") }).Should(Equal(12))
		}
		w.StallsWhole(v1alpha1.ReasonReplicaFailed, "w-a-3 (CrashLoopBackOff")
		ComesToRest(w, "a")
		e.Expect(w.Asked("a")).To(BeEquivalentTo(12))
		e.Expect(bad.Broken()).To(Equal([]string{"w-a-3 created on broken-v2: nothing may be created on broken-v2"}))

		ledger := w.Ledger(12)
		w.SetImage("v3")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"a": "v3 v3 v3 v3 v3 v3 v3 v3 v3 v3 v3 v3"}))
		e.Expect(bad.Broken()).To(HaveLen(1))
		ledger.GrownWithin(1, 4)
	})
}
