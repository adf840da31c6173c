// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

func TestWakeUpIsNeverNever(t *testing.T) {
	now := time.Unix(1767225600, 0)
	w := &planner.Input{World: world.World{Now: now, Parent: &v1alpha1.UnitedDeployment{}}}
	late := []*tally{{failure: &subset.Failure{RetryAt: now.Add(-time.Second)}}}
	if got := wakeUp(w, &planner.Plan{}, late, &v1alpha1.UnitedDeploymentStatus{}); got != time.Millisecond {
		t.Error("what is due already is never looked at again:", got)
	}
	if got := wakeUp(w, &planner.Plan{}, nil, &v1alpha1.UnitedDeploymentStatus{}); got != 0 {
		t.Error(got)
	}
}

// What was left by the way back goes through the steps again, also while it is still the current revision.
func TestEventOfARolloutOfTheCurrentRevision(t *testing.T) {
	before := &v1alpha1.UnitedDeploymentStatus{CurrentRevision: "web-2", UpdateRevision: "web-1", Conditions: []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue}}}
	after := &v1alpha1.UnitedDeploymentStatus{CurrentRevision: "web-2", UpdateRevision: "web-2"}
	for back, want := range map[bool]string{true: "going back to web-2, the current revision", false: "rolling out web-2 again"} {
		if got := revisionEvents(before, after, back); len(got) != 1 || got[0].Note != want {
			t.Errorf("back %t: %+v", back, got)
		}
	}
}
