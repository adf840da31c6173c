// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
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
	// Deferred: the step is left to the next pass, which comes soon.
	Deferred bool

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
	in.Allocate(p)
	p.CurrentRevision = in.currentRevision(p)
	for i, sub := range in.Spec.Subsets {
		s := &SubsetPlan{Subset: sub, Workload: adapters.ChildName(in.Parent.Name, sub.Name)}
		s.Desired, s.Cap, s.Reserved = p.Allocation.Replicas[i], p.caps[i], p.reserved[i]
		s.Member = spec.IsMember(in.Parent.Spec.Topology.Colocation, sub.Name)
		s.Protected = in.protectedRevision(p, sub.Name, in.Observed(sub.Name))
		p.Subsets = append(p.Subsets, s)
	}
	in.planRemoved(p)
	in.decide(p)
	for _, s := range p.Subsets {
		switch child := in.Unreadable[s.Name]; {
		case child != nil:
			s.halt(v1alpha1.ReasonUnreadable, child.Why+"; United leaves the subset unchanged until it can read it again")
		case !s.Removed:
			in.planSubset(p, s)
		}
	}
	return p
}

// halt leaves a subset as it is until somebody intervenes.
func (s *SubsetPlan) halt(reason, why string) {
	s.Step.Action, s.Step.Reason = subset.ActionHalt, why
	s.Deletes = nil
	s.Failure = &subset.Failure{Reason: reason, Message: why, Stalled: true}
}

// planSubset adds to the plan what follows from the partition.
func (in *Input) planSubset(p *Plan, s *SubsetPlan) {
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
		s.Step.Child = in.childOf(s)
		why := "the rollout is paused"
		if !in.Parent.Spec.Paused {
			why = in.pauseReason()
		}
		s.halt(v1alpha1.ReasonRevisionLost, why+", and the revision of "+s.Workload+" is lost")
		return
	}
	s.MissedProtectedRevision = p.Initialized && in.missedProtectedRevision(p, sub.Name, observed)
	goal := subset.Goal{
		Child:                   in.childOf(s),
		Update:                  sub.Version(update),
		ProtectedRevision:       s.Protected,
		Before:                  in.RecordInStatus(sub.Name),
		Initialized:             p.Initialized,
		Held:                    s.Decision.Held,
		Frozen:                  in.Parent.Spec.Paused || s.Decision.Stopped,
		Protection:              in.Traits().Protection,
		MissedProtectedRevision: s.MissedProtectedRevision,
		Contested:               contested,
		Terms:                   in.rolloutTerms(p),
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
	goal.Outlived = observed == nil && in.delegate(s.Name, s.Workload) != nil
	s.Step = in.keepOutlived(subset.Next(goal, observed))
	if s.Step.Action == subset.ActionHalt {
		s.Step.Child = in.childOf(s)
		s.halt(v1alpha1.ReasonRevisionLost, s.Step.Reason)
	}
	if s.Displaced != "" && !s.Fixed && s.Step.Action == subset.ActionApply && s.Step.Reason == "" {
		s.Step.Reason = "waiting to move to the nodes of its new nodeSelector: " + s.Displaced
	}
	p.wakeAt(s.Step.Wake)
	s.Deferred = subset.ShouldWaitForStatus(s.Step, observed, in.Now)
	in.planDeletes(p, s, goal.SamePods)
	if contested {
		s.Deletes = nil // it is unknown what would replace them
		p.wakeAt(in.Contested[s.Name])
	}
}

// rolloutTerms returns what decides which replicas failed, if a rollout replaces them; nil under Manual.
func (in *Input) rolloutTerms(p *Plan) *adapters.Terms {
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
func (in *Input) keepOutlived(step subset.Step) subset.Step {
	pods := in.Outlived[step.Child.Subset]
	if step.Action == subset.ActionCreate && in.whole() && in.Coordinates() && step.Child.Replicas > 0 {
		step.Child.Replicas = max(step.Child.Replicas, in.orphaned(step.Child.Subset)) // the ledger removes what is surplus
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
	return subset.KeepOutlived(step, min(adopts.Orphans(u, pods), in.outlivedReplicas(&step.Child)))
}

// orphaned returns how many pods outlived a child that adopts them by way of a related object, such as a ReplicaSet, that was
// orphaned.
func (in *Input) orphaned(name string) (n int32) {
	orphans := map[types.UID]bool{}
	for _, object := range in.Related[name] {
		orphans[object.GetUID()] = metav1.GetControllerOfNoCopy(object) == nil
	}
	for i := range in.Outlived[name] {
		pod := &in.Outlived[name][i]
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && orphans[owner.UID] && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// outlivedReplicas returns how many replicas the workload that outlived a child still keeps: the others are about to go.
func (in *Input) outlivedReplicas(c *adapters.Child) int32 {
	if delegate := in.delegate(c.Subset, c.Name); delegate != nil {
		if n, found, _ := unstructured.NestedInt64(delegate.Object, "spec", "replicas"); found {
			return int32(min(n, math.MaxInt32))
		}
	}
	return math.MaxInt32
}

// delegate returns the workload to which the child of a subset delegates its replicas, or did before it was gone; nil if
// there is none.
func (in *Input) delegate(subset, child string) *unstructured.Unstructured {
	if delegating, ok := in.Spec.Adapter.(adapters.Delegating); ok {
		return adapters.DelegateOf(delegating, child, in.Related[subset])
	}
	return nil
}

// Deletion is a replica to delete.
type Deletion struct {
	adapters.Replica
	// Unreleased: it came up on the update revision without having been released.
	Unreleased bool
}

// planDeletes decides which replicas are deleted, once the child is written. proven: the protected revision of the
// subset makes the same pods as the update revision.
func (in *Input) planDeletes(p *Plan, s *SubsetPlan, proven bool) {
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
	in.deferUnreleased(p, s)
}

// deferUnreleased keeps unreleased replicas until the child's controller knows from what to create their
// replacements.
func (in *Input) deferUnreleased(p *Plan, s *SubsetPlan) {
	unreleased := func(d Deletion) bool { return d.Unreleased }
	if !slices.ContainsFunc(s.Deletes, unreleased) {
		return
	}
	if until := subset.ReminderSeenBy(in.memory(s.Name).GetManagedFields(), in.Now); !until.IsZero() {
		s.Deletes = slices.DeleteFunc(s.Deletes, unreleased)
		p.wakeAt(until)
	}
}

// memory returns the object that remembers what the replicas of a subset ran before: its child, or the object to
// which the child delegates them.
func (in *Input) memory(name string) *unstructured.Unstructured {
	child := in.Children[name].Object
	return cmp.Or(in.delegate(name, child.GetName()), child)
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

// Observed returns the child of a subset as it was observed; nil if there is none that can be read.
func (in *Input) Observed(name string) *adapters.Observed {
	if c := in.Children[name]; c != nil {
		return c.Observed
	}
	return nil
}

// protectedRevision returns what the subset's protected replicas run: from its child, otherwise from the status,
// otherwise what the whole parent ran last.
func (in *Input) protectedRevision(p *Plan, name string, observed *adapters.Observed) string {
	known := in.knownRevision(p, name)
	switch {
	case p.Initialized:
	case !in.Paused():
		return in.Update.Name
	case observed != nil:
		return subset.RevisionOf(observed) // no other revision replaces it now
	default:
		return cmp.Or(known, p.CurrentRevision)
	}
	if observed != nil && !in.missedProtectedRevision(p, name, observed) {
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
	version, child := s.Version(has), in.childOf(&SubsetPlan{Subset: s, Workload: observed.Meta.Name})
	version.Of(&child)
	built, err := adapters.Build(in.Spec.Adapter, &child)
	return err == nil && adapters.Altered(in.Spec.Adapter, built, in.Children[name].Object) != ""
}

// knownRevision returns what the subset protects according to the status; "" if nothing, or if that is not
// credible.
func (in *Input) knownRevision(p *Plan, name string) string {
	if status := SubsetStatus(&in.Parent.Status, name); status != nil {
		return subset.Credible(status.CurrentRevision, p.believedCurrent, status.ChildRecord)
	}
	return ""
}

func (in *Input) missedProtectedRevision(p *Plan, name string, observed *adapters.Observed) bool {
	return observed != nil && subset.MissedProtectedRevision(observed, in.knownRevision(p, name), in.Parent.Status.ObservedGeneration)
}

func (in *Input) childOf(s *SubsetPlan) adapters.Child {
	return adapters.Child{
		Namespace: in.Parent.Namespace, Name: s.Workload, Parent: in.Parent.Name, Subset: s.Name,
		Owner: OwnerOf(in.Parent), Selector: in.Parent.Spec.Selector,
		Template: in.Spec.Template, Patch: s.DecodedPatch,
		NodeSelector: s.NodeSelector, MinReadySeconds: in.Parent.Spec.MinReadySeconds,
		Replicas: s.Decision.Replicas, Partition: s.Decision.Partition,
		Pace: s.Decision.Pace, ParentGeneration: in.Parent.Generation, Kept: in.kept(s),
	}
}

// kept returns the placement of a child that stays on the nodes that it was made for; nil for any other.
func (in *Input) kept(s *SubsetPlan) *adapters.Placement {
	if s.Displaced == "" {
		return nil
	}
	return adapters.PlacementOf(in.Spec.Adapter, in.Children[s.Name].Object)
}

// Order returns the subsets in the order in which their children are written: creates and scale-ups first, then
// those that keep their replicas, then scale-downs, so that no replica is removed before another has come. A
// partition that moves does not wait until all other children have been checked. Subsets that the spec no longer
// has come last.
//
// The subsets that the last pass did not reach come before all others except scale-downs, so that no subset always waits
// behind others that take long, and fail: a hundred creates that are rejected after a second each would otherwise take
// every pass. Before these come a partition that rises within a revision, and changes of children whose last write did
// not fail: as there is only one write for each, they keep the others waiting no more than once.
func (p *Plan) Order(in *Input) []*SubsetPlan {
	turn := func(s *SubsetPlan) int {
		rank := orderOf(in, s)
		switch {
		case rank >= shrinking || len(in.Unreached) == 0:
			return rank
		case rank < rests && in.Observed(s.Name) != nil && (in.raises(s) || !in.mayFail(s)):
			return changes
		case in.Unreached[s.Name] > 0:
			return unreached
		}
		return rank
	}
	place := func(s *SubsetPlan) int { return cmp.Or(in.Unreached[s.Name], math.MaxInt) }
	ordered := slices.Clone(p.Subsets)
	slices.SortStableFunc(ordered, func(a, b *SubsetPlan) int {
		return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(place(a), place(b)))
	})
	return ordered
}

// raises reports whether the partition of a child rises within its revision.
func (in *Input) raises(s *SubsetPlan) bool {
	o := in.Observed(s.Name)
	return orderOf(in, s) == moves && s.Step.Child.Partition > o.Partition && s.Step.Child.Revision == subset.RevisionOf(o)
}

// mayFail reports whether the last write of a child failed, as far as the status knows.
func (in *Input) mayFail(s *SubsetPlan) bool {
	last := SubsetStatus(&in.Parent.Status, s.Name)
	return last == nil || last.Phase == v1alpha1.PhasePending || last.Phase == v1alpha1.PhaseStalled
}

// The places of subsets in an order. The first two are for a pass after one that did not reach all of them.
const (
	changes = iota
	unreached
	grows
	moves
	rests
	shrinking
	removed
)

func orderOf(in *Input, s *SubsetPlan) int {
	observed := in.Observed(s.Name)
	switch {
	case s.Removed:
		return removed
	case observed == nil || s.Decision.Replicas > observed.Replicas:
		return grows
	case s.Decision.Replicas < observed.Replicas:
		return shrinking
	case s.Step.Action == subset.ActionApply && s.Step.Child.Partition != observed.Partition:
		return moves
	}
	return rests
}

// SubsetStatus returns the part of a status for a subset; nil if there is none.
func SubsetStatus(status *v1alpha1.UnitedDeploymentStatus, name string) *v1alpha1.SubsetStatus {
	i := slices.IndexFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &status.Subsets[i]
}
