// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"testing"
	"time"

	"github.com/unitedworkloads/united/controllers/united/known"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// An unreadable child is not a missing child: a rollout does not end next to it, though both revisions make the
// same pods.
func TestNothingEndsBesideAnUnreadableChild(t *testing.T) {
	in := coordination.Input{
		Strategy: &v1alpha1.RollingUpdate{}, Update: "r2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
		State:   &v1alpha1.RolloutStatus{Revision: "r2", Phase: v1alpha1.RolloutProgressing},
		Subsets: []coordination.Subset{{Name: "a", Desired: 2, Facts: known.Facts{LastPartition: coordination.Held, Proven: true}}},
	}
	if p := coordination.Coordinate(in); p.State.Phase != v1alpha1.RolloutDone {
		t.Fatal("the positive control: it is not there, and would come up on the update revision alone:", p.State.Phase)
	}
	in.Subsets[0].Unreadable, in.Subsets[0].LastAvailable = "web-a cannot be read", 2
	if p := coordination.Coordinate(in); p.State.Phase == v1alpha1.RolloutDone {
		t.Error("it ends")
	}
}
