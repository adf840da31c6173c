// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/known"
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

// What keeps a child's controller from creating replicas is said where they are missing, and where none is: a surplus pod can be
// refused, too.
func TestWaitsForWhatIsRefused(t *testing.T) {
	in := &planner.Input{World: world.World{Parent: &v1alpha1.UnitedDeployment{}}}
	for want, o := range map[string]*adapters.Observed{
		"waiting for replica 0 of web-a (missing; exceeded quota)":                                 {Replicas: 1, SpecObserved: true, Refused: "exceeded quota"},
		"waiting for replica 0 of web-a (missing; no more ReplicaSets)":                            {Replicas: 1, Refused: "no more ReplicaSets"},
		"waiting for the controller of web-a, which cannot create another replica: exceeded quota": {SpecObserved: true, Refused: "exceeded quota"},
		"waiting for replica 0 of web-a (missing; to see why, run: x)":                             {Replicas: 1, Holder: "to see why, run: x"},
		"": {Replicas: 1},
	} {
		o.Meta.Name = "web-a"
		if got := waitsFor(in, &tally{facts: known.Facts{Observed: o, OnUpdate: true}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
