// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// plan is what one pass decides. It is made from the world alone.
type plan struct {
	allocation  allocation.Result
	initialized bool
	// currentRevision is the one that the whole parent ran last.
	currentRevision string
	// subsets in the order of the spec.
	subsets []*subsetPlan
	// rollout is what a coordinated rollout decides; nil under Manual, and before
	// there is anything to protect.
	rollout *coordination.Plan
	// removed are the children to delete, by subset name; drained are those that
	// lose replicas first, with what they keep.
	removed []string
	drained []drain
	// unseen are the subsets whose children are gone, or have lost their labels.
	unseen []string
	// wake is when time alone changes the plan; zero if never.
	wake time.Time
}

// drain is a step on the way to the removal of a child.
type drain struct {
	name     string
	replicas int32
	waits    string
}

// subsetPlan is what one pass decides for one subset.
type subsetPlan struct {
	subsetSpec
	workload string
	// replicas is what the subset is allotted, asks what its child is asked for: it
	// is more while a coordinated scale-down waits.
	replicas, asks int32
	line           coordination.Line
	// What a coordinated rollout says of the subset: does why its partition changes,
	// waits what it waits for.
	does, waits string
	// deletes are the replicas to delete.
	deletes []adapters.Replica
	// protected names the revision that protected replicas run.
	protected string
	goal      subset.Goal
	step      subset.Step
	// defers: the step is left for the next pass, which comes soon.
	defers bool
}

func makePlan(w *world) *plan {
	wishes := make([]*intstr.IntOrString, len(w.spec.subsets))
	for i, sub := range w.spec.subsets {
		wishes[i] = sub.Replicas
	}
	p := &plan{
		allocation:      allocation.Allocate(replicasOf(w.parent), wishes),
		initialized:     w.initialized(),
		currentRevision: w.currentRevision(),
	}
	for i, sub := range w.spec.subsets {
		s := &subsetPlan{subsetSpec: sub, workload: adapters.ChildName(w.parent.Name, sub.Name)}
		s.replicas, s.asks = p.allocation.Replicas[i], p.allocation.Replicas[i]
		s.protected = w.protectedRevision(p, sub.Name, w.observed(sub.Name))
		p.subsets = append(p.subsets, s)
	}
	p.removed, p.unseen = w.unwanted(), w.unseen()
	if w.coordinates() && p.initialized {
		w.coordinate(p)
	}
	for _, s := range p.subsets {
		w.planSubset(p, s)
	}
	return p
}

// unwanted are the children that the spec does not ask for any more.
func (w *world) unwanted() []string {
	return w.unasked(func(c *child) bool {
		return !subset.WrittenLater(c.observed, w.parent.Generation) && c.object.GetDeletionTimestamp() == nil
	})
}

// leaving are the children of subsets that are gone, which were deleted and are still
// there: something holds a finalizer.
func (w *world) leaving() []string {
	return w.unasked(func(c *child) bool { return c.object.GetDeletionTimestamp() != nil })
}

// unseen are the subsets that neither the spec has nor a child, and that the status still
// tells of.
func (w *world) unseen() []string {
	var names []string
	for _, s := range w.parent.Status.Subsets {
		if w.children[s.Name] == nil && !slices.ContainsFunc(w.spec.subsets, func(asked subsetSpec) bool { return asked.Name == s.Name }) {
			names = append(names, s.Name)
		}
	}
	return names
}

// unasked are those of the children whose subset the spec does not have, by name.
func (w *world) unasked(of func(*child) bool) []string {
	var names []string
	for name, c := range w.children {
		if of(c) && !slices.ContainsFunc(w.spec.subsets, func(s subsetSpec) bool { return s.Name == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// planSubset adds to the plan what follows from the partition.
func (w *world) planSubset(p *plan, s *subsetPlan) {
	sub, observed := s.subsetSpec, w.observed(s.Name)
	s.line = w.line(p, s, observed)

	protected := revision.ByName(w.revisions, s.protected)
	update := w.update
	if w.paused() {
		// No new template: a child keeps the one it has, a new one gets the one
		// that it would protect.
		update = protected
		if observed != nil {
			update = revision.ByName(w.revisions, subset.RevisionOf(observed))
		}
	}
	if update == nil {
		s.step = subset.Step{Action: subset.ActionHalt, Reason: "paused, and the revision that " + s.workload + " has is lost"}
		return
	}
	s.goal = subset.Goal{
		Child:             w.childOf(s),
		Update:            sub.version(update),
		ProtectedRevision: s.protected,
		Before:            w.keptRecord(sub.Name),
		Initialized:       p.initialized,
		Behind:            p.initialized && w.behind(sub.Name, observed),
	}
	if observed != nil {
		has := revision.ByName(w.revisions, subset.RevisionOf(observed))
		s.goal.SameTemplate = has != nil && revision.SamePods(update, has, sub.Name, sub.overlay)
	}
	if protected != nil {
		s.goal.Protected = ptr.To(sub.version(protected))
		s.goal.SamePods = revision.SamePods(update, protected, sub.Name, sub.overlay)
	}
	s.step = w.around(subset.Next(s.goal, observed))
	s.defers = subset.Yields(s.step, observed, w.now)
	w.planDeletes(p, s)
	w.planUndo(p, s)
}

// planDeletes decides which replicas are deleted, once the child has what it shall have.
func (w *world) planDeletes(p *plan, s *subsetPlan) {
	observed, deletes := w.observed(s.Name), s.deletes
	s.deletes = nil
	has := observed != nil && subset.RevisionOf(observed) == s.step.Child.Revision
	switch {
	case w.paused() || !has:
		return
	case s.step.Action == subset.ActionRelearn && p.rollout == nil:
		s.deletes = subset.Undo(observed, w.now)
		return
	case s.step.Action != subset.ActionApply && s.step.Action != subset.ActionRelearn:
		return
	case p.rollout != nil:
		s.deletes = deletes
		return
	}
	var wake time.Time
	s.deletes, wake = subset.Stuck(observed, w.terms(), s.goal.SamePods)
	s.deletes = append(s.deletes, subset.Undo(observed, w.now)...)
	p.wakeAt(wake)
}

// planUndo leaves what came up unreleased until the child's controller knows what to make
// of it instead.
func (w *world) planUndo(p *plan, s *subsetPlan) {
	if len(s.deletes) == 0 {
		return
	}
	unreleased := subset.Unreleased(w.observed(s.Name))
	if len(unreleased) == 0 {
		return
	}
	until := subset.HeededBy(w.children[s.Name].object.GetManagedFields(), w.now)
	if until.IsZero() {
		return
	}
	s.deletes = slices.DeleteFunc(s.deletes, func(r adapters.Replica) bool { return among(unreleased, r) })
	p.wakeAt(until)
}

func (p *plan) wakeAt(at time.Time) {
	if !at.IsZero() && (p.wake.IsZero() || at.Before(p.wake)) {
		p.wake = at
	}
}

func (w *world) observed(name string) *adapters.Observed {
	if c := w.children[name]; c != nil {
		return c.observed
	}
	return nil
}

// protectedRevision is what the subset's protected replicas run: as its child
// says, else as the status says, else what the whole parent ran last.
func (w *world) protectedRevision(p *plan, name string, observed *adapters.Observed) string {
	known := w.knownRevision(name)
	switch {
	case p.initialized:
	case !w.paused():
		return w.update.Name
	case observed != nil:
		return subset.RevisionOf(observed) // no other takes its place now
	default:
		return cmp.Or(known, p.currentRevision)
	}
	if observed != nil && !w.behind(name, observed) {
		if told := w.protected(name, observed, known, w.parent.Status.ObservedGeneration); told != "" {
			return told
		}
	}
	return cmp.Or(known, p.currentRevision)
}

// protected is what the child of a subset says that it protects (subset.Protected).
func (w *world) protected(name string, observed *adapters.Observed, known string, knownAt int64) string {
	if w.unmade(name, observed) {
		return subset.Noted(observed)
	}
	return subset.Protected(observed, known, knownAt)
}

// unmade tells whether the child is of the revision that it protects, though it was written
// with one that makes other pods: admission has kept its template as it was. So all its
// replicas look updated, and it has not finished. Two revisions can also differ in their
// words alone, as "1024Mi" and "1Gi" do: that is why the template is compared.
func (w *world) unmade(name string, observed *adapters.Observed) bool {
	i := slices.IndexFunc(w.spec.subsets, func(s subsetSpec) bool { return s.Name == name })
	if i < 0 || !subset.LooksFinished(observed) {
		return false
	}
	s, has, protects := w.spec.subsets[i], revision.ByName(w.revisions, subset.RevisionOf(observed)), revision.ByName(w.revisions, subset.Noted(observed))
	if has == nil || protects != nil && revision.SamePods(has, protects, name, s.overlay) {
		return false
	}
	version, child := s.version(has), w.childOf(&subsetPlan{subsetSpec: s, workload: observed.Meta.Name})
	child.PodPart, child.PodPatch, child.Tolerations = version.PodPart, version.PodPatch, version.Tolerations
	built, err := adapters.Build(w.spec.adapter, &child)
	return err == nil && adapters.Altered(w.spec.adapter, built, w.children[name].object) != ""
}

// knownRevision is what the status says that the subset protects, "" if nothing, and if
// that can be.
func (w *world) knownRevision(name string) string {
	if status := subsetStatus(&w.parent.Status, name); status != nil {
		return subset.Credible(status.CurrentRevision, w.parent.Status.CurrentRevision, status.ChildRecord)
	}
	return ""
}

func (w *world) behind(name string, observed *adapters.Observed) bool {
	return observed != nil && subset.Behind(observed, w.knownRevision(name), w.parent.Status.ObservedGeneration)
}

// line is where the subset's partition lies. readSpec has refused what Manual
// cannot read; were it not so, Manual holds everything.
func (w *world) line(p *plan, s *subsetPlan, observed *adapters.Observed) coordination.Line {
	replicas, line := s.asks, s.line
	switch {
	case p.rollout != nil: // it is in the plan
	case w.coordinates():
		line = w.floor(s)
	default:
		line, _ = coordination.Manual(w.parent.Spec.UpdateStrategy.ManualUpdate, s.Name, replicas)
	}
	paused := w.paused()
	switch {
	case observed == nil && paused:
		return coordination.Freeze(line, 0, 0, replicas, 0)
	case observed == nil:
		return line
	case !p.initialized && !paused && subset.RevisionOf(observed) != w.update.Name:
		// A corrected template must reach every replica. Without one the child
		// knows one revision only, and there is nothing to tell apart.
		return openLine(0)
	case !p.initialized && subset.Completing(observed):
		return openLine(subset.RecordedPartition(observed))
	case paused:
		return coordination.Freeze(line, subset.RecordedPartition(observed), observed.Replicas, replicas, w.freezeFrom(observed))
	}
	return line
}

// freezeFrom is the position from which on replicas may go to the update revision while
// nothing is to move. While only a revision cannot be kept, which mostly passes at once,
// what has been released is not taken back.
func (w *world) freezeFrom(observed *adapters.Observed) int32 {
	if !w.parent.Spec.Paused {
		return 0
	}
	return updatedFrom(observed)
}

// openLine is the line of a child of which no replica was ever ready, and whose
// template was corrected: open until the child's controller has forgotten the
// revision before, which never worked. Freezing it would hold replicas on that.
func openLine(partition int32) coordination.Line {
	return coordination.Line{Partition: partition, Reason: "no replica was ever ready before, so nothing is protected yet"}
}

// updatedFrom is the lowest position from which on every replica that exists is
// on the update revision. A missing one above it counts as updated: it is being
// repaired.
func updatedFrom(o *adapters.Observed) int32 {
	from := o.Replicas
	for _, r := range slices.Backward(o.Members) {
		if r.Position >= o.Replicas {
			continue
		}
		if r.Hash != o.UpdateHash || r.Position < 0 {
			break
		}
		from = r.Position
	}
	return from
}

func (w *world) childOf(s *subsetPlan) adapters.Child {
	return adapters.Child{
		Namespace: w.parent.Namespace, Name: s.workload, Parent: w.parent.Name, Subset: s.Name,
		Owner: ownerOf(w.parent), Selector: w.parent.Spec.Selector,
		Template: w.spec.template, Patch: s.patch,
		NodeSelector: s.NodeSelector, MinReadySeconds: w.parent.Spec.MinReadySeconds,
		Replicas: s.asks, Partition: s.line.Partition,
		ParentGeneration: w.parent.Generation,
	}
}

// version is what a revision makes of this subset's pods. One that does not know
// the subset uses what the subset changes today.
func (s subsetSpec) version(r *revision.Revision) subset.Version {
	overlay := r.OverlayOr(s.Name, s.overlay)
	return subset.Version{Revision: r.Name, PodPart: r.Template(), PodPatch: overlay.Patch, Tolerations: overlay.Tolerations}
}

// order gives the subsets in the order in which their children are written:
// creates and scale-ups first, then those that keep their replicas, then
// scale-downs, so that no replica goes before another has come. A partition that
// moves does not wait until all other children were found to be as they should.
func (p *plan) order(w *world) []*subsetPlan {
	rank := func(s *subsetPlan) int {
		observed := w.observed(s.Name)
		switch {
		case observed == nil || s.asks > observed.Replicas:
			return 0
		case s.asks < observed.Replicas:
			return 3
		case s.step.Action == subset.ActionApply && s.step.Child.Partition != observed.Partition:
			return 1
		}
		return 2
	}
	ordered := slices.Clone(p.subsets)
	slices.SortStableFunc(ordered, func(a, b *subsetPlan) int { return rank(a) - rank(b) })
	return ordered
}

func subsetStatus(status *v1alpha1.UnitedDeploymentStatus, name string) *v1alpha1.SubsetStatus {
	i := slices.IndexFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &status.Subsets[i]
}
