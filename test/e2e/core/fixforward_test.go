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

// TestFixForwardUnready checks that released, unready replicas of the old revision get time to become
// ready, and are replaced after progressDeadlineSeconds, although a StatefulSet with OrderedReady would
// wait for them forever.
func TestFixForwardUnready(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(8), Policy(p), Zones("", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
		line := e.History.Forbid(Protect("zone-a", 1, "v1"), Protect("zone-b", Everything, "v1"))
		w.MarkUnready("zone-a", 1)
		w.MarkUnready("zone-a", 3)
		w.SetPartitions(Parts{"zone-a": 1})
		w.Patch(`{"spec":{"progressDeadlineSeconds":5}}`)
		w.Settle()
		line.Holds()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v2 v2 v2", "zone-b": "v1 v1 v1 v1"}))
		for _, name := range []string{"web-zone-a-1", "web-zone-a-2", "web-zone-a-3"} {
			e.Expect(e.History.CreatedOn(name)).To(Equal("v1 v2"), "%s is replaced once", name)
		}
		w.SetPartitions(Parts{"zone-b": 0})
		w.Settle()
		line.Fires()
	})
}

// TestFixForwardBroken checks that a broken template in mid-rollout can be replaced by a working one,
// or by going back.
func TestFixForwardBroken(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(4), Policy(p), Plain("one", ""), Hold()))
		w.Settle()
		line := e.History.Forbid(Protect("one", 1, "v1"))
		w.SetImage("broken-v2")
		w.SetPartitions(Parts{"one": 1})
		w.Eventually(w.Images).Should(HaveKeyWithValue("one", "v1 v1 v1 broken-v2"))
		w.Eventually(func() string { return w.Status("one").Message }).Should(And(ContainSubstring("web-one-3"), ContainSubstring("CrashLoopBackOff")))

		e.Step("by another", func() {
			w.SetImage("v3")
			w.Settle()
			line.Holds()
			e.Expect(w.Images()).To(HaveKeyWithValue("one", "v1 v3 v3 v3"))
		})
		e.Step("by going back", func() {
			ran := e.History.Forbid(RestartOf(w.Pods(), "v3"), RestartOf(w.Pods(), "v1"))
			w.SetPartitions(Parts{"one": 3})
			w.Settle()
			ran.Holds()
			w.SetImage("broken-v4")
			w.Eventually(w.Images).Should(HaveKeyWithValue("one", "v1 v3 v3 broken-v4"))
			w.SetImage("v3")
			w.Settle()
			e.Expect(w.Images()).To(HaveKeyWithValue("one", "v1 v3 v3 v3"))
			e.Expect(e.History.CreatedOn("web-one-2")).To(Equal("v1 v3"))
			line.Holds()
			w.SetPartitions(Parts{"one": 0})
			w.Settle()
			line.Fires()
		})
	})
}

// TestFixForwardWaits checks that with OrderedReady nothing is deleted above a protected replica that
// is not ready, because it would not come back.
func TestFixForwardWaits(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(3), Plain("one", ""), Hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	nothing := e.History.Forbid(AnyNewPod)
	living := e.History.Living()
	w.MarkUnready("one", 0)
	w.MarkUnready("one", 2)
	w.SetPartitions(Parts{"one": 1})
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
		g.Expect(w.Status("one").Message).To(ContainSubstring("web-one-2 (not ready"))
		child := w.Child("one")
		g.Expect(child.Status.ObservedGeneration).To(Equal(child.Generation))
	}).Should(Succeed())
	w.Patch(`{"spec":{"progressDeadlineSeconds":5}}`)
	w.IsNotReady(v1alpha1.ReasonProgressDeadlineExceeded) // both are broken by now, not merely unready
	ExpectRest(w, "one")                                  // the manager has reconciled again
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
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(3), Policy(appsv1.OrderedReadyPodManagement), Plain("one", ""), Rolling(`{maxUnavailable: 3, partition: "100%"}`)))
	w.Settle()
	w.Patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	w.SetImage("quiet-v1")
	w.RemindKubeletsUntil("one", 3)
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":"100%%"}}}}`)
	w.SetImage("v2")
	w.Settle()

	held := e.History.Forbid(Protect("one", Everything, "quiet-v1"))
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
