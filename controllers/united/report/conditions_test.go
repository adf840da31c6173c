// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// The message about an overridden status does not change from pass to pass.
func TestJudgeOverridden(t *testing.T) {
	parent, lasts := &v1alpha1.UnitedDeployment{Status: v1alpha1.UnitedDeploymentStatus{
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Fine"}},
	}}, false
	first := time.Unix(1e9, 0)
	pass := func(now time.Time) *v1alpha1.UnitedDeploymentStatus {
		status := parent.Status.DeepCopy()
		set := setter(status, 1, now)
		set(v1alpha1.ConditionReady, true, v1alpha1.ReasonRolloutComplete, "fine")
		set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonRolloutComplete, "fine")
		set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonNotStalled, "")
		setOverridden(parent, status, &undone.OverriddenError{Object: "status", Lasting: lasts}, now)
		return status
	}
	for _, lasting := range []bool{false, true} {
		lasts = lasting
		parent.Status = *pass(first)
		if !meta.IsStatusConditionFalse(parent.Status.Conditions, v1alpha1.ConditionReady) ||
			meta.IsStatusConditionTrue(parent.Status.Conditions, v1alpha1.ConditionStalled) != lasting {
			t.Error(lasting, parent.Status.Conditions)
		}
		if diff := cmp.Diff(&parent.Status, pass(first.Add(time.Minute))); diff != "" {
			t.Error(lasting, "another status each time:", diff)
		}
	}
	setter(&parent.Status, 1, first)(v1alpha1.ConditionStalled, true, v1alpha1.ReasonReplicaFailed, "a failure")
	before := parent.Status.DeepCopy()
	setOverridden(parent, &parent.Status, &undone.OverriddenError{Object: "status", Lasting: lasts}, first)
	if diff := cmp.Diff(before, &parent.Status); diff != "" {
		t.Error("what stalls otherwise comes first:", diff)
	}
}

// TestFightsAreTheReason: if somebody undoes each write, that is the reason why the parent is not ready, and not
// what its subset waits for because of that, unless something has stalled.
func TestFightsAreTheReason(t *testing.T) {
	in := &planner.Input{World: world.World{Parent: &v1alpha1.UnitedDeployment{}, Spec: &spec.Spec{Subsets: []spec.Subset{{}}}}}
	fight := &tally{name: "zone-c", phase: v1alpha1.PhaseScaling, message: "m", failure: &subset.Failure{Reason: v1alpha1.ReasonOverridden}}
	for _, tc := range []struct {
		name            string
		phase           v1alpha1.SubsetPhase
		tallies         []*tally
		reason, message string
	}{
		{"a fight", v1alpha1.PhaseScaling, []*tally{fight}, v1alpha1.ReasonOverridden, "zone-c: m"},
		{"none", v1alpha1.PhaseScaling, []*tally{{name: "zone-c", phase: v1alpha1.PhaseScaling}}, v1alpha1.ReasonScaling, "zone-c: m"},
		{"another failure", v1alpha1.PhaseScaling, []*tally{{name: "zone-c", failure: &subset.Failure{Reason: v1alpha1.ReasonApplyFailed}}}, v1alpha1.ReasonScaling, "zone-c: m"},
		{"it has stalled", v1alpha1.PhaseStalled, []*tally{fight}, v1alpha1.ReasonApplyFailed, "zone-c: m"},
	} {
		status := &v1alpha1.UnitedDeploymentStatus{Subsets: []v1alpha1.SubsetStatus{{Name: "zone-c", Phase: tc.phase, Message: "m"}}}
		if ready, reason, message := readiness(in, &planner.Plan{Initialized: true}, tc.tallies, status); ready || reason != tc.reason || message != tc.message {
			t.Error(tc.name, ready, reason, message)
		}
	}
}

// A surge pod is in addition to the replicas that somebody asked for.
func TestTotalsAreOfTheDesiredReplicas(t *testing.T) {
	surge := func(updated int32) *v1alpha1.UnitedDeploymentStatus {
		return &v1alpha1.UnitedDeploymentStatus{
			ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: 7, ReadyReplicas: 7, AvailableReplicas: 7, UpdatedReplicas: updated},
			Subsets:       []v1alpha1.SubsetStatus{{Name: "a", DesiredReplicas: 3}, {Name: "b", DesiredReplicas: 3}},
		}
	}
	for updated, want := range map[int32]string{0: "0 of 6 replicas run web-2, 6 do not", 1: "1 of 6 replicas run web-2, 5 do not", 7: "6 of 6 replicas run web-2, 0 do not"} {
		ran, wanted := runUpdate(surge(updated))
		if got := fmt.Sprintf("%s, %d do not", howManyRun(surge(updated), "web-2"), wanted-ran); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	in, status := &planner.Input{World: world.World{Parent: &v1alpha1.UnitedDeployment{Spec: v1alpha1.UnitedDeploymentSpec{Replicas: ptr.To(int32(6))}}}}, surge(0)
	setAvailable(in, status, setter(status, 1, in.Now))
	if got := status.Conditions[0].Message; got != "6 of 6 replicas are available" {
		t.Error(got)
	}
}
