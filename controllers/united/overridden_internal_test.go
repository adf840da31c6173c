// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/writer"
)

func aStatus() *v1alpha1.UnitedDeploymentStatus {
	return &v1alpha1.UnitedDeploymentStatus{
		Selector:      "app=web",
		ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: 4},
		Subsets:       []v1alpha1.SubsetStatus{{Name: "zone-a", Partition: 2}, {Name: "zone-b", Partition: 2}},
		Conditions:    []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Fine"}},
	}
}

func TestFirstDifference(t *testing.T) {
	now := metav1.Now()
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.UnitedDeploymentStatus)
		want   string
	}{
		{"nothing", func(*v1alpha1.UnitedDeploymentStatus) {}, ""},
		{"times", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.LastProgressTime, s.Conditions[0].LastTransitionTime = &now, now
			s.PausedTime, s.ResumedTime = &now, &now
		}, ""},
		{"a field", func(s *v1alpha1.UnitedDeploymentStatus) { s.Selector = "x" }, "status.selector"},
		{"a number", func(s *v1alpha1.UnitedDeploymentStatus) { s.Replicas = 9 }, "status.replicas"},
		{"a field of a subset", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[1].Partition = 0 }, `status.subsets[name="zone-b"].partition`},
		{"a subset", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets = s.Subsets[:1] }, `status.subsets[name="zone-b"]`},
		{"a subset more", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Subsets = append(s.Subsets, v1alpha1.SubsetStatus{Name: "zone-c"})
		}, `status.subsets[name="zone-c"]`},
		{"a condition", func(s *v1alpha1.UnitedDeploymentStatus) { s.Conditions[0].Reason = "x" }, `status.conditions[type="Ready"].reason`},
		{"several: the first", func(s *v1alpha1.UnitedDeploymentStatus) { s.Replicas, s.Selector = 9, "x" }, "status.replicas"},
		{"all of them", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets = nil }, "status.subsets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			is, was := aStatus(), aStatus()
			tc.change(is)
			for _, pair := range [][2]*v1alpha1.UnitedDeploymentStatus{{was, is}, {is, was}} {
				a, err := timeless(pair[0])
				if err != nil {
					t.Fatal(err)
				}
				b, err := timeless(pair[1])
				if err != nil {
					t.Fatal(err)
				}
				path := firstDifference(a, b, statusPath())
				if path == nil != (tc.want == "") || path != nil && nameOf(path) != tc.want {
					t.Errorf("want %q, have %v", tc.want, path)
				}
			}
		})
	}
}

// What is said of a status that is overridden stays as it is from pass to pass.
func TestJudgeOverridden(t *testing.T) {
	parent, e := &v1alpha1.UnitedDeployment{Status: *aStatus()}, &writer.OverriddenError{Object: "status", Override: writer.Override{Field: "status.x"}}
	first := time.Unix(1e9, 0)
	pass := func(now time.Time) *v1alpha1.UnitedDeploymentStatus {
		status := parent.Status.DeepCopy()
		set := setter(status, 1, now)
		set(v1alpha1.ConditionReady, true, v1alpha1.ReasonRolloutComplete, "fine")
		set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonRolloutComplete, "fine")
		set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonProgressing, "")
		judgeOverridden(parent, status, e, now)
		return status
	}
	for _, lasting := range []bool{false, true} {
		e.Lasting = lasting
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
	judgeOverridden(parent, &parent.Status, e, first)
	if diff := cmp.Diff(before, &parent.Status); diff != "" {
		t.Error("what stalls otherwise comes first:", diff)
	}
}

// TestFightsAreTheReason: what is undone each time is the reason why the whole is not
// ready, and not what its subset waits for because of it; unless something has stalled.
func TestFightsAreTheReason(t *testing.T) {
	w := &world{parent: &v1alpha1.UnitedDeployment{}}
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
		if ready, reason, message := readiness(w, tc.tallies, status); ready || reason != tc.reason || message != tc.message {
			t.Error(tc.name, ready, reason, message)
		}
	}
}

// TestUnlessOverridden: an outcome that is stale is a fight all the same, or what the status
// says would come and go; another failure comes first.
func TestUnlessOverridden(t *testing.T) {
	e := &writer.OverriddenError{Object: "StatefulSet web-zone-a", Override: writer.Override{Field: "spec.replicas", Admission: true}}
	refused := &subset.Failure{Reason: v1alpha1.ReasonApplyRefused}
	for name, tc := range map[string]struct {
		before outcome
		e      *writer.OverriddenError
		want   string
	}{
		"all is well":     {outcome{}, nil, ""},
		"undone":          {outcome{}, e, v1alpha1.ReasonOverridden},
		"undone at once":  {outcome{stale: true, waits: "waits: x"}, e, v1alpha1.ReasonOverridden},
		"refused":         {outcome{failure: refused}, e, v1alpha1.ReasonApplyRefused},
		"stale, no fight": {outcome{stale: true}, nil, ""},
	} {
		o := tc.before
		if got := o.unlessOverridden(tc.e); got.stale != tc.before.stale || got.failure == nil && tc.want != "" || got.failure != nil && got.failure.Reason != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
