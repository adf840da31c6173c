// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// OnlyCounters reports whether a status differs from the one before in nothing but how many
// replicas are ready, available or updated, and in the words that go with it. Such a status
// can wait for the next one, since in a rollout another replica changes within moments. All
// that somebody may wait for cannot: a condition, a phase, a partition, a revision, the rollout, the
// generation, replicas and selector for an autoscaler, and a count that has reached what is wanted.
func OnlyCounters(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	if countReached(before, after) {
		return false
	}
	return equality.Semantic.DeepEqual(withoutCounters(before), withoutCounters(after))
}

// countReached reports whether one of the counts of a subset is that of the replicas wanted
// now, and was not before.
func countReached(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	for i := range after.Subsets {
		is := &after.Subsets[i]
		was := SubsetStatus(before, is.Name)
		if was == nil {
			return true
		}
		now, then := countersOf(&is.ReplicaCounts), countersOf(&was.ReplicaCounts)
		for k := range now {
			if now[k] == is.DesiredReplicas && then[k] != now[k] {
				return true
			}
		}
	}
	return false
}

func countersOf(c *v1alpha1.ReplicaCounts) [5]int32 {
	return [...]int32{c.Replicas, c.ReadyReplicas, c.AvailableReplicas, c.UpdatedReplicas, c.UpdatedReadyReplicas}
}

// withoutCounters is a status less what can wait.
func withoutCounters(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	bare := status.DeepCopy()
	bare.ReplicaCounts = v1alpha1.ReplicaCounts{Replicas: status.Replicas}
	bare.LastProgressTime, bare.Summary = nil, "" // what that says is in the subsets
	for i := range bare.Conditions {
		bare.Conditions[i].Message = ""
	}
	for i := range bare.Subsets {
		bare.Subsets[i].ReplicaCounts, bare.Subsets[i].Message = v1alpha1.ReplicaCounts{}, ""
	}
	if bare.Rollout != nil {
		bare.Rollout.LastProgressTime, bare.Rollout.Message = nil, ""
	}
	return bare
}
