// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// Status tells where things stand after a pass, and in how long time alone
// will change that (0: it will not).
func Status(in *Input, p *Plan, results Results) (*v1alpha1.UnitedDeploymentStatus, time.Duration) {
	in = in.after(results)
	old := &in.Parent.Status
	status := &v1alpha1.UnitedDeploymentStatus{
		ObservedGeneration: in.Parent.Generation,
		Selector:           in.Spec.podSelector,
		CurrentRevision:    p.CurrentRevision,
		UpdateRevision:     in.Update.Name,
		Conditions:         slices.Clone(old.Conditions),
	}
	status.PausedTime, status.ResumedTime = pauseTimes(in)
	tallies := make([]*tally, 0, len(p.Subsets))
	for _, s := range p.Subsets {
		o := results.of(s.Name)
		if s.Step.Action == subset.ActionSeek && !o.Refused() {
			continue // it is gone
		}
		t := in.tally(p, s, o)
		tallies = append(tallies, t)
		switch {
		case !s.Removed:
			status.Subsets = append(status.Subsets, in.subsetStatus(p, s, t))
			add(&status.ReplicaCounts, t.counts)
		case !o.Deleted:
			status.Subsets = append(status.Subsets, in.removedStatus(s, t))
		}
	}
	if in.completeOn(p, tallies) {
		status.CurrentRevision = in.Update.Name
	}
	if p.Rollout != nil && p.Rollout.State != nil { // none when it is paused before it began
		status.Rollout = p.Rollout.State
		status.Rollout.Message = truncated(status.Rollout.Message, maxSubsetMessage)
	}
	status.Summary = summary(status.Subsets)
	status.LastProgressTime = lastProgress(in, status)
	if status.Rollout != nil {
		status.Rollout.LastProgressTime = status.LastProgressTime
	}
	setConditions(in, p, tallies, status)
	return status, wakeUp(in, p, tallies, status)
}

// maxSubsetMessage bounds what is told of one subset, and of the rollout. The API
// server can refuse a child with hundreds of errors, and a request for the status
// holds a hundred subsets twice: as they were, and as they are.
const maxSubsetMessage = 1024

// removedStatus tells of a subset that the spec does not have any more.
func (in *Input) removedStatus(s *SubsetPlan, t *tally) v1alpha1.SubsetStatus {
	return v1alpha1.SubsetStatus{
		Name: s.Name, Workload: s.Workload,
		ReplicaCounts: t.counts, Phase: t.phase, Message: truncated(t.message, maxSubsetMessage), ChildRecord: in.childRecord(s.Name),
	}
}

// completeOn reports whether every replica of every subset is ready on the update
// revision, and there is one.
func (in *Input) completeOn(p *Plan, tallies []*tally) bool {
	if !p.Initialized {
		return !in.paused() // what never worked is not worth going back to
	}
	total := int32(0)
	for i, s := range p.Subsets {
		if s.Removed {
			break // all that the spec has come before
		}
		t := tallies[i]
		// Trap: a surplus replica counts like one that is missing.
		if observed := in.observed(s.Name); observed != nil && observed.Missing() >= 0 {
			return false
		}
		if t.counts.UpdatedReadyReplicas != s.Desired || t.counts.Replicas != s.Desired || !t.observed {
			return false
		}
		if observed := in.observed(s.Name); observed != nil && len(subset.Unreleased(observed)) > 0 {
			return false // they go back
		}
		total += s.Desired
	}
	return total > 0
}

func (in *Input) subsetStatus(p *Plan, s *SubsetPlan, t *tally) v1alpha1.SubsetStatus {
	status := v1alpha1.SubsetStatus{
		Name: s.Name, Workload: s.Workload, DesiredReplicas: s.Desired,
		ReplicaCounts:   t.counts,
		Partition:       s.Decision.Partition,
		CurrentRevision: s.Protected,
		UpdateRevision:  in.Update.Name,
		Phase:           t.phase, Message: truncated(t.message, maxSubsetMessage),
	}
	if in.Unreadable[s.Name] != nil {
		was := in.lastKnown(s.Name)
		status.Partition, status.CurrentRevision = was.Partition, cmp.Or(was.CurrentRevision, s.Protected)
	}
	if observed := in.observed(s.Name); observed != nil {
		status.Partition = observed.Partition
		if in.contested(s.Name) { // it comes and goes as fast as they lower it
			status.Partition = max(status.Partition, subset.RecordedPartition(observed))
		}
		if told := in.protected(s.Name, observed, s.Protected, in.Parent.Generation); p.Initialized && told != "" && !s.missedProtectedRevision {
			status.CurrentRevision = told
		}
	}
	status.ChildRecord = in.childRecord(s.Name)
	in.setSchedulable(s, &status)
	if status.Partition == coordination.Held {
		status.Partition = s.Desired // the number says nothing, except that all are protected
	}
	status.ExpectedUpdatedReplicas = max(0, s.Desired-status.Partition)
	return status
}

// childRecord is the copy of what is written on a child. It stays while the child is not
// seen: that may have lost its labels.
func (in *Input) childRecord(name string) *v1alpha1.ChildRecord {
	kept := in.recordInStatus(name)
	if observed := in.observed(name); observed != nil {
		return subset.Record(observed, kept)
	}
	return kept
}

// recordInStatus is the copy in the status; nil if there is none.
func (in *Input) recordInStatus(name string) *v1alpha1.ChildRecord {
	if was := SubsetStatus(&in.Parent.Status, name); was != nil {
		return was.ChildRecord
	}
	return nil
}

// phase says where a subset stands whose child exists, and what it waits for.
func (in *Input) phase(p *Plan, s *SubsetPlan, observed *adapters.Observed, t *tally, onUpdate bool) (v1alpha1.SubsetPhase, string) {
	waits := in.waitsFor(observed, onUpdate)
	switch {
	case in.restoring(s):
		return v1alpha1.PhaseRestoring, s.Step.Reason
	case s.Step.Action == subset.ActionSeed, s.Step.Action == subset.ActionWait && (observed.Replicas == 0 && s.Desired > 0 || subset.Seeding(observed)):
		return v1alpha1.PhaseSeeding, s.Step.Reason
	case s.Step.Action == subset.ActionWait:
		return v1alpha1.PhasePending, s.Step.Reason
	case s.Step.Reason != "":
		return v1alpha1.PhaseUpdating, s.Step.Reason
	case in.replacing(p, s, observed, onUpdate):
		return v1alpha1.PhaseUpdating, cmp.Or(waits, s.Decision.WaitReason, "updating its released replicas")
	case observed.Replicas != s.Desired || t.counts.Replicas-surplusReplicas(observed, t) != s.Desired:
		return v1alpha1.PhaseScaling, cmp.Or(waits, s.Decision.WaitReason, scalingMessage(t.counts.Replicas, s.Desired))
	case observed.Unmade:
		return v1alpha1.PhaseUpdating, "waiting for the controller of " + observed.Meta.Name + ", which cannot create what the template asks for; " +
			describeCommand(in.Spec.Adapter.GroupVersionKind(), observed)
	case !observed.SpecObserved:
		return v1alpha1.PhaseUpdating, "waiting for the controller of " + observed.Meta.Name + " to observe its latest spec"
	case onUpdate && updateFailed(observed):
		return v1alpha1.PhaseUnavailable, waits // it has stopped, or goes no further than that replica
	case !in.paused() && (!onUpdate && !in.withheldFrom(observed) || releasedPending(observed)):
		return v1alpha1.PhaseUpdating, cmp.Or(waits, "updating its released replicas")
	case len(subset.Unreleased(observed)) > 0:
		return v1alpha1.PhaseRestoring, fmt.Sprintf("waiting for %s to return to %s: it was updated without being released",
			subset.Unreleased(observed)[0].Name, s.Protected)
	case s.Decision.WaitReason != "" && p.progressing():
		if waits != "" {
			return v1alpha1.PhaseUpdating, waits
		}
		return v1alpha1.PhaseWaiting, s.Decision.WaitReason
	case t.counts.AvailableReplicas < s.Desired-s.Reserved:
		return v1alpha1.PhaseUnavailable, waits
	case t.notUpdated == 0:
		return v1alpha1.PhaseComplete, ""
	case in.paused():
		return v1alpha1.PhasePaused, s.Decision.Reason
	case p.Rollout != nil && p.Rollout.State.Message != "" && s.Decision.Partition > in.floor(s).Partition:
		return v1alpha1.PhaseHeld, p.Rollout.State.Message
	}
	return v1alpha1.PhaseHeld, s.Decision.Reason
}

// replacing reports whether the subset still moves released replicas, as it did at the last look.
// One that is gone for a moment, or not available yet, is a part of that: without this the phase, and
// with it the reason of Ready, would go to Scaling or Unavailable and back with every replica. One that
// failed is not.
func (in *Input) replacing(p *Plan, s *SubsetPlan, observed *adapters.Observed, onUpdate bool) bool {
	was := SubsetStatus(&in.Parent.Status, s.Name)
	if was == nil || was.Phase != v1alpha1.PhaseUpdating || was.DesiredReplicas != s.Desired || was.UpdateRevision != in.Update.Name {
		return false
	}
	if !p.Initialized || in.paused() || !onUpdate || !observed.SpecObserved || observed.Replicas != s.Desired || s.Protected == in.Update.Name {
		return false
	}
	replaced := int32(0)
	for i := range observed.Pods {
		r := &observed.Pods[i]
		if r.Failure != "" {
			return false
		}
		if available, _ := r.Available(observed.MinReadySeconds, in.Now); (available || s.isReserved(r)) && r.Position >= observed.Partition && r.Hash == observed.UpdateHash {
			replaced++
		}
	}
	return replaced < s.Desired-observed.Partition && len(subset.Unreleased(observed)) == 0
}

// scalingMessage says how many replicas there are, and how many there are to be.
func scalingMessage(exist, wanted int32) string {
	if exist > wanted {
		return fmt.Sprintf("scaling down: %d %s, %d wanted", exist, replicasWord(exist), wanted)
	}
	return fmt.Sprintf("scaling up: %d of %d replicas exist", exist, wanted)
}

func replicasWord(n int32) string {
	if n == 1 {
		return "replica"
	}
	return "replicas"
}

// surplusReplicas is how many replicas a child has beyond those that it is asked for, and keeps: its
// controller removes none while it is paused, in the middle of replacing them.
func surplusReplicas(observed *adapters.Observed, t *tally) int32 {
	if !observed.Paused {
		return 0
	}
	return max(0, t.counts.Replicas-observed.Replicas)
}

// withheldFrom reports whether the child has not got the update revision since nothing of
// it is released.
func (in *Input) withheldFrom(observed *adapters.Observed) bool {
	return in.traits().Protection == adapters.Withheld && observed.Partition >= observed.Replicas
}

// progressing reports whether a coordinated rollout is about to release more by itself.
func (p *Plan) progressing() bool {
	return p.Rollout != nil && meaningOf(p.Rollout.State, false).progresses
}

// releasedPending reports whether a replica at or above the partition is not on
// the update revision. Paused or not is not asked: the partition was raised then.
func releasedPending(observed *adapters.Observed) bool {
	return slices.ContainsFunc(observed.Pods, func(r adapters.Replica) bool {
		return r.Position >= observed.Partition && r.Position < observed.Replicas && (r.Hash != observed.UpdateHash || r.Terminating)
	})
}

// updateFailed reports whether a released replica failed on the update revision.
func updateFailed(observed *adapters.Observed) bool {
	return slices.ContainsFunc(observed.Pods, func(r adapters.Replica) bool {
		return (r.Failure != "" || r.Crashed) && !r.Terminating && !r.Ready && r.Position >= observed.Partition && r.Hash == observed.UpdateHash
	})
}

// waitsFor names the replica that the subset waits for: one that failed before one that fits on no
// node, and that before one that is not ready, a released one before a protected one, then the lowest.
// The time is when it began, not how long ago: a text that ages by itself would
// have to be written again and again.
func (in *Input) waitsFor(observed *adapters.Observed, onUpdate bool) string {
	var worst *adapters.Replica
	rank := func(r *adapters.Replica) int {
		rank := 0
		switch {
		case r.Failure != "":
			rank += 4
		case r.Unschedulable != "":
			rank += 2
		}
		if r.Position >= observed.Partition {
			rank++
		}
		return rank
	}
	for i := range observed.Pods {
		r := &observed.Pods[i]
		available, _ := r.Available(observed.MinReadySeconds, in.Now)
		if !available && (worst == nil || rank(r) > rank(worst)) {
			worst = r
		}
	}
	if worst != nil {
		if broken, _ := in.terms().Broken(worst, nil); !broken { // one that is broken is replaced
			return "waiting for " + worst.Describe() + remedy(*worst, observed)
		}
		return "waiting for " + worst.Describe()
	}
	if missing := observed.Missing(); missing >= 0 && observed.SpecObserved {
		return "waiting for " + observed.DescribeMissing(observed.Meta.Name, missing)
	}
	if !in.paused() && onUpdate && releasedPending(observed) {
		return fmt.Sprintf("updating its replicas from number %d on to revision %s", observed.Partition, in.Update.Name)
	}
	return ""
}

// remedy is for a replica that the partition protects on neither of the revisions
// that it could be made of, as when a canary was held and then taken back. It is
// left alone, since it may serve; one that does not is for the user to give up.
func remedy(r adapters.Replica, observed *adapters.Observed) string {
	if r.Position >= observed.Partition || r.Terminating || r.Hash == observed.CurrentHash || r.Hash == observed.UpdateHash {
		return ""
	}
	return "; the partition keeps it on an earlier revision: to replace it, delete the pod or lower the partition"
}

// pauseTimes are since when the parent is paused, and when that last ended.
func pauseTimes(in *Input) (paused, resumed *metav1.Time) {
	old, now := &in.Parent.Status, ptr.To(metav1.NewTime(in.Now.Truncate(time.Second)))
	switch {
	case in.Parent.Spec.Paused && old.PausedTime != nil:
		return old.PausedTime, nil
	case in.Parent.Spec.Paused:
		return now, nil
	case old.PausedTime != nil:
		return nil, now
	}
	return nil, old.ResumedTime
}

// lastProgress is now when the spec changed or a replica came closer to it, and
// else what it was.
func lastProgress(in *Input, status *v1alpha1.UnitedDeploymentStatus) *metav1.Time {
	old := &in.Parent.Status
	// As the API server keeps it, so that what is read back is equal.
	now := ptr.To(metav1.NewTime(in.Now.Truncate(time.Second)))
	if old.LastProgressTime == nil || old.ObservedGeneration != in.Parent.Generation || resumed(old.Rollout, status.Rollout) {
		return now
	}
	for _, s := range status.Subsets {
		if before := SubsetStatus(old, s.Name); before == nil || progressed(before, &s) {
			return now
		}
	}
	return old.LastProgressTime
}

// resumed reports whether a coordinated rollout went on to another step, or after a pause. The
// time in between does not count as standing still.
func resumed(before, after *v1alpha1.RolloutStatus) bool {
	if before == nil || after == nil {
		return before != after
	}
	stood := meaningOf(before, false).holding
	return before.Revision != after.Revision || before.Step != after.Step || stood && before.Phase != after.Phase
}

func progressed(before, after *v1alpha1.SubsetStatus) bool {
	distance := func(s *v1alpha1.SubsetStatus) int32 {
		return max(s.Replicas-s.DesiredReplicas, s.DesiredReplicas-s.Replicas)
	}
	return after.UpdatedReplicas > before.UpdatedReplicas ||
		after.UpdatedReadyReplicas > before.UpdatedReadyReplicas ||
		after.ReadyReplicas > before.ReadyReplicas ||
		after.AvailableReplicas > before.AvailableReplicas ||
		after.DesiredReplicas != before.DesiredReplicas ||
		distance(after) < distance(before)
}

func add(sum *v1alpha1.ReplicaCounts, c v1alpha1.ReplicaCounts) {
	sum.Replicas += c.Replicas
	sum.ReadyReplicas += c.ReadyReplicas
	sum.AvailableReplicas += c.AvailableReplicas
	sum.UpdatedReplicas += c.UpdatedReplicas
	sum.UpdatedReadyReplicas += c.UpdatedReadyReplicas
}

// wakeUp is in how long time alone changes something: a write is tried again, a
// replica becomes available, the progress deadline passes.
func wakeUp(in *Input, p *Plan, tallies []*tally, status *v1alpha1.UnitedDeploymentStatus) time.Duration {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(p.Wake)
	sooner(in.Wake)
	if p.Rollout != nil {
		sooner(p.Rollout.Wake)
	}
	if in.Unkept != nil {
		sooner(in.Unkept.RetryAt)
	}
	for _, t := range tallies {
		sooner(t.availableAt)
		sooner(t.unschedulableAt(in.Now))
		if t.failure != nil {
			sooner(t.failure.RetryAt)
		}
		if t.stale {
			sooner(in.Now.Add(RetryStale))
		}
	}
	if deadline, running := progressDeadline(in.Parent, status); running && deadline.After(in.Now) {
		sooner(deadline)
	}
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(in.Now), time.Millisecond)
}
