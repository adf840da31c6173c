// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"
	"time"

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
	// Workload is the name of its child.
	Workload string
	// Desired is the number of replicas allotted to the subset.
	Desired int32
	// Cap is set while the subset gets no more replicas, because some did not fit on any node.
	Cap *v1alpha1.SubsetCap
	// Reserved is how many of Desired have no node, and are kept in addition to the replicas of the parent.
	Reserved int32
	// Decision is the goal for the child, regardless of who moves the partitions: the number of replicas, which is
	// greater while a coordinated scale-down waits, and the partition. Step is the next write towards it, and
	// Deletes are the replicas in Delete that may be deleted now.
	Decision coordination.Decision
	// Deletes are the replicas to delete once the child is as in Step: if it has to be written first, it must be
	// observed before.
	Deletes []Deletion
	// Protected is the name of the revision that protected replicas run.
	Protected string
	// Step is the next write to the child, with its complete content.
	Step subset.Step
	// Failure is why nothing can be done for the subset, if Step halts; otherwise nil.
	Failure *subset.Failure
	// deferred: the step is left to the next pass, which comes soon.
	deferred bool

	// Member: its replicas are members of groups.
	Member bool
	// MissedProtectedRevision: the child missed the revision that it protects according to the status.
	MissedProtectedRevision bool
}

// Make decides one pass.
func Make(in *Input) *Plan {
	p := &Plan{
		Initialized:     in.Initialized(),
		believedCurrent: in.BelievedCurrent(),
	}
	Allocate(in, p)
	p.CurrentRevision = currentRevision(in, p)
	for i, sub := range in.Spec.Subsets {
		s := &SubsetPlan{Subset: sub, Workload: adapters.ChildName(in.Parent.Name, sub.Name)}
		s.Desired, s.Cap, s.Reserved = p.Allocation.Replicas[i], p.caps[i], p.reserved[i]
		s.Member = spec.IsMember(in.Parent.Spec.Topology.Colocation, sub.Name)
		s.Protected = protectedRevision(in, p, sub.Name, in.Observed(sub.Name))
		p.Subsets = append(p.Subsets, s)
	}
	planRemoved(in, p)
	decide(in, p)
	for _, s := range p.Subsets {
		switch child := in.Unreadable[s.Name]; {
		case child != nil:
			s.halt(v1alpha1.ReasonUnreadable, child.Why+"; United leaves the subset unchanged until it can read it again")
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
	sub, observed := s.Subset, in.Observed(s.Name)
	protected := revision.ByName(in.Revisions, s.Protected)
	update, contested := in.Update, in.IsContested(s.Name)
	if in.Paused() || contested {
		// No new template: an existing child keeps its template, a new one gets the one that it would protect.
		update = protected
		if observed != nil {
			update = revision.ByName(in.Revisions, subset.RevisionOf(observed))
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
	s.MissedProtectedRevision = p.Initialized && missedProtectedRevision(in, p, sub.Name, observed)
	goal := subset.Goal{
		Child:                   childOf(in, s),
		Update:                  sub.Version(update),
		ProtectedRevision:       s.Protected,
		Before:                  in.RecordInStatus(sub.Name),
		Initialized:             p.Initialized,
		Held:                    s.Decision.Held,
		Frozen:                  in.Parent.Spec.Paused || s.Decision.Stopped,
		Protection:              in.Traits().Protection,
		MissedProtectedRevision: s.MissedProtectedRevision,
		Contested:               contested,
		Terms:                   rolloutTerms(in, p),
	}
	if observed != nil {
		has := revision.ByName(in.Revisions, subset.RevisionOf(observed))
		if has != nil {
			goal.Has = ptr.To(sub.Version(has))
			goal.SameTemplate = revision.SamePods(update, has, sub.Name, sub.Overlay)
		}
	}
	if protected != nil {
		goal.Protected = ptr.To(sub.Version(protected))
		goal.SamePods = revision.SamePods(update, protected, sub.Name, sub.Overlay)
	}
	goal.Outlived = observed == nil && in.Delegate(s.Name, s.Workload) != nil
	s.Step = keepOutlived(in, subset.Next(goal, observed))
	if s.Step.Action == subset.ActionHalt {
		s.Step.Child = childOf(in, s)
		s.halt(v1alpha1.ReasonRevisionLost, s.Step.Reason)
	}
	if s.Displaced != "" && !s.Fixed && s.Step.Action == subset.ActionApply && s.Step.Reason == "" {
		s.Step.Reason = "waiting to move to the nodes of its new nodeSelector: " + s.Displaced
	}
	p.wakeAt(s.Step.Wake)
	s.deferred = subset.ShouldWaitForStatus(s.Step, observed, in.Now)
	planDeletes(in, p, s, goal.SamePods)
	if contested {
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

// IsContested reports whether the child of a subset must be kept as it is, because somebody lowers its partition
// again and again. This requires the revision that the child has.
func (in *Input) IsContested(name string) bool {
	_, contested := in.Contested[name]
	observed := in.Observed(name)
	return contested && observed != nil && revision.ByName(in.Revisions, subset.RevisionOf(observed)) != nil
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

// planDeletes decides which replicas are deleted, once the child is written. proven: the protected revision of the
// subset makes the same pods as the update revision.
func planDeletes(in *Input, p *Plan, s *SubsetPlan, proven bool) {
	observed := in.Observed(s.Name)
	has := observed != nil && subset.RevisionOf(observed) == s.Step.Child.Revision
	switch {
	case in.Paused() || !has || in.Traits().Protection == adapters.Withheld || s.Step.Action != subset.ActionApply && s.Step.Action != subset.ActionRelearn:
		s.Deletes = nil
	case p.Rollout != nil:
	case s.Step.Action == subset.ActionRelearn:
		s.delete(observed, subset.DeletableUnreleased(observed, in.Now))
	default:
		stuck, wake := subset.Stuck(observed, in.Terms(), proven)
		stuck = append(stuck, s.unreached(observed, stuck, proven, in.Now)...)
		s.delete(observed, append(stuck, subset.DeletableUnreleased(observed, in.Now)...))
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
func (s *SubsetPlan) delete(observed *adapters.Observed, replicas []adapters.Replica) {
	var unreleased []adapters.Replica
	if len(replicas) > 0 {
		unreleased = subset.Unreleased(observed)
	}
	for _, r := range replicas {
		s.Deletes = append(s.Deletes, Deletion{r, slices.ContainsFunc(unreleased, func(u adapters.Replica) bool { return u.UID == r.UID })})
	}
}

func (p *Plan) wakeAt(at time.Time) {
	if !at.IsZero() && (p.Wake.IsZero() || at.Before(p.Wake)) {
		p.Wake = at
	}
}

// protectedRevision returns what the subset's protected replicas run: from its child, otherwise from the status,
// otherwise what the whole parent ran last.
func protectedRevision(in *Input, p *Plan, name string, observed *adapters.Observed) string {
	known := knownRevision(in, p, name)
	switch {
	case p.Initialized:
	case !in.Paused():
		return in.Update.Name
	case observed != nil:
		return subset.RevisionOf(observed) // no other revision replaces it now
	default:
		return cmp.Or(known, p.CurrentRevision)
	}
	if observed != nil && !missedProtectedRevision(in, p, name, observed) {
		if recorded := in.Protected(name, observed, known, in.Parent.Status.ObservedGeneration); recorded != "" {
			return recorded
		}
	}
	return cmp.Or(known, p.CurrentRevision)
}

// Protected returns what the child of a subset protects according to its record (subset.Protected).
func (in *Input) Protected(name string, observed *adapters.Observed, known string, knownAt int64) string {
	if in.templateReverted(name, observed) {
		return subset.RecordedProtectedRevision(observed)
	}
	return subset.Protected(observed, known, knownAt)
}

// TemplateReverted reports whether a subset's child, with the given result, has the revision that it protects,
// although it was written with another one.
func (in *Input) TemplateReverted(name string, o *Result) bool {
	after := in.After(Results{name: o})
	return after.templateReverted(name, after.Observed(name))
}

// templateReverted reports whether the child has the revision that it protects, although it was written with one
// that makes other pods: admission has kept its template as it was. So all its replicas look updated, although it
// has not finished. Two revisions can also differ only in notation, such as "1024Mi" and "1Gi"; this is why it
// compares the template.
func (in *Input) templateReverted(name string, observed *adapters.Observed) bool {
	i := slices.IndexFunc(in.Spec.Subsets, func(s spec.Subset) bool { return s.Name == name })
	if i < 0 || observed == nil || !subset.LooksFinished(observed) {
		return false
	}
	s, has, protects := in.Spec.Subsets[i], revision.ByName(in.Revisions, subset.RevisionOf(observed)), revision.ByName(in.Revisions, subset.RecordedProtectedRevision(observed))
	if has == nil || protects != nil && revision.SamePods(has, protects, name, s.Overlay) {
		return false
	}
	version, child := s.Version(has), childOf(in, &SubsetPlan{Subset: s, Workload: observed.Meta.Name})
	version.Of(&child)
	built, err := adapters.Build(in.Spec.Adapter, &child)
	return err == nil && adapters.Altered(in.Spec.Adapter, built, in.Children[name].Object) != ""
}

// knownRevision returns what the subset protects according to the status; "" if nothing, or if that is not
// credible.
func knownRevision(in *Input, p *Plan, name string) string {
	if status := world.SubsetStatus(&in.Parent.Status, name); status != nil {
		return subset.Credible(status.CurrentRevision, p.believedCurrent, status.ChildRecord)
	}
	return ""
}

func missedProtectedRevision(in *Input, p *Plan, name string, observed *adapters.Observed) bool {
	return observed != nil && subset.MissedProtectedRevision(observed, knownRevision(in, p, name), in.Parent.Status.ObservedGeneration)
}

func childOf(in *Input, s *SubsetPlan) adapters.Child {
	return adapters.Child{
		Namespace: in.Parent.Namespace, Name: s.Workload, Parent: in.Parent.Name, Subset: s.Name,
		Owner: world.OwnerOf(in.Parent), Selector: in.Parent.Spec.Selector,
		Template: in.Spec.Template, Patch: s.DecodedPatch,
		NodeSelector: s.NodeSelector, MinReadySeconds: in.Parent.Spec.MinReadySeconds,
		Replicas: s.Decision.Replicas, Partition: s.Decision.Partition,
		Pace: s.Decision.Pace, ParentGeneration: in.Parent.Generation, Kept: keptPlacement(in, s),
	}
}

// keptPlacement returns the placement of a child that stays on the nodes that it was made for; nil for any other.
func keptPlacement(in *Input, s *SubsetPlan) *adapters.Placement {
	if s.Displaced == "" {
		return nil
	}
	return adapters.PlacementOf(in.Spec.Adapter, in.Children[s.Name].Object)
}
