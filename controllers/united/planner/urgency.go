// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// OnlyCounters reports whether a status differs from the one before in nothing but counts of
// replicas, and in the words that go with them. Such a status can wait for the next one: while
// replicas come and go another one changes within moments. What somebody may wait for cannot: a
// condition or its reason, a phase, a partition, a revision, the rollout, the generation, the selector, how
// many replicas are wanted, and a count that has become what is wanted.
//
// The number of replicas is a count as well: it goes down and up again with each replica that is
// replaced, and up with each that a scale-up adds. Where a scaling begins the generation or
// desiredReplicas says so at once, and where it ends the phase does.
func OnlyCounters(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	return !completes(before, after) && SameButCounters(before, after)
}

// SameButCounters reports whether two statuses differ in nothing but counts of replicas, and in the words that go
// with them.
func SameButCounters(a, b *v1alpha1.UnitedDeploymentStatus) bool {
	return SameStatus(withoutCounters(a), withoutCounters(b))
}

// OnlyProvisioning is OnlyCounters for a UnitedDeployment that has never been Ready: that one of its
// subsets grows, or is complete, and the reason why Ready is still False, can wait too. What it is
// read for cannot: that all its replicas are ready, that it is Ready, and what is wrong.
func OnlyProvisioning(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	wanted := int32(0)
	for i := range after.Subsets {
		wanted += after.Subsets[i].DesiredReplicas
	}
	return neverReady(before) && !reached(wanted, before.ReadyReplicas, after.ReadyReplicas) &&
		SameStatus(withoutProvisioning(before), withoutProvisioning(after))
}

// neverReady reports whether a status tells of a UnitedDeployment whose replicas are made for the first
// time: Ready has not been True since one of them was first ready, and there is nothing yet that they
// could be updated to. Times are in seconds, so one that is Ready for less can count as never Ready, and its
// status waits for longer.
func neverReady(status *v1alpha1.UnitedDeploymentStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	initialized := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionInitialized)
	if ready == nil || initialized == nil || ready.Status == metav1.ConditionTrue || status.CurrentRevision != status.UpdateRevision {
		return false
	}
	return initialized.Status != metav1.ConditionTrue || !initialized.LastTransitionTime.Before(&ready.LastTransitionTime)
}

// completes reports whether a count of a subset has become what is wanted. While a subset replaces
// replicas, those of all its replicas become that with each of them, and only those of the updated ones
// tell of an end.
func completes(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	for i := range after.Subsets {
		is := &after.Subsets[i]
		was := SubsetStatus(before, is.Name)
		expected := is.ExpectedUpdatedReplicas
		switch {
		case was == nil:
			return true
		case expected > 0 && (reached(expected, was.UpdatedReplicas, is.UpdatedReplicas) || reached(expected, was.UpdatedReadyReplicas, is.UpdatedReadyReplicas)):
			return true
		case is.Phase == v1alpha1.PhaseUpdating:
		case reached(is.DesiredReplicas, was.Replicas, is.Replicas),
			reached(is.DesiredReplicas, was.ReadyReplicas, is.ReadyReplicas),
			reached(is.DesiredReplicas, was.AvailableReplicas, is.AvailableReplicas):
			return true
		}
	}
	return false
}

func reached(wanted, before, after int32) bool { return after == wanted && before != after }

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

// Recurring is a status less what makes each different from those before: counts of replicas, and which
// child it is, at which generation. Two that say the same of all else are the same to those who wait for it.
func Recurring(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	bare := withoutCounters(status)
	for i := range bare.Subsets {
		if record := bare.Subsets[i].ChildRecord; record != nil {
			record.UID, record.Generation = "", 0
		}
	}
	return bare
}

// withoutProvisioning is a status less what can wait while its replicas are made.
func withoutProvisioning(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
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
