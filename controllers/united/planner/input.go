// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Input is what one pass decides on. Nothing in this package modifies it.
type Input struct {
	world.World
	// Update is the revision that the spec asks for; Revisions has it too. While that cannot be stored, it is the last
	// stored one that the spec asked for, and while that is rejected, the current one.
	Update *revision.Revision
	// Rejected is the revision that the spec asks for while it is rejected; nil if it is not.
	Rejected *revision.Revision
	// Unkept is why the revision that the spec asks for cannot be stored; nil if it is. Until then it is not
	// applied, but everything else continues.
	Unkept *subset.Failure
}

// Paused reports whether the rollout is frozen: no new template, no release, no replica deleted.
func (in *Input) Paused() bool { return in.pauseReason() != "" }

// pauseReason returns what freezes the rollout; "" if nothing does.
func (in *Input) pauseReason() string {
	switch {
	case in.Parent.Spec.Paused:
		return "the rollout is paused (spec.paused)"
	case in.Unkept != nil:
		return "the rollout is frozen: " + in.Unkept.Message
	case in.stranded():
		return "the rollout is frozen: " + known.Short(in.Rejected.Name) + " is rejected, and no revision is proven to go back to"
	}
	return ""
}

// pause returns how the rollout is frozen, if it is.
func (in *Input) pause() coordination.Pause {
	switch {
	case !in.Parent.Spec.Paused:
		return coordination.Unkept
	case in.Parent.Status.PausedTime == nil:
		return coordination.PausedNow
	}
	return coordination.PausedBefore
}

// NewInput returns the input of a plan for what was seen of a parent. The error is that of a revision that cannot be named.
func NewInput(w *world.World) (*Input, error) {
	in := &Input{World: *w}
	in.Spec = relocating(w)
	return in.WithUpdateRevision()
}

// WithUpdateRevision returns the input with the revision that the spec asks for: one of the stored revisions, or a new
// one that is not stored yet, which it adds to them.
func (in *Input) WithUpdateRevision() (*Input, error) {
	content := in.Spec.Content()
	if found := revision.Find(in.Revisions, content, in.Parent.Status.UpdateRevision); found != nil {
		return in.WithRevisions(in.Revisions, found), nil
	}
	update, err := revision.Parse(revision.New(in.Parent, world.OwnerOf(in.Parent), content, revision.NextNumber(in.Revisions), 0))
	if err != nil {
		return nil, err
	}
	return in.WithRevisions(append(slices.Clone(in.Revisions), update), update), nil
}

// WithRevisions returns the input with these revisions, which include the one that the spec asks for.
func (in *Input) WithRevisions(kept []*revision.Revision, asked *revision.Revision) *Input {
	out := *in
	out.Revisions, out.Update = kept, asked
	out.insteadOfRejected()
	return &out
}

// WithoutUpdate returns the input to use while the revision that the spec asks for cannot be stored. The last
// stored one takes its place. It returns nil if there is none, so that nothing can be created. If the revision
// that the spec asks for was stored before, and somebody has deleted it, the one made from the unchanged spec is
// used.
func (in *Input) WithoutUpdate(unkept *subset.Failure) *Input {
	status, kept := &in.Parent.Status, in.Kept()
	if asked := in.Asked(); status.UpdateRevision != "" && asked.Name == status.UpdateRevision && revision.ByName(kept, asked.Name) == nil {
		kept = append(kept, asked)
	}
	last := cmp.Or(revision.ByName(kept, status.UpdateRevision), revision.ByName(kept, status.CurrentRevision))
	if last == nil {
		return nil
	}
	out := in.WithRevisions(kept, last)
	out.Unkept = unkept
	return out
}

// InUse returns the names of all revisions that the status or a child refers to.
func (in *Input) InUse() map[string]bool {
	inUse := map[string]bool{
		in.Parent.Status.CurrentRevision: true,
		in.Parent.Status.UpdateRevision:  true,
	}
	if in.Update != nil {
		inUse[in.Update.Name], inUse[in.Asked().Name] = true, true
	}
	inUse[in.lastRejected()] = true // or a manifest with it would roll it out again
	for _, r := range in.ranBefore(in.Parent.Status.CurrentRevision) {
		inUse[r.Name] = true
	}
	for _, s := range in.Parent.Status.Subsets {
		inUse[s.CurrentRevision], inUse[s.UpdateRevision] = true, true
	}
	for _, annotations := range in.Records() {
		AddNamed(inUse, annotations)
	}
	return inUse
}

// AddNamed adds the revisions that the record of a child names.
func AddNamed(inUse map[string]bool, record map[string]string) {
	inUse[record[v1alpha1.AnnotationRevision]] = true
	inUse[record[v1alpha1.AnnotationProtectedRevision]] = true
	if asked := known.ReadAsked(record[v1alpha1.AnnotationAsked]); asked != nil {
		inUse[asked.Update] = true
	}
}

// currentRevision returns the revision that the whole parent ran last.
func currentRevision(in *Input, p *Plan) string {
	status := &in.Parent.Status
	switch {
	case in.Rejected != nil && !in.stranded():
		return in.Update.Name
	case !p.Initialized && (!in.Paused() || status.CurrentRevision == ""):
		return in.Update.Name
	case in.finishedOn(status.UpdateRevision) && in.endedOn(status.Rollout, status.UpdateRevision):
		// This is visible now, but was not written in time: the spec has changed since.
		return status.UpdateRevision
	}
	if p.believedCurrent != "" {
		return p.believedCurrent
	}
	return in.oldestProtected(in.Update.Name)
}

// BelievedCurrent returns the revision that last became the current one; "" if that is not known. The revisions
// have records of that. These have precedence over the status, which some users may write, because going back to
// the current revision skips steps and approvals. But a record can be removed, too, and then the previous record
// is the last one. So the status has precedence if it names a revision without a record, or one that is gone and
// that a child still names. If that is the revision to go to, the protected revisions of the children decide.
func (in *Input) BelievedCurrent() string {
	recorded := in.Parent.Status.CurrentRevision
	last, _ := revision.LastCurrent(in.Revisions, in.Parent.UID)
	if last == nil || recorded == "" || recorded == last.Name {
		return cmp.Or(recorded, NameOf(last))
	}
	switch known := revision.ByName(in.Revisions, recorded); {
	case known == nil && in.NamedByChild(recorded):
		return recorded
	case known == nil || known.WasCurrent(in.Parent.UID):
		return last.Name
	case recorded == in.Update.Name: // a forgery, or a record that was removed
		return in.oldestProtected(last.Name)
	}
	return recorded
}

// NameOf returns the name of a revision; "" if there is none.
func NameOf(r *revision.Revision) string {
	if r == nil {
		return ""
	}
	return r.Name
}

// finishedOn reports whether every child of the status has finished a revision (subset.Finished): it would be the current one if a
// pass had seen that before the spec changed.
func (in *Input) finishedOn(name string) bool {
	any := false
	for i := range in.Parent.Status.Subsets {
		was := &in.Parent.Status.Subsets[i]
		if was.DesiredReplicas == 0 {
			if was.CurrentRevision != name {
				return false // whether it protects that still, the status does not say (KeepsAnother)
			}
			continue
		}
		observed := in.Observed(was.Name)
		if observed == nil || observed.Replicas != was.DesiredReplicas || subset.RevisionOf(observed) != name || !subset.Finished(observed) || in.templateReverted(was.Name, observed) {
			return false
		}
		any = true
	}
	return any && name != ""
}

// endedOn reports whether the checks and pauses of a rollout to a revision have let it end, or it had none. If some of the steps
// have a pause, only the rollout itself knows whether it is over.
func (in *Input) endedOn(rollout *v1alpha1.RolloutStatus, name string) bool {
	strategy := &v1alpha1.RollingUpdate{}
	if in.Coordinates() {
		strategy = cmp.Or(in.Parent.Spec.UpdateStrategy.RollingUpdate, strategy)
	}
	pauses := slices.ContainsFunc(strategy.Steps, func(s v1alpha1.RolloutStep) bool { return s.Pause != nil })
	switch {
	case rollout != nil && in.isRejectedBy(rollout, name):
		return false
	case rollout == nil || rollout.Revision != name || rollout.Phase == v1alpha1.RolloutDone:
		return true
	case rollout.Phase == v1alpha1.RolloutAwaitingApproval, rollout.Phase == v1alpha1.RolloutPaused, pauses && !rollout.Promoted:
		return false
	case rollout.Forced:
		return true
	case name != in.Update.Name:
		return len(rollout.Checks) == 0
	}
	return len(strategy.Checks) == 0
}

// oldestProtected is used if the status is lost, or cannot be trusted. It returns the oldest revision that a child
// protects, or other if none protects any.
func (in *Input) oldestProtected(other string) string {
	var named []*revision.Revision
	for name, c := range in.Children {
		if rev := revision.ByName(in.Revisions, in.Protected(name, c.Observed, "", 0)); rev != nil {
			named = append(named, rev)
		}
	}
	if len(named) == 0 {
		return other
	}
	return slices.MinFunc(named, func(a, b *revision.Revision) int { return cmp.Compare(a.Number, b.Number) }).Name
}
