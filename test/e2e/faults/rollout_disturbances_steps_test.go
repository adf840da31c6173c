// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// toZeroAndBack checks that a step which waits for approval still waits after a scale to 0 and back.
// All replicas come up on what they ran, and the rollout reaches the step again.
func toZeroAndBack(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("3", "3"),
			Rolling(`{steps: [{subsets: [zone-a], partition: 2, pause: {}}]}`)))
		w.Settle()
		current := w.Parent().Status.CurrentRevision
		line := e.History.Forbid(Protect("zone-a", 2, "v1"), Protect("zone-b", Everything, "v1"))
		w.SetImage("v2")
		key := w.AwaitApproval(0)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"}))

		for range 2 {
			e.Kubectl("scale", "united", "web", "--replicas=0")
			w.EmptyFor(current)
			e.Expect(w.Parent().Status.Rollout.Step).To(BeZero())
			from := e.History.Mark()
			e.Kubectl("scale", "united", "web", "--replicas=6")
			e.Expect(w.AwaitApproval(0)).To(Equal(key))
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"}))
			first := map[string]string{}
			for _, i := range e.History.Since(from) {
				if first[i.Name] == "" {
					first[i.Name] = i.Image
				}
			}
			e.Expect(first).To(And(HaveLen(6), HaveEach("v1")), "all come up protected")
		}
		ComesToRest(w, "zone-a", "zone-b")
		line.Holds()
		w.Approve(key)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		line.Fires()
	})
}

// anotherImageAtZero checks that a parent comes back from 0 on what it ran, and then rolls out the
// template that was set in the meantime.
func anotherImageAtZero(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("3", "3"), Rolling(`{}`)))
		w.Settle()
		current := w.Parent().Status.CurrentRevision
		e.Kubectl("scale", "united", "web", "--replicas=0")
		w.EmptyFor(current)
		w.SetImage("v2")
		w.EmptyFor(current)
		ledger := w.Ledger(6)
		e.Kubectl("scale", "united", "web", "--replicas=6")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2"}))
		for _, zone := range []string{"zone-a", "zone-b"} {
			w.CreatedAll(zone, "v1 v1 v2", 0, 1, 2)
		}
		ledger.TakenWithin(1)
		e.Expect(w.Parent().Status.CurrentRevision).NotTo(Equal(current))
	})
}

// editedStep checks that the rollout continues from the waiting step when the user edits its pause.
func editedStep(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		steps := func(pause string) string {
			return `{steps: [{subsets: [zone-a], partition: "0%", pause: {}}, {subsets: [zone-b], partition: 1, pause: ` + pause + `}, {subsets: [zone-b], partition: "0%", pause: {}}]}`
		}
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("", "", ""), Rolling(steps("{}"))))
		w.Settle()
		w.SetImage("v2")
		w.Approve(w.AwaitApproval(0))
		key := w.AwaitApproval(1)
		runs := Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v2 v2", "zone-c": "v1 v1 v1"}
		e.Expect(w.Images()).To(Equal(runs))

		still, mark := e.History.Forbid(AnyNewPod), e.AuditMark()
		w.SetRolling(steps("{duration: 1h}"))
		w.AwaitPhase(v1alpha1.RolloutPaused, "step 2 of 3")
		w.SetRolling(steps("{duration: 2h}"))
		w.AwaitPhase(v1alpha1.RolloutPaused, "step 2 of 3")
		w.SetRolling(steps("{}"))
		e.Expect(w.AwaitApproval(1)).To(Equal(key), "it is the step that it was")
		ComesToRest(w, "zone-a", "zone-b", "zone-c")
		still.Holds()
		told, _ := w.StepWrites(mark)
		e.Expect(told).NotTo(BeEmpty())
		for _, rollout := range told {
			e.Expect(rollout.Step).To(BeEquivalentTo(1))
		}
		e.Expect(w.Images()).To(Equal(runs))
		w.Approve(key)
		w.Approve(w.AwaitApproval(2))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		still.Fires()
	})
}

// lostZone removes a zone from the subsets and from the steps that name it, even a step that has
// passed, and checks that the rollout does not start over.
func lostZone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, after string
		step                int32
	}{
		{"named with another", `{subsets: [zone-a, zone-b], partition: 2, pause: {}}`, `{"subsets":["zone-b"],"partition":2,"pause":{}},`, 1},
		{"named alone", `{subsets: [zone-a], partition: 2, pause: {}}`, ``, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("3", "3", "3"),
					Rolling(`{steps: [`+c.before+`, {subsets: [zone-b], partition: 1, pause: {}}]}`)))
				w.Settle()
				w.SetImage("v2")
				w.Approve(w.AwaitApproval(0))
				w.AwaitApproval(1)
				still := e.History.Forbid(AnyNewPod)
				w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0"},{"op":"replace","path":"/spec/replicas","value":6},
					{"op":"replace","path":"/spec/updateStrategy/rollingUpdate/steps","value":[%s{"subsets":["zone-b"],"partition":1,"pause":{}}]}]`, c.after)
				key := w.AwaitApproval(c.step)
				e.Expect(apierrors.IsNotFound(e.Get(e.Ctx, e.Key("web-zone-a"), &appsv1.StatefulSet{}))).To(BeTrue())
				ComesToRest(w, "zone-b", "zone-c")
				still.Holds()
				e.Expect(w.Images()).To(Equal(Images{"zone-b": "v1 v2 v2", "zone-c": "v1 v1 v1"}))
				w.Approve(key)
				w.IsReady(v1alpha1.ReasonRolloutComplete)
				still.Fires()
			})
		})
	}
}

// pauseWithOutage checks that a pause counts only the time in which the step is complete.
func pauseWithOutage(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		const pause = 8 * time.Second
		w := e.Create(NewDraft("web", Replicas(4), Policy(p), Plain("one", ""), Rolling(`{steps: [{subsets: ["*"], partition: 3, pause: {duration: 8s}}]}`)))
		w.Settle()
		mark := e.AuditMark()
		w.SetImage("quiet-v2")
		w.AwaitWaiting("web-one-3")
		still := e.History.Forbid(AnyNewPod)
		w.MarkReady("one", 3)
		reached := w.AwaitPhase(v1alpha1.RolloutPaused, "step 1 of 1").ReachedTime
		e.AwaitServerTime(reached.Add(time.Second), func() {}) // so that SoakedSeconds is not 0
		w.MarkUnready("one", 3)
		var away v1alpha1.RolloutStatus
		w.Eventually(func(g Gomega) {
			away = w.Rollout()
			g.Expect(away.ReachedTime).To(BeNil())
			g.Expect(away.Revision).NotTo(BeEmpty())
		}).Should(Succeed())
		e.Expect(away.Step).To(BeZero(), "it does not stand, and was not passed before")
		e.Expect(away.SoakedSeconds).To(BeNumerically(">=", 1))
		e.Expect(away.SoakedSeconds).To(BeNumerically("<", pause.Seconds()))

		e.AwaitServerTime(e.ServerTime().Add(3*pause), func() { e.Expect(w.Rollout().Step).To(BeZero()) })
		ComesToRest(w, "one")
		e.Expect(w.Rollout().SoakedSeconds).To(Equal(away.SoakedSeconds))
		still.Holds()

		w.MarkReady("one", 3)
		w.Eventually(func() int32 { return w.Rollout().Step }).Should(BeEquivalentTo(1))
		w.Waves(1, nil)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		still.Fires()
		stoodFor(w, mark, pause)
	})
}

// stoodFor checks that the first step had been complete for the required time when it was passed,
// according to the status just before.
func stoodFor(w *Workload, mark int64, pause time.Duration) {
	w.T.Helper()
	told, at := w.StepWrites(mark)
	for i := 1; i < len(told); i++ {
		before := told[i-1]
		if before.Step != 0 || told[i].Step != 1 || !strings.HasPrefix(told[i].Message, "continuing after") {
			continue
		}
		w.Expect(before.ReachedTime).NotTo(BeNil())
		stood := at[i].Sub(before.ReachedTime.Time) + time.Duration(before.SoakedSeconds)*time.Second
		w.Expect(stood).To(BeNumerically(">=", pause))
		return
	}
	w.T.Fatalf("the status has not told that the step was passed: %s", AsJSON(told))
}
