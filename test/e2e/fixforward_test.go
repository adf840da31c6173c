// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestFixForwardUnready checks that released, unready replicas of the old revision get time to become
// ready, and are replaced after progressDeadlineSeconds, although a StatefulSet with OrderedReady would
// wait for them forever.
func TestFixForwardUnready(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(8), policy(p), zones("", ""), hold()))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
		line := e.History.Forbid(protect("zone-a", 1, "v1"), protect("zone-b", everything, "v1"))
		w.MarkUnready("zone-a", 1)
		w.MarkUnready("zone-a", 3)
		w.SetPartitions(parts{"zone-a": 1})
		w.Patch(`{"spec":{"progressDeadlineSeconds":5}}`)
		w.Settle()
		line.Holds()
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v2 v2 v2", "zone-b": "v1 v1 v1 v1"}))
		for _, name := range []string{"web-zone-a-1", "web-zone-a-2", "web-zone-a-3"} {
			e.Expect(e.History.CreatedOn(name)).To(Equal("v1 v2"), "%s is replaced once", name)
		}
		w.SetPartitions(parts{"zone-b": 0})
		w.Settle()
		line.Fires()
	})
}

// TestFixForwardBroken checks that a broken template in mid-rollout can be replaced by a working one,
// or by going back.
func TestFixForwardBroken(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(4), policy(p), plain("one", ""), hold()))
		w.Settle()
		line := e.History.Forbid(protect("one", 1, "v1"))
		w.SetImage("broken-v2")
		w.SetPartitions(parts{"one": 1})
		w.Eventually(w.Images).Should(HaveKeyWithValue("one", "v1 v1 v1 broken-v2"))
		w.Eventually(func() string { return w.Status("one").Message }).Should(And(ContainSubstring("web-one-3"), ContainSubstring("CrashLoopBackOff")))

		e.Step("by another", func() {
			w.SetImage("v3")
			w.Settle()
			line.Holds()
			e.Expect(w.Images()).To(HaveKeyWithValue("one", "v1 v3 v3 v3"))
		})
		e.Step("by going back", func() {
			ran := e.History.Forbid(restartOf(w.Pods(), "v3"), restartOf(w.Pods(), "v1"))
			w.SetPartitions(parts{"one": 3})
			w.Settle()
			ran.Holds()
			w.SetImage("broken-v4")
			w.Eventually(w.Images).Should(HaveKeyWithValue("one", "v1 v3 v3 broken-v4"))
			w.SetImage("v3")
			w.Settle()
			e.Expect(w.Images()).To(HaveKeyWithValue("one", "v1 v3 v3 v3"))
			e.Expect(e.History.CreatedOn("web-one-2")).To(Equal("v1 v3"))
			line.Holds()
			w.SetPartitions(parts{"one": 0})
			w.Settle()
			line.Fires()
		})
	})
}

// TestFixForwardWaits checks that with OrderedReady nothing is deleted above a protected replica that
// is not ready, because it would not come back.
func TestFixForwardWaits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.Create(draft("web", replicas(3), plain("one", ""), hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	nothing := e.History.Forbid(anyNewPod)
	living := e.History.Living()
	w.MarkUnready("one", 0)
	w.MarkUnready("one", 2)
	w.SetPartitions(parts{"one": 1})
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
		g.Expect(w.Status("one").Message).To(ContainSubstring("web-one-2 (not ready"))
		child := w.Child("one")
		g.Expect(child.Status.ObservedGeneration).To(Equal(child.Generation))
	}).Should(Succeed())
	w.Patch(`{"spec":{"progressDeadlineSeconds":5}}`)
	w.IsNotReady(v1alpha1.ReasonProgressDeadlineExceeded) // both are broken by now, not merely unready
	expectRest(w, "one")                                  // the manager has reconciled again
	nothing.Holds()
	e.Expect(e.History.Living()).To(Equal(living))
	w.MarkReady("one", 0)
	w.Settle()
	nothing.Fires()
	e.Expect(w.Images()).To(HaveKeyWithValue("one", "v1 v2 v2"))
}

// TestFixForwardSeeded checks a child that was deleted in mid-rollout, works in order, and whose protected revision no
// longer comes up: the rollout goes on when the replica for which the child waits has failed.
func TestFixForwardSeeded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.Create(draft("web", replicas(3), policy(appsv1.OrderedReadyPodManagement), plain("one", ""), rolling(`{maxUnavailable: 3, partition: "100%"}`)))
	w.Settle()
	w.Patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	w.SetImage("quiet-v1")
	w.remindKubeletsUntil("one", 3)
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":"100%%"}}}}`)
	w.SetImage("v2")
	w.Settle()

	held := e.History.Forbid(protect("one", everything, "quiet-v1"))
	w.DeleteChild("one", metav1.DeletePropagationForeground)
	w.Eventually(w.Images).Should(HaveKeyWithValue("one", "quiet-v1"))
	w.Patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	w.Eventually(func() string { return w.Status("one").Message }).Should(And(ContainSubstring("waiting for replica 1 of web-one to be created"), ContainSubstring("web-one-0 (not ready")))
	held.Holds()
	w.Patch(`{"spec":{"progressDeadlineSeconds":5}}`) // the replica has failed then
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	e.Expect(w.Images()).To(HaveKeyWithValue("one", "v2 v2 v2"))
	held.Fires()
}
