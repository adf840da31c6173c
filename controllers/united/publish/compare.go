// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Change is what a status changes in the previous one, for those who wait for something.
type Change int

const (
	// Same is no change.
	Same Change = iota
	// Counts changes only counts of replicas, and the texts that go with them. It can wait for the next status, because
	// while replicas come and go, it changes again within moments. The number of replicas is a count as well: it goes
	// down and up again with each replaced replica, and up with each replica of a scale-up. The generation or
	// desiredReplicas shows at once when a scaling begins, and the phase when it ends.
	Counts
	// Provisioning says that, in a UnitedDeployment that has never been Ready, a subset grows or is complete, or that
	// there is another reason why Ready is still False. That can wait, too. What users read it for cannot: that all its
	// replicas are ready, that it is Ready, and what is wrong.
	Provisioning
	// Moving says that, while replicas are being updated, the condition Available changes, or how far a subset is. That can wait as well: it flips with each replica. What completes, fails, or waits for somebody cannot.
	Moving
	// Completion says that a count of replicas has reached the wanted number.
	Completion
	// Anything changes what else somebody may wait for: a condition or its reason, a phase, a partition, a revision, the
	// rollout, the generation, the selector, or how many replicas are wanted.
	Anything
)

// MayWait reports whether such a status can wait for the next one; otherwise it is written at once.
func (c Change) MayWait() bool { return c == Counts || c == Provisioning || c == Moving }

// Compare is the only comparison of statuses.
func Compare(before, after *v1alpha1.UnitedDeploymentStatus) Change {
	if same(before, after) {
		return Same
	}
	was, is := withoutCounters(before), withoutCounters(after)
	if neverReady(before) && !allReady(before, after) && same(withoutProvisioning(was), withoutProvisioning(is)) {
		return Provisioning
	}
	change := Counts
	if !same(was, is) {
		change = Moving
		if !moves(before) || !moves(after) || !same(withoutMoving(was), withoutMoving(is)) {
			return Anything
		}
	}
	if completes(before, after) {
		return Completion
	}
	return change
}

// underWay are the reasons why Ready is False while nothing is wrong.
func underWay(reason string) bool {
	switch reason {
	case v1alpha1.ReasonReconciling, v1alpha1.ReasonRollingOut, v1alpha1.ReasonScaling, v1alpha1.ReasonReplicasUnavailable:
		return true
	}
	return false
}

// moves reports whether replicas are being updated, and nothing is wrong.
func moves(status *v1alpha1.UnitedDeploymentStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonRollingOut
}

// Decides reports whether a pass may decide by what differs between two statuses. What it leaves out is only for people:
// counts, texts, phases, the time of progress, and conditions except Initialized. The walks hold that.
func Decides(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	return !same(ForDecisions(before), ForDecisions(after))
}

// ForDecisions returns the part of a status by which a pass may decide.
func ForDecisions(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	kept := status.DeepCopy()
	kept.ReplicaCounts = v1alpha1.ReplicaCounts{}
	kept.Selector, kept.Summary = "", ""
	kept.LastProgressTime = nil
	kept.Conditions = nil
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionInitialized) {
		kept.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue}}
	}
	for i := range kept.Subsets {
		s := &kept.Subsets[i]
		s.ReplicaCounts, s.Phase, s.Message = v1alpha1.ReplicaCounts{}, "", ""
	}
	if kept.Rollout != nil {
		kept.Rollout.Message, kept.Rollout.LastProgressTime = "", nil
		withoutCheckMessages(kept.Rollout)
	}
	return kept
}

// allReady reports whether all replicas that are wanted have become ready.
func allReady(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	wanted := int32(0)
	for i := range after.Subsets {
		wanted += after.Subsets[i].DesiredReplicas
	}
	return reached(wanted, before.ReadyReplicas, after.ReadyReplicas)
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
// the counts of all its replicas reach it with each of them, and only the count of updated and ready ones shows an end.
func completes(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	for i := range after.Subsets {
		is := &after.Subsets[i]
		was := world.SubsetStatus(before, is.Name)
		expected := is.ExpectedUpdatedReplicas
		switch {
		case was == nil:
			return true
		case expected > 0 && reached(expected, was.UpdatedReadyReplicas, is.UpdatedReadyReplicas):
			return true
		case is.Phase == v1alpha1.PhaseUpdating:
		case expected > 0 && reached(expected, was.UpdatedReplicas, is.UpdatedReplicas):
			return true
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
		withoutCheckMessages(bare.Rollout)
	}
	return bare
}

func withoutCheckMessages(rollout *v1alpha1.RolloutStatus) {
	for i := range rollout.Checks {
		rollout.Checks[i].Message = ""
	}
}

// recurring returns a status without what makes it different from earlier ones: counts of replicas, and which
// child it is, at which generation. If everything else is equal, two statuses are the same for those who wait for
// it.
func recurring(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	bare := withoutCounters(status)
	for i := range bare.Subsets {
		if record := bare.Subsets[i].ChildRecord; record != nil {
			record.UID, record.Generation = "", 0
		}
	}
	if bare.Rollout != nil {
		bare.Rollout.SoakedSeconds = 0 // the clock of a step stops and continues with each turn of a check
	}
	return bare
}

// withoutProvisioning returns a status without counters without what can wait while its replicas are being created.
func withoutProvisioning(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	return blurred(status, v1alpha1.PhasePending, v1alpha1.PhaseUpdating, v1alpha1.PhaseScaling, v1alpha1.PhaseUnavailable, v1alpha1.PhaseComplete, v1alpha1.PhaseHeld)
}

// withoutMoving returns a status without counters without what can wait while its replicas are being updated.
func withoutMoving(status *v1alpha1.UnitedDeploymentStatus) *v1alpha1.UnitedDeploymentStatus {
	bare := blurred(status, v1alpha1.PhaseUpdating, v1alpha1.PhaseUnavailable, v1alpha1.PhaseWaiting)
	meta.RemoveStatusCondition(&bare.Conditions, v1alpha1.ConditionAvailable)
	return bare
}

// blurred returns a status in which these phases are equal, and so are the reasons why Ready is False while nothing is wrong.
func blurred(status *v1alpha1.UnitedDeploymentStatus, phases ...v1alpha1.SubsetPhase) *v1alpha1.UnitedDeploymentStatus {
	out := *status
	out.Conditions, out.Subsets = slices.Clone(status.Conditions), slices.Clone(status.Subsets)
	for i := range out.Conditions {
		if c := &out.Conditions[i]; underWay(c.Reason) {
			c.Reason = ""
		}
	}
	for i := range out.Subsets {
		if s := &out.Subsets[i]; slices.Contains(phases, s.Phase) {
			s.Phase = ""
		}
	}
	return &out
}

// same reports whether two statuses are equal. It is equality.Semantic.DeepEqual without reflection, which
// took a quarter of the time of a pass that finds nothing to do.
//
// Trap: fields with a time or a pointer are compared separately and then cleared, so that the rest can be compared
// with ==. If such a field is added and forgotten here, the worst result is a difference that is none. The fields
// of the status itself, and of a subset, are listed: TestSame changes each of them.
func same(a, b *v1alpha1.UnitedDeploymentStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration &&
		a.ReplicaCounts == b.ReplicaCounts &&
		a.Selector == b.Selector &&
		a.CurrentRevision == b.CurrentRevision &&
		a.UpdateRevision == b.UpdateRevision &&
		a.Summary == b.Summary &&
		sameTime(a.LastProgressTime, b.LastProgressTime) &&
		sameTime(a.PausedTime, b.PausedTime) &&
		sameTime(a.ResumedTime, b.ResumedTime) &&
		sameRollout(a.Rollout, b.Rollout) &&
		slices.EqualFunc(a.Subsets, b.Subsets, sameSubset) &&
		slices.EqualFunc(a.Conditions, b.Conditions, sameCondition)
}

func sameTime(a, b *metav1.Time) bool { return a == b || a != nil && b != nil && a.Equal(b) }

func sameRollout(a, b *v1alpha1.RolloutStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	if !sameTime(a.StartTime, b.StartTime) || !sameTime(a.ReachedTime, b.ReachedTime) || !sameTime(a.LastProgressTime, b.LastProgressTime) {
		return false
	}
	return a.Revision == b.Revision && a.Phase == b.Phase && a.Message == b.Message && a.Step == b.Step && a.StepKey == b.StepKey &&
		a.SoakedSeconds == b.SoakedSeconds && a.Forced == b.Forced && a.Promoted == b.Promoted && a.ApprovalKey == b.ApprovalKey &&
		a.Retried == b.Retried && a.Spent == b.Spent && a.RejectedRevision == b.RejectedRevision && slices.EqualFunc(a.Checks, b.Checks, sameCheck)
}

func sameCheck(a, b v1alpha1.CheckStatus) bool {
	return a.Name == b.Name && a.State == b.State && a.Run == b.Run && a.Message == b.Message && a.Step == b.Step && a.Key == b.Key &&
		a.SinceTime.Equal(&b.SinceTime) && sameTime(a.FailingTime, b.FailingTime)
}

func sameSubset(a, b v1alpha1.SubsetStatus) bool {
	return a.ReplicaCounts == b.ReplicaCounts &&
		a.Name == b.Name &&
		a.Workload == b.Workload &&
		a.DesiredReplicas == b.DesiredReplicas &&
		a.Partition == b.Partition &&
		a.ExpectedUpdatedReplicas == b.ExpectedUpdatedReplicas &&
		a.CurrentRevision == b.CurrentRevision &&
		a.UpdateRevision == b.UpdateRevision &&
		a.Phase == b.Phase &&
		a.Message == b.Message &&
		sameCap(a.Cap, b.Cap) &&
		sameRecord(a.ChildRecord, b.ChildRecord) &&
		slices.EqualFunc(a.Conditions, b.Conditions, sameCondition)
}

func sameCap(a, b *v1alpha1.SubsetCap) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Replicas == b.Replicas && a.Reserved == b.Reserved && a.Message == b.Message && a.SinceTime.Equal(&b.SinceTime) && sameTime(a.ClearedTime, b.ClearedTime)
}

func sameRecord(a, b *v1alpha1.ChildRecord) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Generation == b.Generation && a.Hash == b.Hash && a.Checksum == b.Checksum && maps.Equal(a.Annotations, b.Annotations)
}

func sameCondition(a, b metav1.Condition) bool {
	if !a.LastTransitionTime.Equal(&b.LastTransitionTime) {
		return false
	}
	a.LastTransitionTime, b.LastTransitionTime = metav1.Time{}, metav1.Time{}
	return a == b
}
