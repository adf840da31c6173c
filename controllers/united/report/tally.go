// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// tally is what one pass finally knows about one subset.
type tally struct {
	name   string
	counts v1alpha1.ReplicaCounts
	phase  v1alpha1.SubsetPhase
	// message says what the subset waits for, or why it is stalled.
	message string
	failure *subset.Failure
	stale   bool
	// observed: the child is as it should be, and its controller has observed that.
	observed bool
	// availableAt is when time alone makes a replica available; zero if none.
	availableAt time.Time
	// unschedulable are the replicas that fit on no node, the one that has waited longest first.
	unschedulable []*adapters.Replica
	// failed are the updated replicas that failed, if no coordinated rollout handles them.
	failed []*adapters.Replica
	// facts and replicas are those of the child after the pass.
	facts    known.Facts
	replicas []known.Replica
	// notUpdated is how many replicas do not run the update revision.
	notUpdated int32
}

// done reports whether the subset currently is as the spec asks.
func (t *tally) done() bool {
	return t.phase == v1alpha1.PhaseComplete || t.phase == v1alpha1.PhaseHeld || t.phase == v1alpha1.PhasePaused
}

func tallyOf(in *planner.Input, p *planner.Plan, s *planner.SubsetPlan, o *planner.Result) *tally {
	if s.Removed {
		return tallyRemoved(in, p, s, o)
	}
	t := &tally{name: s.Name, failure: failureOf(s, o), stale: o.Stale}
	observed := in.Observed(s.Name)
	if in.Unreadable[s.Name] != nil {
		was := in.LastKnown(s.Name)
		if t.counts = was.ReplicaCounts; was.UpdateRevision != in.Asked().Name {
			t.counts.UpdatedReplicas, t.counts.UpdatedReadyReplicas = 0, 0
		}
		return t.withFailure()
	}
	if observed == nil {
		t.notUpdated = s.Desired
		t.phase, t.message = v1alpha1.PhasePending, cmp.Or(o.WaitReason, s.Step.Reason)
		return t.withFailure()
	}
	t.facts = p.FactsOf(in, s)
	t.replicas = t.facts.States(in.Terms())
	t.count()
	t.failed = slices.DeleteFunc(failedReplicas(in, p, t), s.IsReserved)
	if s.Reserved > 0 {
		t.unschedulable = t.unschedulable[min(len(t.unschedulable), int(s.Reserved)):]
	}
	if !observed.SpecObserved {
		// The hashes are those of an older spec: what was known about this revision stays.
		t.counts.UpdatedReplicas, t.counts.UpdatedReadyReplicas = 0, 0
		if old := world.SubsetStatus(&in.Parent.Status, s.Name); old != nil && old.UpdateRevision == in.Update.Name {
			t.counts.UpdatedReplicas = min(old.UpdatedReplicas, t.counts.Replicas)
			t.counts.UpdatedReadyReplicas = min(old.UpdatedReadyReplicas, t.counts.ReadyReplicas)
		}
	}
	t.notUpdated = max(0, s.Desired-t.counts.UpdatedReplicas)
	t.observed = observed.SpecObserved && s.Step.Action == subset.ActionApply && o.Failure == nil && !o.Stale
	t.phase, t.message = phaseOf(in, p, s, observed, t)
	if t.phase == v1alpha1.PhaseScaling || t.phase == v1alpha1.PhaseRestoring {
		t.message = cmp.Or(o.WaitReason, t.message)
	}
	if t.done() {
		t.message = joined(t.message, shortfall(p, s))
	}
	t.message = joined(t.message, growthMessage(p, s, t.message), o.Note)
	if t.failure == nil {
		t.failure = cmp.Or(relabelled(observed), placedElsewhere(s))
	}
	return t.withFailure()
}

// relabelled returns a failure if it is unknown what a replica runs, because somebody has changed the label for
// that; otherwise nil.
func relabelled(observed *adapters.Observed) *subset.Failure {
	replicas := subset.Relabelled(observed)
	if len(replicas) == 0 {
		return nil
	}
	r, label := replicas[0], appsv1.ControllerRevisionHashLabelKey
	return &subset.Failure{Reason: v1alpha1.ReasonRevisionLost, Stalled: true, Message: fmt.Sprintf(
		"the label %s of %s was changed by %q, so it is unknown what it runs, and United leaves it; to end this, run: kubectl label pod -n %s %s --overwrite %s=%s, or delete the pod",
		label, r.Name, r.HashChanged, observed.Meta.Namespace, r.Name, label, subset.ProtectedHash(observed))}
}

// restoring reports whether a child is being reminded of what it has forgotten. That takes several writes, and its
// controller must observe each.
func restoring(in *planner.Input, s *planner.SubsetPlan) bool {
	switch a := s.Step.Action; {
	case a == subset.ActionRemind, a == subset.ActionRelearn:
		return true
	case a == subset.ActionWait, s.Contested: // it continues after that
		was := world.SubsetStatus(&in.Parent.Status, s.Name)
		return was != nil && was.Phase == v1alpha1.PhaseRestoring
	}
	return false
}

func tallyRemoved(in *planner.Input, p *planner.Plan, s *planner.SubsetPlan, o *planner.Result) *tally {
	t := &tally{name: s.Name, failure: failureOf(s, o), stale: o.Stale, phase: v1alpha1.PhaseScaling, facts: p.FactsOf(in, s)}
	if t.replicas = t.facts.States(in.Terms()); t.facts.Observed != nil {
		t.count()
	} else if was := world.SubsetStatus(&in.Parent.Status, s.Name); was != nil {
		t.counts = was.ReplicaCounts // the last known counts
	}
	removing := "removing the subset"
	if s.Name == in.Spec.Relocates {
		removing = "moving to the nodes of its new nodeSelector"
	}
	t.message = cmp.Or(o.WaitReason, s.Step.Reason, removing)
	if s.Step.Action == subset.ActionShrink {
		t.message = cmp.Or(o.WaitReason, s.Decision.WaitReason, fmt.Sprintf(removing+": %d %s left", t.counts.Replicas, replicasWord(t.counts.Replicas)))
	}
	return t.withFailure()
}

// withFailure gives a failure precedence over everything else.
func (t *tally) withFailure() *tally {
	if t.failure != nil {
		t.message = t.failure.Message
		t.observed = false
		if t.failure.Stalled {
			t.phase = v1alpha1.PhaseStalled
		} else if t.done() {
			t.phase = v1alpha1.PhasePending
		}
	}
	return t
}

func (t *tally) count() {
	for i := range t.replicas {
		r := &t.replicas[i]
		t.counts.Replicas++
		if r.Terminating {
			continue
		}
		if r.Unschedulable != "" {
			t.unschedulable = append(t.unschedulable, r.Replica)
		}
		if r.Updated {
			t.counts.UpdatedReplicas++
		}
		if !r.Ready {
			continue
		}
		t.counts.ReadyReplicas++
		if r.Updated {
			t.counts.UpdatedReadyReplicas++
		}
		if r.Available {
			t.counts.AvailableReplicas++
		} else if at := r.AvailableAt; !at.IsZero() && (t.availableAt.IsZero() || at.Before(t.availableAt)) {
			t.availableAt = at
		}
	}
	slices.SortStableFunc(t.unschedulable, func(a, b *adapters.Replica) int { return a.UnschedulableSince.Compare(b.UnschedulableSince) })
}

// placedElsewhere returns the failure of a subset that cannot be moved; nil if it can, or need not.
func placedElsewhere(s *planner.SubsetPlan) *subset.Failure {
	if !s.Fixed {
		return nil
	}
	return &subset.Failure{Reason: v1alpha1.ReasonNodeSelectorChanged, Stalled: true, Message: "the nodeSelector has changed, and the replicas cannot be moved to the new nodes: " +
		s.Displaced + "; set it back, scale the subset to 0, or add another subset"}
}

// failureOf returns why nothing can be done for the subset, or why an attempt has failed; nil if neither is the case.
func failureOf(s *planner.SubsetPlan, r *planner.Result) *subset.Failure {
	if r.Refused() {
		return r.Failure
	}
	return s.Failure
}
