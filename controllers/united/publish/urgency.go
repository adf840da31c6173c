// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish writes the status: whether, when and how; and after it the events and the metrics. Nothing else writes
// any of these three.
package publish

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// OnlyCounters reports whether a status differs from the previous one only in counts of replicas, and in the texts
// that go with them. Such a status can wait for the next one, because while replicas come and go, it changes again
// within moments. What somebody may wait for cannot be delayed: a condition or its reason, a phase, a partition, a
// revision, the rollout, the generation, the selector, how many replicas are wanted, and a count that has reached
// the wanted number.
//
// The number of replicas is a count as well: it goes down and up again with each replaced replica, and up with
// each replica of a scale-up. The generation or desiredReplicas shows at once when a scaling begins, and the phase
// when it ends.
func OnlyCounters(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	return !completes(before, after) && SameButCounters(before, after)
}

// SameButCounters reports whether two statuses differ only in counts of replicas, and in the texts that go with
// them.
func SameButCounters(a, b *v1alpha1.UnitedDeploymentStatus) bool {
	return SameStatus(withoutCounters(a), withoutCounters(b))
}

// OnlyProvisioning is OnlyCounters for a UnitedDeployment that has never been Ready. Then a status can also wait
// if one of its subsets grows or is complete, or if the reason why Ready is still False changes. What users read
// it for cannot wait: that all its replicas are ready, that it is Ready, and what is wrong.
func OnlyProvisioning(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	wanted := int32(0)
	for i := range after.Subsets {
		wanted += after.Subsets[i].DesiredReplicas
	}
	return neverReady(before) && !reached(wanted, before.ReadyReplicas, after.ReadyReplicas) &&
		SameStatus(withoutProvisioning(before), withoutProvisioning(after))
}

// neverReady reports whether a status is that of a UnitedDeployment whose replicas are being created for the first
// time: Ready has not been True since one of them was first ready, and there is nothing yet that they could be
// updated to. Times are in seconds, so one that was Ready for less can count as never Ready, and its status waits
// longer.
func neverReady(status *v1alpha1.UnitedDeploymentStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	initialized := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionInitialized)
	if ready == nil || initialized == nil || ready.Status == metav1.ConditionTrue || status.CurrentRevision != status.UpdateRevision {
		return false
	}
	return initialized.Status != metav1.ConditionTrue || !initialized.LastTransitionTime.Before(&ready.LastTransitionTime)
}

// completes reports whether a count of a subset has reached the wanted number. While a subset replaces replicas,
// the counts of all its replicas reach it with each of them, and only the counts of updated replicas show an end.
func completes(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	for i := range after.Subsets {
		is := &after.Subsets[i]
		was := world.SubsetStatus(before, is.Name)
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

// withoutCounters returns a status without what can wait.
func withoutCounters(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	bare := status.DeepCopy()
	bare.ReplicaCounts = v1alpha1.ReplicaCounts{}
	bare.LastProgressTime, bare.Summary = nil, "" // the subsets have the same information
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

// Recurring returns a status without what makes it different from earlier ones: counts of replicas, and which
// child it is, at which generation. If everything else is equal, two statuses are the same for those who wait for
// it.
func Recurring(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	bare := withoutCounters(status)
	for i := range bare.Subsets {
		if record := bare.Subsets[i].ChildRecord; record != nil {
			record.UID, record.Generation = "", 0
		}
	}
	return bare
}

// withoutProvisioning returns a status without what can wait while its replicas are being created.
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
