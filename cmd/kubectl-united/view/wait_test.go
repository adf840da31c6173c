// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

type waitEdit = func(*v1alpha1.UnitedDeployment)

// waitSees returns a parent of generation 2 with conditions of that generation.
func waitSees(ready, complete, stalled bool, reason, completeReason string, edits ...waitEdit) *v1alpha1.UnitedDeployment {
	p := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Generation: 2}}
	p.Status.ObservedGeneration = 2
	add := func(name string, value bool, reason string) {
		status := metav1.ConditionFalse
		if value {
			status = metav1.ConditionTrue
		}
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: name, Status: status, Reason: reason, Message: "said", ObservedGeneration: 2})
	}
	add(v1alpha1.ConditionReady, ready, reason)
	add(v1alpha1.ConditionComplete, complete, completeReason)
	add(v1alpha1.ConditionStalled, stalled, reason)
	for _, e := range edits {
		e(p)
	}
	return p
}

func waitDone(edits ...waitEdit) *v1alpha1.UnitedDeployment {
	return waitSees(true, true, false, v1alpha1.ReasonRolloutComplete, v1alpha1.ReasonRolloutComplete, edits...)
}

func waitHeld(reason string, edits ...waitEdit) *v1alpha1.UnitedDeployment {
	return waitSees(true, false, false, reason, reason, edits...)
}

func waitMoving(edits ...waitEdit) *v1alpha1.UnitedDeployment {
	return waitSees(false, false, false, v1alpha1.ReasonRollingOut, v1alpha1.ReasonRollingOut, edits...)
}

func waitStalled(reason string, edits ...waitEdit) *v1alpha1.UnitedDeployment {
	return waitSees(false, false, true, reason, reason, edits...)
}

func waitUnseen(p *v1alpha1.UnitedDeployment) { p.Generation = 3 }

// waitHalfSeen: the condition is of an earlier generation than the status.
func waitHalfSeen(p *v1alpha1.UnitedDeployment) { p.Generation, p.Status.ObservedGeneration = 3, 3 }

func waitRolling(phase v1alpha1.RolloutPhase, annotation, value string) waitEdit {
	return func(p *v1alpha1.UnitedDeployment) {
		p.Spec.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
		p.Status.UpdateRevision = "web-2"
		p.Status.Rollout = &v1alpha1.RolloutStatus{Revision: "web-2", Phase: phase, ApprovalKey: "key"}
		p.Annotations = map[string]string{annotation: value}
	}
}

func waitForced(p *v1alpha1.UnitedDeployment) { p.Status.Rollout.Forced = true }

func TestWaitLooksOnce(t *testing.T) {
	force := waitRolling(v1alpha1.RolloutFailed, v1alpha1.AnnotationForceUpdate, "web-2")
	approve := waitRolling(v1alpha1.RolloutAwaitingApproval, v1alpha1.AnnotationApproved, "key")
	for name, tc := range map[string]struct {
		parent                  *v1alpha1.UnitedDeployment
		settled, complete, held WaitOutcome
	}{
		"done":                      {waitDone(), WaitMet, WaitMet, WaitGoesOn},
		"held by partitions":        {waitHeld(v1alpha1.ReasonRolloutHeld), WaitMet, WaitGoesOn, WaitMet},
		"paused":                    {waitHeld(v1alpha1.ReasonPaused), WaitMet, WaitGoesOn, WaitMet},
		"awaiting approval":         {waitHeld(v1alpha1.ReasonAwaitingApproval), WaitMet, WaitGoesOn, WaitMet},
		"held, not as split":        {waitHeld(v1alpha1.ReasonReplicasNotHonored), WaitMet, WaitGoesOn, WaitMet},
		"no replicas":               {waitSees(true, false, false, v1alpha1.ReasonRolloutComplete, v1alpha1.ReasonNoReplicas), WaitMet, WaitGoesOn, WaitGoesOn},
		"no replicas, not as split": {waitSees(true, false, false, v1alpha1.ReasonReplicasNotHonored, v1alpha1.ReasonNoReplicas), WaitMet, WaitGoesOn, WaitGoesOn},
		"moving":                    {waitMoving(), WaitGoesOn, WaitGoesOn, WaitGoesOn},
		"stalled":                   {waitStalled(v1alpha1.ReasonApplyRefused), WaitFailed, WaitFailed, WaitFailed},
		"being deleted":             {waitDone(func(p *v1alpha1.UnitedDeployment) { p.DeletionTimestamp = ptr.To(metav1.Now()) }), WaitFailed, WaitFailed, WaitFailed},
		"no status":                 {&v1alpha1.UnitedDeployment{Status: v1alpha1.UnitedDeploymentStatus{ObservedGeneration: -1}}, WaitGoesOn, WaitGoesOn, WaitGoesOn},

		// Never from an earlier status.
		"done, unseen":                    {waitDone(waitUnseen), WaitGoesOn, WaitGoesOn, WaitGoesOn},
		"done, half seen":                 {waitDone(waitHalfSeen), WaitGoesOn, WaitGoesOn, WaitGoesOn},
		"held, unseen":                    {waitHeld(v1alpha1.ReasonPaused, waitUnseen), WaitGoesOn, WaitGoesOn, WaitGoesOn},
		"stalled, unseen":                 {waitStalled(v1alpha1.ReasonApplyRefused, waitUnseen), WaitGoesOn, WaitGoesOn, WaitGoesOn},
		"approved, unseen":                {waitHeld(v1alpha1.ReasonAwaitingApproval, approve), WaitGoesOn, WaitGoesOn, WaitGoesOn},
		"approved for another step":       {waitHeld(v1alpha1.ReasonAwaitingApproval, waitRolling(v1alpha1.RolloutAwaitingApproval, v1alpha1.AnnotationApproved, "other")), WaitMet, WaitGoesOn, WaitMet},
		"forced, unseen":                  {waitStalled(v1alpha1.ReasonReplicaFailed, force), WaitGoesOn, WaitGoesOn, WaitGoesOn},
		"forced, and failed all the same": {waitStalled(v1alpha1.ReasonReplicaFailed, force, waitForced), WaitFailed, WaitFailed, WaitFailed},
		"forced, which does not help":     {waitStalled(v1alpha1.ReasonInvalidSpec, force), WaitFailed, WaitFailed, WaitFailed},
		"forced to another revision":      {waitStalled(v1alpha1.ReasonReplicaFailed, waitRolling(v1alpha1.RolloutFailed, v1alpha1.AnnotationForceUpdate, "web-1")), WaitFailed, WaitFailed, WaitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			start := time.Unix(1000, 0)
			for what, want := range map[string]WaitOutcome{AwaitSettled: tc.settled, AwaitComplete: tc.complete, AwaitHeld: tc.held} {
				got, why, w := Wait{For: what, Deadline: start.Add(time.Hour)}.Look(&Sight{Parent: tc.parent, Now: start})
				g.Expect(got).To(Equal(want), "%s: %s", what, why)
				g.Expect(why).NotTo(BeEmpty())
				if want == WaitGoesOn {
					got, _, _ = w.Look(&Sight{Parent: tc.parent, Now: w.Deadline})
					g.Expect(got).To(BeElementOf(WaitTimedOut, WaitNobody))
				}
			}
		})
	}
}

// A wait ends when nobody answers for half a minute, and not because two clocks differ.
func TestWaitForSomebody(t *testing.T) {
	lease := func(renewed int64, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "united-system", Name: "united-manager"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: &metav1.MicroTime{Time: time.Unix(1000+renewed, 0)}}}
	}
	promote := waitRolling(v1alpha1.RolloutAwaitingApproval, v1alpha1.AnnotationPromote, "web-2")
	check := func(p *v1alpha1.UnitedDeployment) { p.Status.Rollout.Checks = []v1alpha1.CheckStatus{{Name: "mysql"}} }
	retry := func(p *v1alpha1.UnitedDeployment) {
		waitRolling(v1alpha1.RolloutCheckFailed, v1alpha1.AnnotationRetry, "web-2/again")(p)
		check(p)
	}
	retried := func(p *v1alpha1.UnitedDeployment) { p.Status.Rollout.Retried = coordination.RetryKey("web-2/again") }
	rejected := func(p *v1alpha1.UnitedDeployment) {
		waitRolling(v1alpha1.RolloutDone, v1alpha1.AnnotationRetry, "web-2/again")(p)
		p.Status.Rollout.Revision, p.Status.Rollout.RejectedRevision = "web-1", "web-2"
	}
	spent := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2", Annotations: map[string]string{v1alpha1.AnnotationLeft: "retried-" + coordination.RetryKey("web-2/again")}}}
	before := func(p *v1alpha1.UnitedDeployment) { p.Status.Rollout.Spent = coordination.SpentBy(p.Annotations) }
	again := waitRolling(v1alpha1.RolloutAwaitingApproval, v1alpha1.AnnotationPromote, "web-2/again")
	promoted := func(p *v1alpha1.UnitedDeployment) { p.Status.Rollout.Promoted = true }
	left := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2", Annotations: map[string]string{v1alpha1.AnnotationLeft: "forced,promoted"}}}
	force := waitRolling(v1alpha1.RolloutProgressing, v1alpha1.AnnotationForceUpdate, "web-2")
	third := func(p *v1alpha1.UnitedDeployment) { p.Generation = 4 }
	type sight struct {
		at     int64 // seconds
		parent *v1alpha1.UnitedDeployment
		lease  *coordinationv1.Lease
		update *appsv1.ControllerRevision
	}
	for name, tc := range map[string]struct {
		sights []sight // the last one has the outcome
		want   WaitOutcome
		says   string
	}{
		"no manager": {[]sight{{0, waitDone(waitUnseen), nil, nil}, {29, waitDone(waitUnseen), nil, nil}, {30, waitDone(waitUnseen), nil, nil}},
			WaitNobody, "no manager has observed generation 3 for 30s: is United running?"},
		"one that does not look": {[]sight{{0, waitDone(waitUnseen), lease(0, "a"), nil}, {30, waitDone(waitUnseen), lease(29, "a"), nil}},
			WaitNobody, "does it watch the namespace shop?"},
		"not yet":                  {[]sight{{0, waitDone(waitUnseen), nil, nil}, {29, waitDone(waitUnseen), nil, nil}}, WaitGoesOn, "no manager has observed generation 3 yet"},
		"each change has its time": {[]sight{{0, waitDone(waitUnseen), nil, nil}, {20, waitDone(third), nil, nil}, {40, waitDone(third), nil, nil}}, WaitGoesOn, ""},
		"an approval": {[]sight{{0, waitHeld(v1alpha1.ReasonAwaitingApproval, waitRolling(v1alpha1.RolloutAwaitingApproval, v1alpha1.AnnotationApproved, "key")), nil, nil},
			{30, waitHeld(v1alpha1.ReasonAwaitingApproval, waitRolling(v1alpha1.RolloutAwaitingApproval, v1alpha1.AnnotationApproved, "key")), nil, nil}},
			WaitNobody, "observed the annotation united.dev/approved for 30s"},
		"a force":                            {[]sight{{0, waitMoving(force), nil, nil}, {30, waitMoving(force), nil, nil}}, WaitNobody, "observed the annotation united.dev/force-update"},
		"a force is spent":                   {[]sight{{0, waitMoving(force), nil, left}, {30, waitMoving(force), nil, left}}, WaitGoesOn, "RollingOut: said"},
		"a retry":                            {[]sight{{0, waitStalled(v1alpha1.ReasonCheckFailed, retry), nil, nil}}, WaitGoesOn, "observed the annotation united.dev/retry"},
		"a retry is seen":                    {[]sight{{0, waitStalled(v1alpha1.ReasonCheckFailed, retry, retried), nil, nil}}, WaitFailed, ""},
		"a rejected one is retried":          {[]sight{{0, waitStalled(v1alpha1.ReasonRevisionRejected, rejected), nil, nil}}, WaitGoesOn, "observed the annotation united.dev/retry"},
		"a rejected one was retried":         {[]sight{{0, waitStalled(v1alpha1.ReasonRevisionRejected, rejected), nil, spent}}, WaitFailed, "RevisionRejected"},
		"a promote":                          {[]sight{{0, waitHeld(v1alpha1.ReasonAwaitingApproval, promote), nil, nil}}, WaitGoesOn, "observed the annotation united.dev/promote"},
		"a promote is seen":                  {[]sight{{0, waitHeld(v1alpha1.ReasonAwaitingApproval, promote, promoted), nil, nil}}, WaitMet, ""},
		"a promote is spent":                 {[]sight{{0, waitHeld(v1alpha1.ReasonAwaitingApproval, promote), nil, left}}, WaitMet, ""},
		"a promote was there before":         {[]sight{{0, waitHeld(v1alpha1.ReasonAwaitingApproval, promote, before), nil, nil}}, WaitMet, ""},
		"a promote with a text":              {[]sight{{0, waitHeld(v1alpha1.ReasonAwaitingApproval, again), nil, left}}, WaitGoesOn, "observed the annotation united.dev/promote"},
		"a force was there before":           {[]sight{{0, waitMoving(force, before), nil, nil}, {30, waitMoving(force, before), nil, nil}}, WaitGoesOn, "RollingOut: said"},
		"a manager dies":                     {[]sight{{0, waitMoving(), lease(0, "a"), nil}, {15, waitMoving(), lease(0, "a"), nil}, {45, waitMoving(), lease(0, "a"), nil}}, WaitNobody, "renewed the Lease united-system/united-manager for 30s: see kubectl get pods"},
		"another takes over":                 {[]sight{{0, waitMoving(), lease(0, "a"), nil}, {15, waitMoving(), lease(0, "a"), nil}, {32, waitMoving(), lease(32, "b"), nil}, {46, waitMoving(), lease(46, "b"), nil}}, WaitGoesOn, ""},
		"one hands over":                     {[]sight{{0, waitMoving(), lease(0, ""), nil}, {29, waitMoving(), lease(0, ""), nil}, {30, waitDone(), lease(30, "b"), nil}}, WaitMet, ""},
		"done, but nobody keeps it so":       {[]sight{{0, waitDone(), lease(-3600, "a"), nil}}, WaitGoesOn, "no manager has renewed"},
		"stalled, whoever is there":          {[]sight{{0, waitStalled(v1alpha1.ReasonApplyRefused), lease(-3600, "a"), nil}}, WaitFailed, "ApplyRefused: said"},
		"a clock that is behind":             {[]sight{{0, waitDone(), lease(-3600, "a"), nil}, {2, waitDone(), lease(-3598, "a"), nil}}, WaitMet, ""},
		"a clock that is ahead":              {[]sight{{0, waitDone(), lease(3600, "a"), nil}, {2, waitDone(), lease(3602, "a"), nil}}, WaitMet, ""},
		"a clock that is ahead, and it dies": {[]sight{{0, waitMoving(), lease(3600, "a"), nil}, {30, waitMoving(), lease(3600, "a"), nil}}, WaitNobody, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := Wait{For: AwaitSettled, Deadline: time.Unix(2000, 0)}
			for i, s := range tc.sights {
				var got WaitOutcome
				var why string
				got, why, w = w.Look(&Sight{Parent: s.parent, Lease: s.lease, Update: s.update, Now: time.Unix(1000+s.at, 0)})
				if i < len(tc.sights)-1 {
					g.Expect(got).To(Equal(WaitGoesOn), "at %d: %s", s.at, why)
					continue
				}
				g.Expect(got).To(Equal(tc.want), why)
				g.Expect(why).To(ContainSubstring(tc.says))
			}
		})
	}
}

// While the API server is away, no manager can answer.
func TestWaitForgives(t *testing.T) {
	g := NewWithT(t)
	w := Wait{For: AwaitSettled, Deadline: time.Unix(2000, 0)}
	_, _, w = w.Look(&Sight{Parent: waitDone(waitUnseen), Now: time.Unix(1000, 0)})
	got, _, w := w.Away().Look(&Sight{Parent: waitDone(waitUnseen), Now: time.Unix(1040, 0)})
	g.Expect(got).To(Equal(WaitGoesOn))
	got, _, _ = w.Look(&Sight{Parent: waitDone(waitUnseen), Now: time.Unix(1070, 0)})
	g.Expect(got).To(Equal(WaitNobody))
}

// Whoever waits with the plugin continues with it.
func TestWaitNamesApprove(t *testing.T) {
	g := NewWithT(t)
	parent := waitHeld(v1alpha1.ReasonAwaitingApproval)
	for i := range parent.Status.Conditions {
		parent.Status.Conditions[i].Message = "step 1 of 2 reached; to continue, run: kubectl annotate --overwrite united -n shop web united.dev/approved=key"
	}
	sight := &Sight{Parent: parent, Now: time.Unix(1000, 0)}
	got, why, w := Wait{For: AwaitHeld, Deadline: time.Unix(2000, 0)}.Look(sight)
	g.Expect(got).To(Equal(WaitMet))
	g.Expect(why).To(Equal("AwaitingApproval: step 1 of 2 reached; to continue, run: kubectl united approve web -n shop"))
	g.Expect(w.Line(sight)).To(HavePrefix(why))
}

// A pipeline that waits for its version does not succeed with another one.
func TestWaitForRevision(t *testing.T) {
	g := NewWithT(t)
	parent := waitDone()
	parent.Status.UpdateRevision = "web-1"
	for revision, want := range map[string]WaitOutcome{"": WaitMet, "web-1": WaitMet, "web-2": WaitFailed} {
		got, why, _ := Wait{For: AwaitComplete, Revision: revision, Deadline: time.Unix(2000, 0)}.Look(&Sight{Parent: parent, Now: time.Unix(1000, 0)})
		g.Expect(got).To(Equal(want), "%s: %s", revision, why)
	}
	parent.Generation++ // which may be the change that makes it
	got, _, _ := Wait{For: AwaitComplete, Revision: "web-2", Deadline: time.Unix(2000, 0)}.Look(&Sight{Parent: parent, Now: time.Unix(1000, 0)})
	g.Expect(got).To(Equal(WaitGoesOn))
}
