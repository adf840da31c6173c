// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestChecksOutliveTheManager: a new manager releases nothing before it has read the object, whatever became of that meanwhile,
// and the failure that the last one found stands. A lost status is measured anew.
func TestChecksOutliveTheManager(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	e.MySQLClusters()
	cluster := e.MySQLCluster("shop")
	cluster.Create()
	cluster.Set(metav1.ConditionTrue, "Healthy")
	w := e.Create(NewDraft("db", Replicas(4), Zones("", ""), Rolling(`{maxUnavailable: 1, steps: [{subsets: [zone-a], partition: "50%"}], checks: [`+cluster.Check("mysql")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.SetImage("quiet-v2")
	w.AwaitWaiting("db-zone-a-1")
	still := e.History.Forbid(AnyNewPod)

	e.Step("met when it ended, and not any more", func() {
		e.RestartManager(func() {
			cluster.Set(metav1.ConditionFalse, "Degraded")
			w.MarkReady("zone-a", 1)
		})
		w.AwaitPhase(v1alpha1.RolloutProgressing, "waiting for check mysql: MySQLCluster shop is not Healthy (False, Degraded)")
		e.Expect(w.Rollout().Step).To(BeEquivalentTo(0))
		still.Holds()
	})
	e.Step("a failure stands", func() {
		w.Patch(`{"spec":{"progressDeadlineSeconds":2}}`)
		failed := w.AwaitCheck("mysql", v1alpha1.CheckHasFailed)
		mark := e.AuditMark()
		e.RestartManager(func() { w.Patch(`{"spec":{"progressDeadlineSeconds":600}}`) })
		w.StallsWhole(v1alpha1.ReasonCheckFailed, "Check mysql failed")
		e.Expect(w.AwaitCheck("mysql", v1alpha1.CheckHasFailed)).To(Equal(failed))
		for _, write := range e.Writes(mark, Statuses) {
			e.Expect(StatusOf(e, write).Rollout.Phase).To(Equal(v1alpha1.RolloutCheckFailed), "in between, too")
		}
		still.Holds()
	})
	e.Step("without a status it is measured anew", func() {
		w.WipeStatus()
		w.AwaitPhase(v1alpha1.RolloutProgressing, "waiting for check mysql")
		e.Expect(w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet).FailingTime).NotTo(BeNil())
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 quiet-v2", "zone-b": "v1 v1"}))
		still.Holds()
	})
	e.Step("met while no manager ran", func() {
		e.RestartManager(func() { cluster.Set(metav1.ConditionTrue, "Healthy") })
		w.Eventually(func() int32 {
			w.RemindKubeletsOf("")
			return w.Parent().Status.UpdatedReadyReplicas
		}).Should(BeEquivalentTo(4))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		still.Fires()
	})
}

// TestJobOutlivesTheManager: a new manager waits for the Job that runs. Without a status the rollout begins again with another one,
// and the first is deleted. What happens while no manager runs counts.
func TestJobOutlivesTheManager(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Rolling(`{steps: [{subsets: [zone-a], partition: "50%"}], checks: [`+Smoke("quiet")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.SetImage("v2")
	ran := w.AwaitCheck("smoke", v1alpha1.CheckRuns, "has not finished")
	still := e.History.Forbid(Protect("zone-b", Everything, "v1"))
	e.Step("a new manager waits for the same Job", func() {
		e.RestartManager(func() {})
		w.Patch(`{"spec":{"progressDeadlineSeconds":1000}}`)
		w.AwaitObserved()
		e.Expect(w.AwaitCheck("smoke", v1alpha1.CheckRuns)).To(Equal(ran))
		e.Expect(w.Jobs()).To(HaveLen(1))
		still.Holds()
	})
	e.Step("without a status there is another one", func() {
		w.WipeStatus()
		w.Eventually(func() string { return w.AwaitCheck("smoke", v1alpha1.CheckRuns, "has not finished").Run }).ShouldNot(Equal(ran.Run))
		w.Eventually(w.Jobs).Should(HaveLen(1))
		still.Holds()
	})
	e.Step("it succeeds while no manager runs", func() {
		job := w.Jobs()[0]
		e.RestartManager(func() { e.Succeed(&job) })
		w.Eventually(w.Jobs).Should(HaveLen(2), "the next one is that of the last step")
		w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2"}))
		still.Fires()
	})
}
