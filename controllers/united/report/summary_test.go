// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func TestSummary(t *testing.T) {
	subset := func(name string, updated, desired int32, phase v1alpha1.SubsetPhase) v1alpha1.SubsetStatus {
		return v1alpha1.SubsetStatus{
			Name: name, DesiredReplicas: desired, Phase: phase, UpdateRevision: "web-1",
			ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: desired, UpdatedReplicas: updated, AvailableReplicas: desired},
		}
	}
	many := make([]v1alpha1.SubsetStatus, 100)
	for i := range many {
		many[i] = subset(fmt.Sprint("z", i), 1, 1, v1alpha1.PhaseComplete)
	}
	removed := subset("zone-d", 0, 0, v1alpha1.PhaseScaling)
	removed.UpdateRevision, removed.Replicas = "", 2
	down := func(s v1alpha1.SubsetStatus, n int32) v1alpha1.SubsetStatus {
		s.AvailableReplicas -= n
		return s
	}
	reserved := down(subset("zone-e", 3, 3, v1alpha1.PhaseComplete), 1)
	reserved.Cap = &v1alpha1.SubsetCap{Replicas: 2, Reserved: 1}
	for _, tc := range []struct {
		subsets []v1alpha1.SubsetStatus
		blocked bool
		want    string
	}{
		{nil, false, ""},
		{[]v1alpha1.SubsetStatus{
			down(subset("zone-a", 3, 3, v1alpha1.PhaseUnavailable), 1), down(subset("zone-b", 1, 3, v1alpha1.PhaseUpdating), 1), subset("zone-c", 0, 2, v1alpha1.PhaseWaiting), reserved,
		}, true, "zone-a 3/3 1 down · zone-b 1/3 1 down · zone-c 0/2 · zone-e 3/3"},
		{[]v1alpha1.SubsetStatus{down(subset("zone-b", 1, 3, v1alpha1.PhaseUpdating), 1)}, false, "zone-b 1/3 updating 1 down"},
		{[]v1alpha1.SubsetStatus{
			subset("zone-a", 1, 1, v1alpha1.PhaseComplete), subset("zone-b", 1, 3, v1alpha1.PhaseHeld), subset("zone-c", 0, 2, v1alpha1.PhaseWaiting), removed,
		}, false, "zone-a 1/1 · zone-b 1/3 held · zone-c 0/2 waiting · zone-d removing 2"},
		{many, false, "z0 1/1 · z1 1/1 · z2 1/1 · z3 1/1 · z4 1/1 · z5 1/1 · z6 1/1 · z7 1/1 · 92 more"},
	} {
		if got := summary(tc.subsets, tc.blocked); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
