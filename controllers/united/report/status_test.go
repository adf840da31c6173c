// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

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
