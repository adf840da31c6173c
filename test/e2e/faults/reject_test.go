// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRejectionOutlivesTheManager: a manager that dies in the middle of the way back, and one that finds no status, go on with
// it, though the check that had failed is met.
func TestRejectionOutlivesTheManager(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	e.MySQLClusters()
	cluster := e.MySQLCluster("shop")
	cluster.Create()
	cluster.Set(metav1.ConditionTrue, "Healthy")
	w := e.Create(NewDraft("db", Replicas(4), Zones("", ""), Rolling(`{maxUnavailable: 4, onFailure: Rollback, steps: [{subsets: ["*"], partition: "50%"}], checks: [`+cluster.Check("mysql")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	first := w.Parent().Status.CurrentRevision
	w.SetImage("quiet-v2")
	w.AwaitWaiting("db-zone-a-1", "db-zone-b-1")
	w.MarkReady("zone-a", 1)
	rejected := w.Parent().Status.UpdateRevision

	cluster.Set(metav1.ConditionFalse, "Degraded") // before the step can end
	w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet)
	w.MarkReady("zone-b", 1)
	w.Patch(`{"spec":{"progressDeadlineSeconds":2}}`)
	w.StallsWhole(v1alpha1.ReasonRevisionRejected, "("+known.Short(rejected)+") is rejected: check mysql failed: MySQLCluster shop is not Healthy (False, Degraded)")
	back := func() {
		w.StallsWhole(v1alpha1.ReasonRevisionRejected, "("+known.Short(rejected)+") is rejected: check mysql failed")
		w.Runs(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"})
		w.Eventually(func() string { return w.Parent().Status.Rollout.RejectedRevision }).Should(Equal(rejected))
		e.Expect(w.Parent().Status.CurrentRevision).To(Equal(first))
	}
	e.Step("the manager dies, and the status is lost meanwhile", func() {
		e.RestartManager(func() {
			w.WipeStatus()
			cluster.Set(metav1.ConditionTrue, "Healthy")
		})
		back()
	})
	e.Step("it dies at rest", func() {
		still := e.History.Forbid(AnyNewPod)
		e.RestartManager(func() {})
		back()
		ComesToRest(w, "zone-a", "zone-b")
		still.Holds()
	})
	e.Step("retried, and good now", func() {
		w.Patch(`{"spec":{"progressDeadlineSeconds":600}}`)
		w.Disturbed()
		w.Patch(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRetry, rejected)
		w.Eventually(func() string { return w.Parent().Status.Rollout.Revision }).Should(Equal(rejected))
		for _, ordinal := range []int{1, 0} {
			w.AwaitWaiting("db-zone-a-"+string(rune('0'+ordinal)), "db-zone-b-"+string(rune('0'+ordinal)))
			w.MarkReady("zone-a", ordinal)
			w.MarkReady("zone-b", ordinal)
		}
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Parent().Status.CurrentRevision).To(Equal(rejected))
	})
}
