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
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Input is the complete input of one pass: a parent, and what was observed of it. Nothing in this package modifies
// it.
type Input struct {
	Parent *v1alpha1.UnitedDeployment
	// Spec is the parent's spec, from spec.Read.
	Spec *spec.Spec
	Now  time.Time

	// Children by subset, including those of subsets that the spec no longer has.
	Children map[string]*Child
	// Unreadable are the children that cannot be read, by subset. No other map has them.
	Unreadable map[string]*Unreadable
	// Pods by subset, according to their labels.
	Pods map[string][]*corev1.Pod
	// Related are the other objects that the adapter reads besides children and pods, by subset.
	Related map[string][]*unstructured.Unstructured
	// Outlived are the pods of subsets whose child is gone and may be created now, read from the API server a
	// moment ago.
	Outlived map[string][]corev1.Pod

	// Revisions are the stored revisions.
	Revisions []*revision.Revision
	// Update is the revision that the spec asks for. While that cannot be stored, it is the last stored one that
	// the spec asked for.
	Update *revision.Revision
	// Unkept is why the revision that the spec asks for cannot be stored; nil if it is. Until then it is not
	// applied, but everything else continues.
	Unkept *subset.Failure

	// Contested are the subsets in which somebody lowers the partition of the child again and again. The value is
	// when that is over, if nobody does it any more.
	Contested map[string]time.Time

	// Unreached are the subsets that the last pass did not reach, because it was ended early, by their place in a
	// queue that begins with 1.
	Unreached map[string]int

	// Wake is when the observer wants another pass; zero if never.
	Wake time.Time
}

// Unreadable is a child workload that cannot be read. The state of its replicas is not known, so neither it nor
// anything that depends on its replicas is changed.
type Unreadable struct {
	// Meta is its metadata, which is read separately.
	Meta metav1.ObjectMeta
	// Why says which object it is, and why it cannot be read.
	Why string
}

// LastKnown returns the status of a subset whose child cannot be read; an empty one for any other subset.
func (in *Input) LastKnown(name string) v1alpha1.SubsetStatus {
	if was := SubsetStatus(&in.Parent.Status, name); was != nil && in.Unreadable[name] != nil {
		return *was
	}
	return v1alpha1.SubsetStatus{}
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

// WithUpdateRevision returns the input with the revision that the spec asks for: one of the stored revisions, or a new
// one that is not stored yet, which it adds to them.
func (in *Input) WithUpdateRevision() (*Input, error) {
	content := in.Spec.Content()
	if found := revision.Find(in.Revisions, content, in.Parent.Status.UpdateRevision); found != nil {
		return in.WithRevisions(in.Revisions, found), nil
	}
	update, err := revision.Parse(revision.New(in.Parent, OwnerOf(in.Parent), content, revision.NextNumber(in.Revisions), 0))
	if err != nil {
		return nil, err
	}
	return in.WithRevisions(append(slices.Clone(in.Revisions), update), update), nil
}

// Kept returns the revisions without the one that is not stored yet.
func (in *Input) Kept() []*revision.Revision {
	return slices.DeleteFunc(slices.Clone(in.Revisions), func(r *revision.Revision) bool { return !kept(r) })
}

// kept reports whether the API server has a revision.
func kept(r *revision.Revision) bool { return r.Object.UID != "" }

// WithRevisions returns the input with these revisions, which include the update revision.
func (in *Input) WithRevisions(kept []*revision.Revision, update *revision.Revision) *Input {
	out := *in
	out.Revisions, out.Update = kept, update
	return &out
}

// WithoutUpdate returns the input to use while the revision that the spec asks for cannot be stored. The last
// stored one takes its place. It returns nil if there is none, so that nothing can be created. If the revision
// that the spec asks for was stored before, and somebody has deleted it, the one made from the unchanged spec is
// used.
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

// Terms returns the terms that decide when a replica is broken.
func (in *Input) Terms() adapters.Terms {
	t := adapters.Terms{Now: in.Now, Deadline: spec.ProgressTime(in.Parent), Paused: in.Parent.Spec.Paused}
	switch status := &in.Parent.Status; {
	case status.PausedTime != nil:
		t.Resumed = in.Now // at the earliest
	case status.ResumedTime != nil:
		t.Resumed = status.ResumedTime.Time
	}
	return t
}

// Child is one child workload.
type Child struct {
	// Object may be shared with the cache: it must not be modified.
	Object   *unstructured.Unstructured
	Observed *adapters.Observed
}

// InUse returns the names of all revisions that the status or a child refers to.
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

// InUseAfter is InUse with the results of a plan.
func (in *Input) InUseAfter(results Results) map[string]bool { return in.After(results).InUse() }

// Initialized reports whether a replica of the parent was ever ready. If the status is lost, children that protect
// a revision show that, too.
func (in *Input) Initialized() bool {
	if meta.IsStatusConditionTrue(in.Parent.Status.Conditions, v1alpha1.ConditionInitialized) {
		return true
	}
	for _, c := range in.Children {
		if subset.Protects(c.Observed) || slices.ContainsFunc(c.Observed.Pods, func(m adapters.Replica) bool { return m.Ready && !m.Terminating }) {
			return true
		}
	}
	// Trap: if the status is lost, too, an unreadable child may be the only one that shows it.
	return len(in.Unreadable) > 0 && meta.FindStatusCondition(in.Parent.Status.Conditions, v1alpha1.ConditionInitialized) == nil
}

// currentRevision returns the revision that the whole parent ran last.
func (in *Input) currentRevision(p *Plan) string {
	status := &in.Parent.Status
	switch {
	case !p.Initialized && (!in.Paused() || status.CurrentRevision == ""):
		return in.Update.Name
	case in.finishedOn(status.UpdateRevision):
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
	case known == nil && in.namedByChild(recorded):
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

// namedByChild reports whether a child, or the copy of a child's record, names a revision.
func (in *Input) namedByChild(name string) bool {
	for _, annotations := range in.records() {
		if name == annotations[v1alpha1.AnnotationRevision] || name == annotations[v1alpha1.AnnotationProtectedRevision] {
			return true
		}
	}
	return false
}

// records returns the annotations of all children, and the copies of them.
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

// finishedOn reports whether every replica in the status is updated to, and ready on, the revision.
func (in *Input) finishedOn(name string) bool {
	any := false
	for i := range in.Parent.Status.Subsets {
		was := &in.Parent.Status.Subsets[i]
		if was.DesiredReplicas == 0 {
			continue
		}
		observed := in.Observed(was.Name)
		if observed == nil || observed.Replicas != was.DesiredReplicas || subset.RevisionOf(observed) != name || !finished(observed) || in.templateReverted(was.Name, observed) {
			return false
		}
		any = true
	}
	return any && name != ""
}

// finished reports whether all replicas of the child are updated and ready, and were released to what they run.
func finished(observed *adapters.Observed) bool {
	return observed.SpecObserved && !subset.Forgot(observed) && len(subset.Unreleased(observed)) == 0 && observed.AllUpdated()
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

// ChildIdentity returns which object the child of a subset is, and its owner, without its content.
func (in *Input) ChildIdentity(name string) adapters.Child {
	return adapters.Child{
		Namespace: in.Parent.Namespace, Name: adapters.ChildName(in.Parent.Name, name),
		Parent: in.Parent.Name, Subset: name, Owner: OwnerOf(in.Parent),
	}
}

// OwnerOf returns the controller reference to a parent.
func OwnerOf(parent *v1alpha1.UnitedDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(parent, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
}

// RecordInStatus returns the copy in the status; nil if there is none.
func (in *Input) RecordInStatus(name string) *v1alpha1.ChildRecord {
	if was := SubsetStatus(&in.Parent.Status, name); was != nil {
		return was.ChildRecord
	}
	return nil
}
