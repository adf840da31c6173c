// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestCheckThatFlips turns a condition ten times a second. Between two values that are not met, nothing is released, and the
// status is written no more often than any that returns to what it was. Between met and not met, the rollout still ends, and
// others do not wait.
func TestCheckThatFlips(t *testing.T) {
	t.Parallel()
	control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
	control.Settle()
	e := NewEnv(t)
	e.MySQLClusters()
	cluster := e.MySQLCluster("shop")
	cluster.Create()
	w := e.Create(NewDraft("db", Replicas(4), Zones("", ""), Rolling(`{maxUnavailable: 1, checks: [`+cluster.Check("mysql")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still := e.History.Forbid(AnyNewPod)
	w.SetImage("v2")
	w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet)

	mark, began := e.AuditMark(), time.Now()
	turns := flip(cluster, metav1.ConditionFalse, metav1.ConditionUnknown, 100)
	e.Expect(turns).To(BeNumerically(">=", 100))
	e.Expect(e.Writes(mark, Children)).To(BeEmpty())
	e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<=", 20+int(time.Since(began).Seconds())), "of %d turns", turns)
	still.Holds()
	control.Reacts()

	e.Step("met at times, it ends", func() {
		mark := e.AuditMark()
		turns := 0
		for range 20 {
			turns += flip(cluster, metav1.ConditionFalse, metav1.ConditionTrue, 20)
			if w.Rollout().Phase == v1alpha1.RolloutDone {
				break
			}
		}
		still.Fires()
		control.Reacts()
		e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<", turns), "of %d turns", turns)
		cluster.Set(metav1.ConditionTrue, "Healthy")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
	})
}

// flip turns the condition of an object between two values, ten times a second, and returns how often.
func flip(c *Conditioned, a, b metav1.ConditionStatus, times int) (turns int) {
	c.T.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(c.Ctx, WaitTimeout)
	defer cancel()
	for turns < times {
		select {
		case <-ctx.Done():
			c.T.Fatal(ctx.Err())
		case <-tick.C:
			c.Set([]metav1.ConditionStatus{a, b}[turns%2], "Flips")
			turns++
		}
	}
	return turns
}

// TestCheckOnWhatIsMalformed gives the object conditions of wrong types, and many: it is not met, and nothing breaks.
func TestCheckOnWhatIsMalformed(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	e.MySQLClusters()
	cluster := e.MySQLCluster("shop")
	cluster.Create()
	w := e.Create(NewDraft("db", Replicas(2), Zones("", ""), Rolling(`{checks: [`+cluster.Check("mysql")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still := e.History.Forbid(AnyNewPod)
	w.SetImage("v2")
	for _, status := range []string{
		`{"conditions":"Healthy"}`,
		`{"conditions":{"type":"Healthy","status":"True"}}`,
		`{"conditions":["Healthy",null,1,[],{}]}`,
		`{"conditions":[{"type":["Healthy"],"status":"True"}]}`,
		`{"conditions":[{"type":"healthy","status":"True"}]}`,
	} {
		cluster.Patch(`{"status":`+status+`}`, "status")
		w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet, "has no condition Healthy")
	}
	cluster.Patch(`{"status":{"conditions":[{"type":"Healthy","status":true,"reason":{}}]}}`, "status")
	w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet, "MySQLCluster shop is not Healthy ()")
	for _, generation := range []string{`-1`, `"1"`, `1.5`, `{}`} {
		cluster.Patch(`{"status":{"observedGeneration":`+generation+`,"conditions":[{"type":"Healthy","status":"True"}]}}`, "status")
		w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet, "has a change that its controller has not observed yet")
		cluster.Patch(`{"status":{"conditions":null}}`, "status")
		w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet, "has no condition Healthy")
	}
	still.Holds()
	cluster.Patch(`{"status":{"observedGeneration":1,"conditions":[{"type":"Healthy","status":"True","observedGeneration":9223372036854775807}]}}`, "status")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still.Fires()
}
