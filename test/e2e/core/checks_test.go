// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestCheckLowersOneByOne is what MOCO does: the next replica is released only while the MySQLCluster is Healthy, which the
// rollout itself disturbs. The last one must have brought it back, or the new revision does not become the current one.
func TestCheckLowersOneByOne(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.MySQLClusters()
	cluster := e.MySQLCluster("shop")
	w := e.Create(NewDraft("db", Replicas(3), Zones("", "", ""), Rolling(`{maxUnavailable: 3, checks: [`+cluster.Check("mysql")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete) // the first rollout is not checked
	first := w.Parent().Status.UpdateRevision
	still := e.History.Forbid(AnyNewPod)

	w.SetImage("quiet-v2")
	for _, phase := range []struct {
		name, why string
		make      func()
	}{
		{"it does not exist", "MySQLCluster shop does not exist", func() {}},
		{"it has no condition", "MySQLCluster shop has no condition Healthy", cluster.Create},
		{"it is not met", "MySQLCluster shop is not Healthy (False, Degraded)", func() { cluster.Set(metav1.ConditionFalse, "Degraded") }},
		{"it is unknown", "MySQLCluster shop is not Healthy (Unknown)", func() { cluster.Set(metav1.ConditionUnknown, "") }},
		{"it is of an earlier generation", "MySQLCluster shop has a change that its controller has not observed yet", func() {
			cluster.Patch(`{"spec":{"replicas":5}}`)
			cluster.Patch(`{"status":{"observedGeneration":1,"conditions":[{"type":"Healthy","status":"True"}]}}`, "status")
		}},
		{"its condition is of an earlier generation", "MySQLCluster shop has a change that its controller has not observed yet", func() {
			cluster.Patch(`{"status":{"observedGeneration":null,"conditions":[{"type":"Healthy","status":"True","observedGeneration":1}]}}`, "status")
		}},
	} {
		e.Step(phase.name, func() {
			phase.make()
			w.AwaitPhase(v1alpha1.RolloutProgressing, "waiting for check mysql: "+phase.why)
			w.IsNotReady(v1alpha1.ReasonRollingOut)
			w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet, phase.why)
			ComesToRest(w, "zone-a", "zone-b", "zone-c")
			still.Holds()
		})
	}
	zones := []string{"zone-a", "zone-b", "zone-c"}
	e.Step("each replica waits until the cluster is Healthy again", func() {
		w.SetRolling(`{maxUnavailable: 1}`)
		for i, zone := range zones {
			cluster.Set(metav1.ConditionTrue, "Healthy")
			w.AwaitWaiting("db-" + zone + "-0")
			cluster.Set(metav1.ConditionFalse, "Failover")
			w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet, "Failover")
			w.MarkReady(zone, 0)
			w.Eventually(func() int32 { return w.Parent().Status.UpdatedReadyReplicas }).Should(BeEquivalentTo(i + 1))
			mark := e.AuditMark()
			w.AwaitPhase(v1alpha1.RolloutProgressing, "waiting for check mysql: MySQLCluster shop is not Healthy (False, Failover)")
			e.Expect(e.Writes(mark, Children)).To(BeEmpty())
		}
		still.Fires()
	})
	e.Step("the last one, too", func() {
		parent := w.Parent()
		e.Expect(parent.Status.CurrentRevision).To(Equal(first))
		e.Expect(Condition(parent, v1alpha1.ConditionComplete).Status).To(Equal(metav1.ConditionFalse))
		e.Expect(Condition(parent, v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
		cluster.Set(metav1.ConditionTrue, "Healthy")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Parent().Status.CurrentRevision).To(Equal(parent.Status.UpdateRevision))
		e.Expect(Condition(w.Parent(), v1alpha1.ConditionComplete).Status).To(Equal(metav1.ConditionTrue))
	})
	e.Step("a rollout that has ended does not look any more", func() {
		mark := e.AuditMark()
		cluster.Set(metav1.ConditionFalse, "Failover")
		w.SetRolling(`{maxUnavailable: 2}`) // the manager sees the condition at the latest in the pass after this
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(e.Writes(mark, Children)).To(BeEmpty())
	})
}

// TestCheckFails: not met for progressDeadlineSeconds while a replica is released is a failure, until it is met again. Going
// back and force do not ask.
func TestCheckFails(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.MySQLClusters()
	cluster := e.MySQLCluster("shop")
	cluster.Create()
	cluster.Set(metav1.ConditionTrue, "Healthy")
	w := e.Create(NewDraft("db", Replicas(4), Zones("", ""), Rolling(`{steps: [{subsets: [zone-a], partition: "50%", pause: {}}], checks: [`+cluster.Check("mysql")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Patch(`{"spec":{"progressDeadlineSeconds":4}}`)
	w.SetImage("v2")
	key := w.AwaitApproval(0)
	still := e.History.Forbid(AnyNewPod)

	fails := func() {
		cluster.Set(metav1.ConditionFalse, "Degraded")
		w.AwaitPhase(v1alpha1.RolloutCheckFailed, "check mysql failed: MySQLCluster shop is not Healthy (False, Degraded), since ", "united.dev/retry="+w.Parent().Status.UpdateRevision)
		w.StallsWhole(v1alpha1.ReasonCheckFailed, "Check mysql failed")
	}
	e.Step("it fails, and is met again", func() {
		fails()
		w.AwaitEvent(corev1.EventTypeWarning, v1alpha1.ReasonCheckFailed, "Check mysql failed")
		w.Approve(key) // it does not help
		ComesToRest(w, "zone-a", "zone-b")
		still.Holds()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v2", "zone-b": "v1 v1"}))
	})
	e.Step("a failure is not measured anew but on request, once", func() {
		failed := w.AwaitCheck("mysql", v1alpha1.CheckHasFailed)
		retry := func(value string) {
			w.Disturbed()
			w.Patch(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRetry, value)
		}
		retry("db-other")
		w.AwaitPhase(v1alpha1.RolloutCheckFailed, `the annotation united.dev/retry is "db-other", which is not the update revision`)
		retry(w.Parent().Status.UpdateRevision + "/please")
		w.AwaitEvent(corev1.EventTypeNormal, v1alpha1.EventChecksRetried, "measured anew")
		again := w.AwaitCheck("mysql", v1alpha1.CheckHasFailed) // after another progressDeadlineSeconds
		e.Expect(again.FailingTime.After(failed.FailingTime.Time)).To(BeTrue())
		still.Holds()
	})
	e.Step("the plugin shows it, and measures anew", func() {
		failed := w.AwaitCheck("mysql", v1alpha1.CheckHasFailed)
		e.Expect(e.Does("status", "db")).To(MatchRegexp(`Check mysql failed: MySQLCluster shop is not Healthy \(False, Degraded\)(.|\n)*Check +mysql Failed since`))
		e.Expect(e.Does("why", "db")).To(ContainSubstring("CheckFailed"))
		e.Expect(e.Does("plan", "db", "--image", "*="+Image("v9"))).To(ContainSubstring("check mysql holds the rollout, as it does now: MySQLCluster shop is not Healthy (False, Degraded)"))
		for range 2 { // each time with another value
			e.Expect(e.Does("retry", "db")).To(ContainSubstring("are measured anew"))
			w.Eventually(func() bool {
				again := w.AwaitCheck("mysql", v1alpha1.CheckHasFailed)
				later := again.FailingTime.After(failed.FailingTime.Time)
				failed = again
				return later
			}).Should(BeTrue())
		}
		still.Holds()
	})
	e.Step("it is met again", func() {
		cluster.Set(metav1.ConditionTrue, "Healthy")
		w.AwaitEvent(corev1.EventTypeNormal, v1alpha1.EventCheckMet, "Check mysql is met again")
		w.IsReady(v1alpha1.ReasonRolloutComplete) // the approval stands
		still.Fires()
	})
	e.Step("going back does not ask", func() {
		w.SetImage("v3")
		w.AwaitApproval(0)
		fails()
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2"}))
	})
	e.Step("nor does force, but steps hold", func() {
		w.SetImage("v4")
		w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet)
		w.Force(w.Parent().Status.UpdateRevision)
		w.Approve(w.AwaitApproval(0))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v4 v4", "zone-b": "v4 v4"}))
	})
}

// TestCheckOnWhatMayNotBeRead: the message has the line for the values of the chart. With the permission the rollout continues
// by itself.
func TestCheckOnWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Zones("", ""), Rolling(`{checks: [{name: budget, objectCondition: {apiVersion: policy/v1, kind: PodDisruptionBudget, name: web, type: Healthy}}]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still := e.History.Forbid(AnyNewPod)
	w.SetImage("v2")
	w.StallsWhole(v1alpha1.ReasonBlocked, "Waiting for check budget: United is not permitted to read poddisruptionbudgets.policy",
		"add {apiGroup: policy, resources: [poddisruptionbudgets]} to checks.objects")
	still.Holds()
	e.MayRead("policy", "poddisruptionbudgets")
	w.AwaitPhase(v1alpha1.RolloutProgressing, "PodDisruptionBudget web does not exist")
	still.Holds()
	budget := &Conditioned{Env: e, APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Name: "web"}
	budget.Create()
	budget.Set(metav1.ConditionTrue, "Tested")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still.Fires()
}

// TestCheckOnWhatIsReadForOtherReasons: the manager may read Deployments and Pods, and a check may not name them, unless the values of
// the chart say so.
func TestCheckOnWhatIsReadForOtherReasons(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Zones("", ""), Rolling(`{checks: [{name: other, objectCondition: {apiVersion: apps/v1, kind: Deployment, name: db, type: Available}}]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still := e.History.Forbid(AnyNewPod)
	w.SetImage("v2")
	w.StallsWhole(v1alpha1.ReasonBlocked, "Waiting for check other: United is not permitted to read deployments.apps",
		"add {apiGroup: apps, resources: [deployments]} to checks.objects")
	w.Patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"checks":[{"name":"other","objectCondition":{"apiVersion":"v1","kind":"Pod","name":"web-zone-a-0","type":"Ready"}}]}}}}`)
	w.StallsWhole(v1alpha1.ReasonBlocked, `add {apiGroup: "", resources: [pods]} to checks.objects`)
	still.Holds()
	w.Patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"checks":null}}}}`)
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still.Fires()
}

// TestCheckOnAKindThatComesLater: the rollout waits, and continues when the kind is served and the object is as it should be.
func TestCheckOnAKindThatComesLater(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.MayRead("later.example.com", "laters")
	later := &Conditioned{Env: e, APIVersion: "later.example.com/v1", Kind: "Later", Name: "shop"}
	w := e.Create(NewDraft("web", Replicas(2), Zones("", ""), Rolling(`{checks: [`+later.Check("later")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still := e.History.Forbid(AnyNewPod)
	w.SetImage("v2")
	w.AwaitPhase(v1alpha1.RolloutProgressing, "the API server does not serve Later of later.example.com/v1: install its CustomResourceDefinition")
	still.Holds()
	e.Serve("later.example.com", "v1", "Later")
	w.AwaitPhase(v1alpha1.RolloutProgressing, "Later shop does not exist")
	later.Create()
	later.Set(metav1.ConditionTrue, "Tested")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still.Fires()

	e.Step("a kind that is gone is not met", func() {
		still := e.History.Forbid(AnyNewPod)
		e.Kubectl("delete", "crd", "laters.later.example.com")
		w.SetImage("v3")
		w.AwaitCheck("later", v1alpha1.CheckIsNotMet)
		still.Holds()
		e.Serve("later.example.com", "v1", "Later")
		later.Create()
		later.Set(metav1.ConditionTrue, "Tested")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		still.Fires()
	})
}

// TestCheckLooksAtItsOwnNamespace: an object of that name in another namespace does not count, and a check cannot name a
// namespace.
func TestCheckLooksAtItsOwnNamespace(t *testing.T) {
	t.Parallel()
	other := NewEnv(t)
	other.MySQLClusters()
	theirs := other.MySQLCluster("shop")
	theirs.Create()
	theirs.Set(metav1.ConditionTrue, "Healthy")
	e := NewEnv(t)
	w := e.Create(NewDraft("db", Replicas(2), Zones("", ""), Rolling(`{checks: [`+e.MySQLCluster("shop").Check("mysql")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.SetImage("v2")
	w.AwaitPhase(v1alpha1.RolloutProgressing, "MySQLCluster shop does not exist")
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1"}))
	ours := e.MySQLCluster("shop")
	ours.Create()
	ours.Set(metav1.ConditionTrue, "Healthy")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.JSONPatch(`[{"op":"add","path":"/spec/updateStrategy/rollingUpdate/checks/0/objectCondition/namespace","value":%q}]`, other.Namespace)
	e.Expect(AsJSON(w.Parent().Spec)).NotTo(ContainSubstring(other.Namespace), "a field that does not exist is dropped")
}
