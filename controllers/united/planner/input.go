// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Input is all that one pass decides from: a parent, and what was observed of it.
// Nothing in this package changes it.
type Input struct {
	Parent *v1alpha1.UnitedDeployment
	// Spec is the parent's, as ReadSpec reads it.
	Spec *Spec
	Now  time.Time

	// Children by subset, also of subsets that the spec does not have any more.
	Children map[string]*Child
	// Unreadable are the children that cannot be read, by subset. They are in no other map.
	Unreadable map[string]*Unreadable
	// Pods by subset, as their labels say.
	Pods map[string][]*corev1.Pod
	// Related are the objects that the adapter reads beside children and pods, by subset.
	Related map[string][]*unstructured.Unstructured
	// Outlived are the pods of subsets whose child is gone and may be made now, as they
	// were a moment ago past the cache.
	Outlived map[string][]corev1.Pod

	// Revisions are those that are kept.
	Revisions []*revision.Revision
	// Update is the revision that the spec asks for; of those that are kept, the last
	// that it asked for, while that one cannot be.
	Update *revision.Revision
	// Unkept is why the revision that the spec asks for cannot be kept; nil when it is.
	// Nothing is made of it until then, but all else goes on.
	Unkept *subset.Failure

	// Contested are the subsets the partition of whose child somebody lowers again and again,
	// with the time when that is over if nobody does any more.
	Contested map[string]time.Time

	// Unreached are the subsets that the last pass did not get to, since it was ended early, by their place in a queue that
	// begins with 1.
	Unreached map[string]int

	// Wake is when whoever observes wants to look again; zero if never.
	Wake time.Time
}

// Unreadable is a child workload that cannot be read. What its replicas are is not known:
// nothing of it is changed, nor anything that it would have to pay for.
type Unreadable struct {
	// Meta is its metadata, which is read by itself.
	Meta metav1.ObjectMeta
	// Why says what it is, and why it cannot be read.
	Why string
}

// lastKnown is what the status says of a subset whose child cannot be read; nothing of
// another.
func (in *Input) lastKnown(name string) v1alpha1.SubsetStatus {
	if was := SubsetStatus(&in.Parent.Status, name); was != nil && in.Unreadable[name] != nil {
		return *was
	}
	return v1alpha1.SubsetStatus{}
}

// paused reports whether the rollout is frozen: no new template, no release, no replica deleted.
func (in *Input) paused() bool { return in.pauseReason() != "" }

// pauseReason says what freezes the rollout; "" when nothing does.
func (in *Input) pauseReason() string {
	switch {
	case in.Parent.Spec.Paused:
		return "the rollout is paused (spec.paused)"
	case in.Unkept != nil:
		return "the rollout is frozen: " + in.Unkept.Message
	}
	return ""
}

// pause is which way the rollout is frozen, if it is.
func (in *Input) pause() coordination.Pause {
	switch {
	case !in.Parent.Spec.Paused:
		return coordination.Unkept
	case in.Parent.Status.PausedTime == nil:
		return coordination.PausedNow
	}
	return coordination.PausedBefore
}

// SetUpdateRevision sets the revision that the spec asks for, from those that are kept: one of them, or
// one that is yet to be kept, which is added to them. See Plan.Ensure.
func (in *Input) SetUpdateRevision() error {
	content := in.Spec.Content()
	if in.Update = revision.Find(in.Revisions, content, in.Parent.Status.UpdateRevision); in.Update != nil {
		return nil
	}
	update, err := revision.Parse(revision.New(in.Parent, OwnerOf(in.Parent), content, revision.NextNumber(in.Revisions), 0))
	if err != nil {
		return err
	}
	in.Revisions, in.Update = append(in.Revisions, update), update
	return nil
}

// Kept are the revisions but one that is yet to be kept.
func (in *Input) Kept() []*revision.Revision {
	return slices.DeleteFunc(slices.Clone(in.Revisions), func(r *revision.Revision) bool { return !kept(r) })
}

// kept reports whether the API server has a revision.
func kept(r *revision.Revision) bool { return r.Object.UID != "" }

// WithRevisions is the input with these revisions, the update revision among them.
func (in *Input) WithRevisions(kept []*revision.Revision, update *revision.Revision) *Input {
	out := *in
	out.Revisions, out.Update = kept, update
	return &out
}

// WithoutUpdate is the input while the revision that the spec asks for cannot be kept. The last
// one that is kept stands in for it; nil if there is none, so that nothing can be made. One that was
// kept before, and that somebody has deleted, is made of the spec as it was: it stands for itself.
func (in *Input) WithoutUpdate(unkept *subset.Failure) *Input {
	status, kept := &in.Parent.Status, in.Kept()
	if status.UpdateRevision != "" && in.Update.Name == status.UpdateRevision && revision.ByName(kept, in.Update.Name) == nil {
		kept = append(kept, in.Update)
	}
	last := cmp.Or(revision.ByName(kept, status.UpdateRevision), revision.ByName(kept, status.CurrentRevision))
	if last == nil {
		return nil
	}
	out := in.WithRevisions(kept, last)
	out.Unkept = unkept
	return out
}

// terms are when a replica is broken.
func (in *Input) terms() adapters.Terms {
	t := adapters.Terms{Now: in.Now, Deadline: progressTime(in.Parent), Paused: in.Parent.Spec.Paused}
	switch status := &in.Parent.Status; {
	case status.PausedTime != nil:
		t.Resumed = in.Now // at the soonest
	case status.ResumedTime != nil:
		t.Resumed = status.ResumedTime.Time
	}
	return t
}

// Child is one child workload.
type Child struct {
	// Object may be shared with the cache: read only.
	Object   *unstructured.Unstructured
	Observed *adapters.Observed
}

// InUse names every revision that the status or a child names.
func (in *Input) InUse() map[string]bool {
	inUse := map[string]bool{
		in.Parent.Status.CurrentRevision: true,
		in.Parent.Status.UpdateRevision:  true,
	}
	if in.Update != nil {
		inUse[in.Update.Name] = true
	}
	for _, s := range in.Parent.Status.Subsets {
		inUse[s.CurrentRevision], inUse[s.UpdateRevision] = true, true
	}
	for _, annotations := range in.records() {
		inUse[annotations[v1alpha1.AnnotationRevision]] = true
		inUse[annotations[v1alpha1.AnnotationProtectedRevision]] = true
	}
	return inUse
}

// InUseAfter is InUse after what became of a plan.
func (in *Input) InUseAfter(results Results) map[string]bool { return in.after(results).InUse() }

// Initialized reports whether a replica of the parent was ever ready. Children
// that protect a revision tell so too, should the status be lost.
func (in *Input) Initialized() bool {
	if meta.IsStatusConditionTrue(in.Parent.Status.Conditions, v1alpha1.ConditionInitialized) {
		return true
	}
	for _, c := range in.Children {
		if subset.Protects(c.Observed) || slices.ContainsFunc(c.Observed.Pods, func(m adapters.Replica) bool { return m.Ready && !m.Terminating }) {
			return true
		}
	}
	// Trap: where the status is lost too, a child that cannot be read may be the one that
	// knows.
	return len(in.Unreadable) > 0 && meta.FindStatusCondition(in.Parent.Status.Conditions, v1alpha1.ConditionInitialized) == nil
}

// currentRevision is the revision that the whole parent ran last.
func (in *Input) currentRevision(p *Plan) string {
	status := &in.Parent.Status
	switch {
	case !p.Initialized && (!in.paused() || status.CurrentRevision == ""):
		return in.Update.Name
	case in.finishedOn(status.UpdateRevision):
		// Seen now, but not in time to be written: the spec has changed since.
		return status.UpdateRevision
	}
	if p.believedCurrent != "" {
		return p.believedCurrent
	}
	return in.oldestProtected(in.Update.Name)
}

// believedCurrent is what became the current revision last, "" if that is not known. The revisions
// record it, and are believed rather than the status, which some may write: going back to the
// current revision passes steps and approvals. But a record can be taken too, and then the
// one before it is the last: so the status is believed where it names a revision without a record,
// or one that is gone and that a child still names. If that is the one to go to, the children
// tell what they protect.
func (in *Input) believedCurrent() string {
	told := in.Parent.Status.CurrentRevision
	last, _ := revision.LastCurrent(in.Revisions, in.Parent.UID)
	if last == nil || told == "" || told == last.Name {
		return cmp.Or(told, nameOf(last))
	}
	switch known := revision.ByName(in.Revisions, told); {
	case known == nil && in.namedByChild(told):
		return told
	case known == nil || known.WasCurrent(in.Parent.UID):
		return last.Name
	case told == in.Update.Name: // a forgery, or a record that was taken
		return in.oldestProtected(last.Name)
	}
	return told
}

func nameOf(r *revision.Revision) string {
	if r == nil {
		return ""
	}
	return r.Name
}

// namedByChild reports whether a child, or the copy of a child's record, names a revision.
func (in *Input) namedByChild(name string) bool {
	for _, annotations := range in.records() {
		if name == annotations[v1alpha1.AnnotationRevision] || name == annotations[v1alpha1.AnnotationProtectedRevision] {
			return true
		}
	}
	return false
}

// records are the annotations of all children, and the copies of them.
func (in *Input) records() []map[string]string {
	var all []map[string]string
	for _, s := range in.Parent.Status.Subsets {
		if s.ChildRecord != nil {
			all = append(all, s.ChildRecord.Annotations)
		}
	}
	for _, c := range in.Children {
		all = append(all, c.Observed.Meta.Annotations)
	}
	for _, c := range in.Unreadable {
		all = append(all, c.Meta.Annotations)
	}
	return all
}

// Unrecorded gives the current revision of a status, and the number of the last record, when
// that is to be recorded: all replicas were seen to run it, or nothing is on record yet. It is
// nil when there is nothing to record; what is not initialized has nothing to go back to.
func (in *Input) Unrecorded(p *Plan, status *v1alpha1.UnitedDeploymentStatus) (*revision.Revision, int64) {
	last, number := revision.LastCurrent(in.Revisions, in.Parent.UID)
	switch {
	case !p.Initialized, nameOf(last) == status.CurrentRevision:
		return nil, 0
	case last != nil && status.CurrentRevision == in.believedCurrent() && !allUpdated(status):
		return nil, 0 // believed, and not seen
	}
	return revision.ByName(in.Kept(), status.CurrentRevision), number
}

// allUpdated reports whether a status says that all replicas that are asked for are there, run
// its current revision, and are ready.
func allUpdated(status *v1alpha1.UnitedDeploymentStatus) bool {
	return status.CurrentRevision == status.UpdateRevision && status.Replicas > 0 &&
		!slices.ContainsFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool {
			return s.Replicas != s.DesiredReplicas || s.UpdatedReadyReplicas != s.DesiredReplicas
		})
}

// finishedOn reports whether every replica that the status speaks of is updated to,
// and ready on, the revision.
func (in *Input) finishedOn(name string) bool {
	any := false
	for i := range in.Parent.Status.Subsets {
		was := &in.Parent.Status.Subsets[i]
		if was.DesiredReplicas == 0 {
			continue
		}
		observed := in.observed(was.Name)
		if observed == nil || observed.Replicas != was.DesiredReplicas || subset.RevisionOf(observed) != name || !finished(observed) || in.templateReverted(was.Name, observed) {
			return false
		}
		any = true
	}
	return any && name != ""
}

// finished reports whether all replicas of the child are updated and ready, and were
// released to what they run.
func finished(observed *adapters.Observed) bool {
	return observed.SpecObserved && !subset.Forgot(observed) && len(subset.Unreleased(observed)) == 0 && observed.AllUpdated()
}

// oldestProtected stands in for a status that is lost, or not to be believed: the oldest
// revision that a child protects, other if none protects any.
func (in *Input) oldestProtected(other string) string {
	var named []*revision.Revision
	for name, c := range in.Children {
		if rev := revision.ByName(in.Revisions, in.protected(name, c.Observed, "", 0)); rev != nil {
			named = append(named, rev)
		}
	}
	if len(named) == 0 {
		return other
	}
	return slices.MinFunc(named, func(a, b *revision.Revision) int { return cmp.Compare(a.Number, b.Number) }).Name
}

// ChildIdentity says which object the child of a subset is, and whose, and nothing of what it shall be.
func (in *Input) ChildIdentity(name string) adapters.Child {
	return adapters.Child{
		Namespace: in.Parent.Namespace, Name: adapters.ChildName(in.Parent.Name, name),
		Parent: in.Parent.Name, Subset: name, Owner: OwnerOf(in.Parent),
	}
}

// OwnerOf is the controller reference to a parent.
func OwnerOf(parent *v1alpha1.UnitedDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(parent, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
}
