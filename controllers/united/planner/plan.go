// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	"github.com/unitedworkloads/united/controllers/united/known"

	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Plan is what one pass decides. It is made from the Input alone, and carrying it out changes neither.
type Plan struct {
	Allocation  allocation.Result
	Initialized bool
	// CurrentRevision is the revision that the whole parent ran last.
	CurrentRevision string
	// GoesBack: the rollout is the way back to a revision that all replicas ran before.
	GoesBack bool
	// Subsets are in the order of the spec, followed by those that the spec no longer has.
	Subsets []*SubsetPlan
	// Rollout is the decision of a coordinated rollout; nil under Manual, and before there is anything to protect.
	Rollout *coordination.Plan
	// Wake is when time alone changes the plan; zero if never.
	Wake time.Time

	// believedCurrent is Input.believedCurrent.
	believedCurrent string
	// caps are the caps of the subsets in the spec; nil for a subset without a cap. reserved is how many of their
	// replicas have no node and do not count.
	caps     []*v1alpha1.SubsetCap
	reserved []int32
	// Growth is set while groups wait for others; nil if all groups are created.
	Growth *groupedGrowth

	// in is what the plan was made from, and order is the order of the writes (Next).
	in    *Input
	order []*SubsetPlan
}

// SubsetPlan is what one pass decides for one subset.
type SubsetPlan struct {
	// Subset is the subset's part of the spec; if the subset is Removed, only the name.
	spec.Subset
	// Removed: the spec no longer has the subset.
	Removed bool
	// Facts are what is known of it; if the subset is Removed, only what its child says.
	known.Facts
	// Workload is the name of its child.
	Workload string
	// Desired is the number of replicas allotted to the subset.
	Desired int32
	// Cap is set while the subset gets no more replicas, because some did not fit on any node.
	Cap *v1alpha1.SubsetCap
	// Reserved is how many of Desired have no node, and are kept in addition to the replicas of the parent.
	Reserved int32
	// Floor is the partition that the user asks for, regardless of what a coordinated rollout does now.
	Floor coordination.DesiredPartition
	// Decision is the goal for the child, regardless of who moves the partitions: the number of replicas, which is
	// greater while a coordinated scale-down waits, and the partition. Step is the next write towards it, and
	// Deletes are the replicas in Delete that may be deleted now.
	Decision coordination.Decision
	// Deletes are the replicas to delete once the child is as in Step: if it has to be written first, it must be
	// observed before.
	Deletes []Deletion
	// Step is the next write to the child, with its complete content.
	Step subset.Step
	// Failure is why nothing can be done for the subset, if Step halts; otherwise nil.
	Failure *subset.Failure
	// askedNow is what is asked of the subset, for the record.
	askedNow known.Asked
	// deferred: the step is left to the next pass, which comes soon.
	deferred bool

	// Member: its replicas are members of groups.
	Member bool
}

// Make decides one pass.
func Make(in *Input) *Plan {
	p := &Plan{
		Initialized:     in.Initialized(),
		believedCurrent: in.BelievedCurrent(),
	}
	Allocate(in, p)
	p.CurrentRevision = currentRevision(in, p)
	p.GoesBack = in.goesBack(p.CurrentRevision)
	for i, sub := range in.Spec.Subsets {
		s := &SubsetPlan{Subset: sub, Workload: adapters.ChildName(in.Parent.Name, sub.Name)}
		s.Desired, s.Cap, s.Reserved = p.Allocation.Replicas[i], p.caps[i], p.reserved[i]
		s.Member = spec.IsMember(in.Parent.Spec.Topology.Colocation, sub.Name)
		s.Facts = factsOf(in, p, &sub)
		p.Subsets = append(p.Subsets, s)
	}
	planRemoved(in, p)
	decide(in, p)
	for _, s := range p.Subsets {
		switch {
		case s.Unreadable != "":
			s.halt(v1alpha1.ReasonUnreadable, s.Unreadable+"; United leaves the subset unchanged until it can read it again")
		case !s.Removed:
			planSubset(in, p, s)
		}
	}
	p.in, p.order = in, ordered(in, p.Subsets)
	return p
}

// halt leaves a subset as it is until somebody intervenes.
func (s *SubsetPlan) halt(reason, why string) {
	s.Step.Action, s.Step.Reason = subset.ActionHalt, why
	s.Deletes = nil
	s.Failure = &subset.Failure{Reason: reason, Message: why, Stalled: true}
}

// planSubset adds to the plan what follows from the partition.
func planSubset(in *Input, p *Plan, s *SubsetPlan) {
	sub, observed, update := s.Subset, s.Observed, in.Update
	protected, has := revision.ByName(in.Revisions, s.ProtectedRevision), revision.ByName(in.Revisions, s.Revision)
	if in.Paused() || s.Contested {
		// No new template: an existing child keeps its template, a new one gets the one that it would protect.
		update = protected
		if observed != nil {
			update = has
		}
	}
	if update == nil {
		s.Step.Child = childOf(in, s)
		why := "the rollout is paused"
		if !in.Parent.Spec.Paused {
			why = in.pauseReason()
		}
		s.halt(v1alpha1.ReasonRevisionLost, why+", and the revision of "+s.Workload+" is lost")
		return
	}
	goal := subset.Goal{
		Facts:       s.Facts,
		Child:       childOf(in, s),
		Update:      sub.Version(update),
		Before:      in.RecordInStatus(sub.Name),
		Initialized: p.Initialized,
		Held:        s.Decision.Held,
		Frozen:      in.Parent.Spec.Paused || s.Decision.Stopped,
		Protection:  in.Traits().Protection,
		Terms:       rolloutTerms(in, p),
	}
	if has != nil {
		goal.Has = ptr.To(sub.Version(has))
		goal.SameTemplate = revision.SamePods(update, has, sub.Name, sub.Overlay)
	}
	if protected != nil {
		goal.Protected = ptr.To(sub.Version(protected))
		goal.SamePods = revision.SamePods(update, protected, sub.Name, sub.Overlay)
	}
	goal.Outlived = observed == nil && in.Delegate(s.Name, s.Workload) != nil
	s.Step = keepOutlived(in, subset.Next(goal))
	if s.Step.Action == subset.ActionHalt {
		s.Step.Child = childOf(in, s)
		s.halt(v1alpha1.ReasonRevisionLost, s.Step.Reason)
	}
	if s.Displaced != "" && !s.Fixed && s.Step.Action == subset.ActionApply && s.Step.Reason == "" {
		s.Step.Reason = "waiting to move to the nodes of its new nodeSelector: " + s.Displaced
	}
	p.wakeAt(s.Step.Wake)
	s.deferred = subset.ShouldWaitForStatus(s.Step, observed, in.Now)
	planDeletes(in, p, s)
	if s.Contested {
		s.Deletes = nil // it is unknown what would replace them
		p.wakeAt(in.Contested[s.Name])
	}
}

// rolloutTerms returns what decides which replicas failed, if a rollout replaces them; nil under Manual.
func rolloutTerms(in *Input, p *Plan) *adapters.Terms {
	if p.Rollout == nil {
		return nil
	}
	return ptr.To(in.Terms())
}

// keepOutlived returns a step with room for the pods that outlived the previous child. If the child cannot be
// built, it is not created, and the writer reports why.
func keepOutlived(in *Input, step subset.Step) subset.Step {
	pods := in.Outlived[step.Child.Subset]
	if step.Action == subset.ActionCreate && in.Whole() && in.Coordinates() && step.Child.Replicas > 0 {
		step.Child.Replicas = max(step.Child.Replicas, in.Orphaned(step.Child.Subset)) // the ledger removes what is surplus
		return step
	}
	if step.Action != subset.ActionSeed || len(pods) == 0 {
		return step
	}
	adopts, ok := in.Spec.Adapter.(adapters.Adopting)
	if !ok {
		return step
	}
	u, err := adapters.Build(in.Spec.Adapter, &step.Child)
	if err != nil {
		return step
	}
	return subset.KeepOutlived(step, min(adopts.Orphans(u, pods), in.OutlivedReplicas(&step.Child)))
}

// Deletion is a replica to delete.
type Deletion struct {
	adapters.Replica
	// Unreleased: it came up on the update revision without having been released.
	Unreleased bool
}

// planDeletes decides which replicas are deleted, once the child is written.
func planDeletes(in *Input, p *Plan, s *SubsetPlan) {
	observed := s.Observed
	has := observed != nil && s.Revision == s.Step.Child.Revision
	switch {
	case in.Paused() || !has || in.Traits().Protection == adapters.Withheld || s.Step.Action != subset.ActionApply && s.Step.Action != subset.ActionRelearn:
		s.Deletes = nil
	case p.Rollout != nil:
	case s.Step.Action == subset.ActionRelearn:
		s.delete(subset.DeletableUnreleased(observed, in.Now))
	default:
		stuck, wake := subset.Stuck(&s.Facts, in.Terms())
		stuck = append(stuck, s.unreached(in, stuck)...)
		s.delete(append(stuck, subset.DeletableUnreleased(observed, in.Now)...))
		p.wakeAt(wake)
	}
	deferUnreleased(in, p, s)
}

// deferUnreleased keeps unreleased replicas until the child's controller knows from what to create their
// replacements.
func deferUnreleased(in *Input, p *Plan, s *SubsetPlan) {
	unreleased := func(d Deletion) bool { return d.Unreleased }
	if !slices.ContainsFunc(s.Deletes, unreleased) {
		return
	}
	if until := subset.ReminderSeenBy(in.Memory(s.Name).GetManagedFields(), in.Now); !until.IsZero() {
		s.Deletes = slices.DeleteFunc(s.Deletes, unreleased)
		p.wakeAt(until)
	}
}

// delete adds replicas of the child to those to delete.
func (s *SubsetPlan) delete(replicas []adapters.Replica) {
	for _, r := range replicas {
		s.Deletes = append(s.Deletes, Deletion{r, slices.ContainsFunc(s.Unreleased, func(u adapters.Replica) bool { return u.UID == r.UID })})
	}
}

func (p *Plan) wakeAt(at time.Time) {
	if !at.IsZero() && (p.Wake.IsZero() || at.Before(p.Wake)) {
		p.Wake = at
	}
}

func childOf(in *Input, s *SubsetPlan) adapters.Child {
	return adapters.Child{
		Namespace: in.Parent.Namespace, Name: s.Workload, Parent: in.Parent.Name, Subset: s.Name,
		Owner: world.OwnerOf(in.Parent), Selector: in.Parent.Spec.Selector,
		Template: in.Spec.Template, Patch: s.DecodedPatch,
		NodeSelector: s.NodeSelector, MinReadySeconds: in.Parent.Spec.MinReadySeconds,
		Replicas: s.Decision.Replicas, Partition: s.Decision.Partition,
		Asked: s.askedNow.String(),
		Pace:  s.Decision.Pace, ParentGeneration: in.Parent.Generation, Kept: keptPlacement(in, s),
	}
}

// keptPlacement returns the placement of a child that stays on the nodes that it was made for; nil for any other.
func keptPlacement(in *Input, s *SubsetPlan) *adapters.Placement {
	if s.Displaced == "" {
		return nil
	}
	return adapters.PlacementOf(in.Spec.Adapter, in.Children[s.Name].Object)
}

// KeepsAnother reports whether a subset without replicas protects another version than that of the update revision, and will when
// it gets replicas. Trap: as soon as the update revision is the current one, partitions protect nothing from it, so scaling to the
// subset that is released, and back, would release all others.
func (s *SubsetPlan) KeepsAnother() bool {
	return s.Desired == 0 && !s.Proven && s.Floor.Value.Value > 0
}
