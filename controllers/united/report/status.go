// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report says what a pass has seen and done: the status, its conditions and messages, and the events. It is pure.
// Without Results it says what would be reported now if nothing was written.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Undone is what a pass could not write beside the children, because somebody takes it back.
type Undone struct {
	// Status is why the status itself is overridden; nil if it is not.
	Status *undone.OverriddenError
	// Record is why it could not be recorded on its revision that the current revision has changed; nil if it is. The
	// status has the new one only after that.
	Record error
}

// Status returns the status after a pass, and in how long time alone will change it (0: it will not).
func Status(in *planner.Input, p *planner.Plan, results planner.Results, taken Undone) (*v1alpha1.UnitedDeploymentStatus, time.Duration) {
	in = in.After(results)
	old := &in.Parent.Status
	status := &v1alpha1.UnitedDeploymentStatus{
		ObservedGeneration: in.Parent.Generation,
		Selector:           in.Spec.PodSelector,
		CurrentRevision:    p.CurrentRevision,
		UpdateRevision:     in.Asked().Name,
		Conditions:         slices.Clone(old.Conditions),
	}
	status.PausedTime, status.ResumedTime = pauseTimes(in)
	tallies := make([]*tally, 0, len(p.Subsets))
	for _, s := range p.Subsets {
		o := results.Of(s.Name)
		if s.Step.Action == subset.ActionSeek && !o.Refused() {
			continue // it is gone
		}
		t := tallyOf(in, p, s, o)
		tallies = append(tallies, t)
		switch {
		case !s.Removed:
			status.Subsets = append(status.Subsets, subsetStatus(in, p, s, t))
			add(&status.ReplicaCounts, askedCounts(in, p, s, t))
		case !o.Deleted:
			status.Subsets = append(status.Subsets, removedStatus(in, s, t))
			if s.Name == in.Spec.Relocates {
				add(&status.ReplicaCounts, t.counts)
			}
		}
	}
	switch {
	case taken.Record != nil:
		status.CurrentRevision = cmp.Or(old.CurrentRevision, p.CurrentRevision)
	case in.Rejected == nil && becomesCurrent(in, p, tallies):
		status.CurrentRevision = in.Update.Name
	}
	if p.Rollout != nil && p.Rollout.State != nil { // there is none if it was paused before the first one
		status.Rollout = p.Rollout.State.DeepCopy()
		status.Rollout.Message = plain(status.Rollout.Message, maxSubsetMessage)
		status.Rollout.RejectedRevision = rejectedName(in)
	}
	status.Summary = summary(status.Subsets, meaningOf(status.Rollout, false).failureReason != "")
	status.LastProgressTime = lastProgress(in, status)
	if status.Rollout != nil {
		status.Rollout.LastProgressTime = status.LastProgressTime
	}
	setConditions(in, p, tallies, status)
	if putOff := (*undone.OverriddenError)(nil); errors.As(taken.Record, &putOff) && in.Unkept == nil { // if the revision itself cannot be stored, that is reported first
		setOverridden(in.Parent, status, putOff, in.Now)
	}
	setOverridden(in.Parent, status, taken.Status, in.Now)
	return status, wakeUp(in, p, tallies, status)
}

// removedStatus returns the status of a subset that the spec no longer has.
func removedStatus(in *planner.Input, s *planner.SubsetPlan, t *tally) v1alpha1.SubsetStatus {
	return v1alpha1.SubsetStatus{
		Name: s.Name, Workload: s.Workload,
		ReplicaCounts: t.counts, Phase: t.phase, Message: plain(t.message, maxSubsetMessage), ChildRecord: childRecord(in, s.Name),
	}
}

// becomesCurrent reports whether the update revision becomes the current one: every replica of every subset is ready on its pods, at
// least one exists, and the rollout has come to its end. The condition Complete says more.
func becomesCurrent(in *planner.Input, p *planner.Plan, tallies []*tally) bool {
	if !p.Initialized {
		return !in.Paused() // there is no point in going back to what never worked
	}
	if unfinished(p) {
		return false // its last replicas may have to go back, too
	}
	total := int32(0)
	for i, s := range p.Subsets {
		if s.Removed {
			break // all subsets of the spec come before
		}
		t := tallies[i]
		// Trap: a surplus replica counts like a missing one.
		if observed := in.Observed(s.Name); observed != nil && observed.Missing() >= 0 {
			return false
		}
		if t.counts.UpdatedReadyReplicas != s.Desired || t.counts.Replicas != s.Desired || !t.observed {
			return false
		}
		if observed := in.Observed(s.Name); observed != nil && len(subset.Unreleased(observed)) > 0 {
			return false // they go back
		}
		if s.KeepsAnother() {
			return false
		}
		total += s.Desired
	}
	return total > 0
}

// unfinished reports whether a coordinated rollout has not come to its end, whatever the replicas run.
func unfinished(p *planner.Plan) bool { return p.Rollout != nil && p.Rollout.Unfinished }

func subsetStatus(in *planner.Input, p *planner.Plan, s *planner.SubsetPlan, t *tally) v1alpha1.SubsetStatus {
	status := v1alpha1.SubsetStatus{
		Name: s.Name, Workload: s.Workload, DesiredReplicas: s.Desired,
		ReplicaCounts:   askedCounts(in, p, s, t),
		Partition:       s.Decision.Partition,
		CurrentRevision: s.ProtectedRevision,
		UpdateRevision:  in.Asked().Name,
		Phase:           t.phase, Message: plain(t.message, maxSubsetMessage),
	}
	if in.Unreadable[s.Name] != nil {
		was := in.LastKnown(s.Name)
		status.Partition, status.CurrentRevision = was.Partition, cmp.Or(was.CurrentRevision, s.ProtectedRevision)
	}
	if observed := in.Observed(s.Name); observed != nil {
		status.Partition = observed.Partition
		if s.Contested { // it changes as fast as somebody lowers it
			status.Partition = max(status.Partition, subset.RecordedPartition(observed))
		}
		if recorded := in.Protected(s.Name, observed, s.ProtectedRevision, in.Parent.Generation); p.Initialized && recorded != "" && !s.MissedProtectedRevision {
			status.CurrentRevision = recorded
		}
		if unapplied(in, t) {
			status.Partition = max(status.Partition, s.Desired)
		}
	}
	status.ChildRecord = childRecord(in, s.Name)
	setSchedulable(in, s, &status)
	if status.Partition == coordination.Held {
		status.Partition = s.Desired // the number means only that all are protected
	}
	status.ExpectedUpdatedReplicas = max(0, s.Desired-status.Partition)
	return status
}

// unapplied reports whether a child has another template than the update revision because the rollout is frozen, and does not
// protect that either: whatever its partition, all replicas come back as they are.
func unapplied(in *planner.Input, t *tally) bool {
	return in.Paused() && !t.facts.OnUpdate && !t.facts.Proven
}

// childRecord returns the copy of the record on a child. It is kept while the child is not seen, because the child
// may have lost its labels.
func childRecord(in *planner.Input, name string) *v1alpha1.ChildRecord {
	kept := in.RecordInStatus(name)
	if observed := in.Observed(name); observed != nil {
		return subset.Record(observed, kept)
	}
	return kept
}

// phaseOf returns the phase of a subset whose child exists, and what it waits for.
func phaseOf(in *planner.Input, p *planner.Plan, s *planner.SubsetPlan, observed *adapters.Observed, t *tally) (v1alpha1.SubsetPhase, string) {
	onUpdate, waits := t.facts.OnUpdate, waitsFor(in, t)
	switch {
	case restoring(in, s):
		return v1alpha1.PhaseRestoring, s.Step.Reason
	case s.Step.Action == subset.ActionSeed, s.Step.Action == subset.ActionWait && (observed.Replicas == 0 && s.Desired > 0 || subset.Seeding(observed)):
		return v1alpha1.PhaseSeeding, s.Step.Reason
	case s.Step.Action == subset.ActionWait:
		return v1alpha1.PhasePending, s.Step.Reason
	case s.Step.Reason != "":
		return v1alpha1.PhaseUpdating, s.Step.Reason
	case replacing(in, p, s, t):
		return v1alpha1.PhaseUpdating, cmp.Or(waits, s.Decision.WaitReason, "updating its released replicas")
	case observed.Replicas != s.Desired || t.counts.Replicas-surplusReplicas(observed, t) != s.Desired:
		return v1alpha1.PhaseScaling, cmp.Or(waits, s.Decision.WaitReason, scalingMessage(t.counts.Replicas, s.Desired))
	case observed.Unmade:
		return v1alpha1.PhaseUpdating, "waiting for the controller of " + observed.Meta.Name + ", which cannot create what the template asks for; " +
			world.DescribeCommand(in.Spec.Adapter.GroupVersionKind(), observed)
	case !observed.SpecObserved:
		return v1alpha1.PhaseUpdating, "waiting for the controller of " + observed.Meta.Name + " to observe its latest spec"
	case onUpdate && updateFailed(t):
		return v1alpha1.PhaseUnavailable, waits // it has stopped, or does not get past that replica
	case !in.Paused() && (!onUpdate && !withheldFrom(in, observed) || releasedPending(t)):
		return v1alpha1.PhaseUpdating, cmp.Or(waits, "updating its released replicas")
	case len(subset.Unreleased(observed)) > 0:
		return v1alpha1.PhaseRestoring, fmt.Sprintf("waiting for %s to return to %s: it was updated without being released",
			subset.Unreleased(observed)[0].Name, s.ProtectedRevision)
	case s.Decision.WaitReason != "" && progressing(p):
		if waits != "" {
			return v1alpha1.PhaseUpdating, waits
		}
		return v1alpha1.PhaseWaiting, s.Decision.WaitReason
	case t.counts.AvailableReplicas < s.Desired-s.Reserved:
		return v1alpha1.PhaseUnavailable, waits
	case t.notUpdated == 0 && opened(in, p, s):
		return v1alpha1.PhaseUpdating, fmt.Sprintf("waiting for the controller of %s to finish; its partition is %d until then", observed.Meta.Name, s.Decision.Partition)
	case t.notUpdated == 0 && in.Rejected != nil:
		return v1alpha1.PhaseHeld, "on " + newName(in, in.Update, in.Rejected) + ", because " + newName(in, in.Rejected, in.Update) + " is rejected"
	case t.notUpdated == 0:
		return v1alpha1.PhaseComplete, ""
	case unapplied(in, t) && s.Decision.Partition < s.Desired:
		return v1alpha1.PhasePaused, "paused: " + known.Short(in.Update.Name) + " is not applied yet, and replicas come back as they are"
	case in.Paused():
		return v1alpha1.PhasePaused, s.Decision.Reason
	case p.Rollout != nil && p.Rollout.State.Message != "" && s.Decision.Partition > s.Floor.Partition:
		return v1alpha1.PhaseHeld, p.Rollout.State.Message
	}
	return v1alpha1.PhaseHeld, s.Decision.Reason + whoChooses(in, s) + heldElsewhere(in, s, t)
}

// opened reports whether the partition of a subset, which the user chooses, is lower than what is asked for, until it has gone back.
func opened(in *planner.Input, p *planner.Plan, s *planner.SubsetPlan) bool {
	return p.Initialized && p.Rollout == nil && !in.Paused() && s.Decision.Partition < min(s.Floor.Partition, s.Desired)
}

// heldElsewhere says which replicas a partition holds on another revision than the update revision and the protected one, and
// how that ends.
func heldElsewhere(in *planner.Input, s *planner.SubsetPlan, t *tally) string {
	observed := t.facts.Observed
	protected := cmp.Or(s.ProtectedHash, observed.CurrentHash)
	if !t.facts.OnUpdate || !observed.SpecObserved || protected == "" || in.Counts() || in.Whole() {
		return ""
	}
	var names []string
	hash, lowest := "", int32(0)
	for _, r := range t.replicas {
		if r.Position < 0 || r.Released || r.Position >= observed.Replicas || r.Terminating || r.HashChanged != "" || r.Hash == "" || r.OnTemplate || r.Hash == protected {
			continue
		}
		if names = append(names, r.Name); len(names) == 1 {
			hash, lowest = r.Hash, r.Position
		}
	}
	if len(names) == 0 {
		return ""
	}
	runs := "runs"
	if len(names) > 1 {
		runs = "run"
	}
	remedy := fmt.Sprintf("set the partition to %d", lowest)
	if m := in.Parent.Spec.UpdateStrategy.ManualUpdate; coordination.Bound(m, in.Update.Name) != "" {
		remedy = fmt.Sprintf("set manualUpdate.revision to %s and the partition to %d", in.Update.Name, lowest)
	}
	return fmt.Sprintf("; %d %s (%s) %s %s, which is neither %s nor %s: to update, %s; to get back %s, delete the pod",
		len(names), replicasWord(int32(len(names))), shortenTo(names, ", ", "replicas"), runs, hash, known.Short(in.Update.Name), known.Short(s.ProtectedRevision), remedy, known.Short(s.ProtectedRevision))
}

// whoChooses says, for kinds without ordinals, that a partition does not determine which replicas stay.
func whoChooses(in *planner.Input, s *planner.SubsetPlan) string {
	if !in.Counts() || s.Decision.Partition <= 0 || s.Decision.Partition >= s.Desired {
		return ""
	}
	return "; the " + in.Spec.Adapter.GroupVersionKind().Kind + " chooses which"
}

// replacing reports whether the subset still moves released replicas, as it did in the last pass. A replica that
// is gone for a moment, or not available yet, is part of that. Otherwise the phase, and with it the reason of
// Ready, would change to Scaling or Unavailable and back with every replica. A failed replica is not part of it.
func replacing(in *planner.Input, p *planner.Plan, s *planner.SubsetPlan, t *tally) bool {
	observed := t.facts.Observed
	was := world.SubsetStatus(&in.Parent.Status, s.Name)
	if was == nil || was.Phase != v1alpha1.PhaseUpdating || was.DesiredReplicas != s.Desired || was.UpdateRevision != in.Asked().Name {
		return false
	}
	if !p.Initialized || in.Paused() || !t.facts.OnUpdate || !observed.SpecObserved || observed.Replicas != s.Desired || s.ProtectedRevision == in.Update.Name {
		return false
	}
	replaced := int32(0)
	for _, r := range t.replicas {
		if r.Failure != "" {
			return false
		}
		if (r.Available || s.IsReserved(r.Replica)) && r.Position >= observed.Partition && r.OnTemplate {
			replaced++
		}
	}
	return replaced < s.Desired-observed.Partition && len(subset.Unreleased(observed)) == 0
}

// scalingMessage returns how many replicas exist, and how many are wanted.
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

// surplusReplicas returns how many replicas a child has beyond those that it is asked for, and keeps: while it is
// paused in the middle of replacing replicas, its controller removes none.
func surplusReplicas(observed *adapters.Observed, t *tally) int32 {
	if !observed.Paused {
		return 0
	}
	return max(0, t.counts.Replicas-observed.Replicas)
}

// withheldFrom reports whether the child does not have the update revision because nothing of it is released.
func withheldFrom(in *planner.Input, observed *adapters.Observed) bool {
	return in.Traits().Protection == adapters.Withheld && observed.Partition >= observed.Replicas
}

// progressing reports whether a coordinated rollout is about to release more by itself.
func progressing(p *planner.Plan) bool {
	return p.Rollout != nil && meaningOf(p.Rollout.State, false).progresses
}

// releasedPending reports whether a replica at or above the partition is not on the update revision. It does not
// depend on spec.paused, because the partition is raised then.
func releasedPending(t *tally) bool {
	return slices.ContainsFunc(t.replicas, func(r known.Replica) bool { return r.Released && (!r.OnTemplate || r.Terminating) })
}

// updateFailed reports whether a released replica failed on the update revision.
func updateFailed(t *tally) bool {
	return slices.ContainsFunc(t.replicas, func(r known.Replica) bool {
		return (r.Failure != "" || r.Crashed) && !r.Terminating && !r.Ready && r.Position >= t.facts.Observed.Partition && r.OnTemplate
	})
}

// waitsFor names the replica that the subset waits for. A failed one comes before one that fits on no node, which
// comes before one that is not ready; a released one before a protected one; then the lowest one. The text
// contains the time at which it began, and not how long ago that was: a text that changes by itself would have to
// be written again and again.
func waitsFor(in *planner.Input, t *tally) string {
	observed, worst := t.facts.Observed, (*known.Replica)(nil)
	rank := func(r *known.Replica) int {
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
	for i := range t.replicas {
		if r := &t.replicas[i]; !r.Available && (worst == nil || rank(r) > rank(worst)) {
			worst = r
		}
	}
	if worst != nil {
		if !worst.Broken { // a broken one is replaced
			return "waiting for " + worst.Describe() + remedy(worst, observed)
		}
		return "waiting for " + worst.Describe()
	}
	if missing := observed.Missing(); missing >= 0 && (observed.SpecObserved || observed.Refused != "" || observed.Holder != "") {
		return "waiting for " + observed.DescribeMissing(observed.Meta.Name, missing)
	}
	if observed.Refused != "" {
		return "waiting for the controller of " + observed.Meta.Name + ", which cannot create another replica: " + observed.RefusedInShort()
	}
	if !in.Paused() && t.facts.OnUpdate && releasedPending(t) {
		return fmt.Sprintf("updating its replicas from number %d on to revision %s", observed.Partition, known.Short(in.Update.Name))
	}
	return ""
}

// remedy is for a replica that is protected by the partition and runs neither of the revisions from which it could
// be created, for example if a canary was held and then taken back. It is left alone, because it may serve; if it
// does not, the user has to give it up.
func remedy(r *known.Replica, observed *adapters.Observed) string {
	if r.Position >= observed.Partition || r.Terminating || r.Hash == observed.CurrentHash || r.Hash == observed.UpdateHash {
		return ""
	}
	return "; the partition keeps it on an earlier revision: to replace it, delete the pod or lower the partition"
}

func add(sum *v1alpha1.ReplicaCounts, c v1alpha1.ReplicaCounts) {
	sum.Replicas += c.Replicas
	sum.ReadyReplicas += c.ReadyReplicas
	sum.AvailableReplicas += c.AvailableReplicas
	sum.UpdatedReplicas += c.UpdatedReplicas
	sum.UpdatedReadyReplicas += c.UpdatedReadyReplicas
}
