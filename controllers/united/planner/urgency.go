// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// OnlyCounters reports whether a status differs from the one before in nothing but counts of
// replicas, and in the words that go with them. Such a status can wait for the next one: while
// replicas come and go another one changes within moments. What somebody may wait for cannot: a condition or
// its reason, a phase, a partition, a revision, the rollout, the generation, the selector, and how
// many replicas are wanted.
//
// The number of replicas is a count as well: it goes down and up again with each replica that is
// replaced, and up with each that a scale-up adds. Where a scaling begins the generation or
// desiredReplicas says so at once, and where it ends the phase does.
func OnlyCounters(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	return SameStatus(withoutCounters(before), withoutCounters(after))
}

// OnlyArrivals is OnlyCounters for a UnitedDeployment that is being made, of which the subsets arrive one
// after the other: that one of them grows, or is complete, and the reason why Ready is still False, can
// wait too. Ready itself cannot.
func OnlyArrivals(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	return SameStatus(withoutArrivals(before), withoutArrivals(after))
}

// withoutCounters is a status less what can wait.
func withoutCounters(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	bare := status.DeepCopy()
	bare.ReplicaCounts = v1alpha1.ReplicaCounts{}
	bare.LastProgressTime, bare.Summary = nil, "" // what that says is in the subsets
	for i := range bare.Conditions {
		bare.Conditions[i].Message = ""
	}
	for i := range bare.Subsets {
		s := &bare.Subsets[i]
		s.ReplicaCounts, s.Message = v1alpha1.ReplicaCounts{}, ""
		if s.ChildRecord != nil { // the name that the child has found for its template
			s.ChildRecord.Hash, s.ChildRecord.Checksum = "", ""
		}
	}
	if bare.Rollout != nil {
		bare.Rollout.LastProgressTime, bare.Rollout.Message = nil, ""
	}
	return bare
}

// withoutArrivals is a status less what can wait while its replicas are made.
func withoutArrivals(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	bare := withoutCounters(status)
	for i := range bare.Conditions {
		c := &bare.Conditions[i]
		switch c.Reason {
		case v1alpha1.ReasonReconciling, v1alpha1.ReasonRollingOut, v1alpha1.ReasonScaling, v1alpha1.ReasonReplicasUnavailable:
			c.Reason = ""
		}
	}
	for i := range bare.Subsets {
		switch s := &bare.Subsets[i]; s.Phase {
		case v1alpha1.PhasePending, v1alpha1.PhaseUpdating, v1alpha1.PhaseScaling, v1alpha1.PhaseUnavailable, v1alpha1.PhaseComplete, v1alpha1.PhaseHeld:
			s.Phase = ""
		}
	}
	return bare
}
