// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/runs"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// TestWantedRuns: those that are asked for, and those whose result is on record; none under force, and with type Manual.
func TestWantedRuns(t *testing.T) {
	state := &v1alpha1.RolloutStatus{Checks: []v1alpha1.CheckStatus{{Name: "condition"}, {Name: "b", Run: "job/b"}, {Name: "a", Run: "job/a"}}}
	forced := state.DeepCopy()
	forced.Forced = true
	asks := []known.CheckAsk{{}, {Run: "job/c"}, {Run: "job/a"}}
	for name, test := range map[string]struct {
		rollout *coordination.Plan
		want    []string
	}{
		"asked and on record": {&coordination.Plan{State: state, Asks: asks}, []string{"job/a", "job/b", "job/c"}},
		"forced":              {&coordination.Plan{State: forced}, nil},
		"no rollout":          {&coordination.Plan{}, nil},
		"Manual":              {nil, nil},
	} {
		if got := (&planner.Plan{Rollout: test.rollout}).WantedRuns(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestKindsOfRuns: also that of a check that was removed, while its result is on record.
func TestKindsOfRuns(t *testing.T) {
	in := &planner.Input{World: world.World{Parent: &v1alpha1.UnitedDeployment{}}}
	if got := in.KindsOfRuns(); got != nil {
		t.Error(got)
	}
	in.Parent.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Checks: []v1alpha1.RolloutCheck{{Name: "a", Analysis: &v1alpha1.AnalysisCheck{}}}}
	if got := in.KindsOfRuns(); len(got) != 1 || got[0] != runs.AnalysisKind {
		t.Error(got)
	}
	in.Parent.Status.Rollout = &v1alpha1.RolloutStatus{Checks: []v1alpha1.CheckStatus{{Name: "b", Run: "job/web-b-1"}}}
	if got := in.KindsOfRuns(); len(got) != 2 || got[0] != runs.JobKind {
		t.Error(got)
	}
}
