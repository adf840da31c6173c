// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/writer"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// world is all that one pass decides from.
type world struct {
	parent *v1alpha1.UnitedDeployment
	spec   *spec
	now    time.Time
	// share is what the pass may use; nil: all it needs.
	share *share

	// looks are what earlier passes have looked at; nil if nothing.
	looks *writer.Looks

	// holderWake is when what holds the name of a replica is to be looked up; zero if never.
	holderWake time.Time

	// children by subset, also of subsets that the spec does not have any more.
	children map[string]*child
	pods     map[string][]*corev1.Pod
	// outlived are the pods of subsets whose child is gone and may be made now, as they
	// were a moment ago past the cache.
	outlived map[string][]corev1.Pod

	revisions []*revision.Revision
	// update is the revision that the spec asks for; of those that are kept, the last
	// that it asked for, while that one cannot be.
	update *revision.Revision
	// unkept is why the revision that the spec asks for cannot be kept; nil when it is.
	// Nothing is made of it until then, but all else goes on.
	unkept *subset.Failure
}

// paused: no new template, no release, no replica deleted.
func (w *world) paused() bool { return w.whyPaused() != "" }

// whyPaused says what freezes the rollout; "" when nothing does.
func (w *world) whyPaused() string {
	switch {
	case w.parent.Spec.Paused:
		return "spec.paused freezes the rollout"
	case w.unkept != nil:
		return "the rollout is frozen: " + w.unkept.Message
	}
	return ""
}

// lastKept is the revision that stands in for one that cannot be kept; nil if there is
// none.
func (w *world) lastKept() *revision.Revision {
	status := &w.parent.Status
	return cmp.Or(revision.ByName(w.revisions, status.UpdateRevision), revision.ByName(w.revisions, status.CurrentRevision))
}

// terms are when a replica is broken.
func (w *world) terms() adapters.Terms {
	t := adapters.Terms{Now: w.now, Deadline: progressTime(w.parent), Paused: w.parent.Spec.Paused}
	switch status := &w.parent.Status; {
	case status.PausedTime != nil:
		t.Resumed = w.now // at the soonest
	case status.ResumedTime != nil:
		t.Resumed = status.ResumedTime.Time
	}
	return t
}

// child is one child workload.
type child struct {
	// object may be shared with the cache: read only.
	object   *unstructured.Unstructured
	observed *adapters.Observed
}

// observe reads everything that belongs to the parent. Children and pods are
// found by their labels; what the parent does not control is left out.
func (r *Reconciler) observe(ctx context.Context, parent *v1alpha1.UnitedDeployment, s *spec) (*world, error) {
	w := &world{parent: parent, spec: s, now: r.Clock.Now(), looks: &r.looks, children: map[string]*child{}}
	err := r.readOwnWrites(ctx, w)
	if err != nil {
		return nil, err
	}
	if w.revisions, err = r.store().List(ctx, parent); err != nil {
		return nil, err
	}
	if w.pods, err = r.podsOf(ctx, parent); err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(s.adapter.GroupVersionKind())
	if err := r.Client.List(ctx, list, client.InNamespace(parent.Namespace), client.MatchingLabels{v1alpha1.LabelName: parent.Name},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("list children: %w", err)
	}
	for i := range list.Items {
		object := &list.Items[i]
		name := object.GetLabels()[v1alpha1.LabelSubset]
		if !metav1.IsControlledBy(object, parent) || object.GetName() != adapters.ChildName(parent.Name, name) {
			continue
		}
		if w.children[name], err = w.read(name, object); err != nil {
			return nil, err
		}
	}
	r.readOutlived(ctx, w)
	return w, r.readUnlisted(ctx, w)
}

// readOwnWrites waits until the caches have what was last written for the parent, to what
// its spec and its status name.
//
// Trap: a List that reads its own writes waits for all writes to the kind that any worker
// has in flight, so that one tenant's slow writes would hold up every pass of all others.
// A Get waits for those to one object; the Lists that follow do not wait. What they could
// miss, such as the last write to a child whose subset is gone, is fenced.
func (r *Reconciler) readOwnWrites(ctx context.Context, w *world) error {
	status, child := &w.parent.Status, kindOf(w.spec.adapter)
	var children []string
	for _, s := range w.spec.subsets {
		children = append(children, adapters.ChildName(w.parent.Name, s.Name))
	}
	revisions := []string{status.CurrentRevision, status.UpdateRevision}
	for _, s := range status.Subsets {
		children = append(children, adapters.ChildName(w.parent.Name, s.Name))
		revisions = append(revisions, s.CurrentRevision, s.UpdateRevision)
	}
	if err := r.readAsWritten(ctx, w.parent.Namespace, children, func() client.Object { return child.DeepCopy() }); err != nil {
		return err
	}
	return r.readAsWritten(ctx, w.parent.Namespace, revisions, func() client.Object { return &appsv1.ControllerRevision{} })
}

func (r *Reconciler) readAsWritten(ctx context.Context, namespace string, names []string, empty func() client.Object) error {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, empty(), client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("wait until %s is read as it was written: %w", name, err)
		}
	}
	return nil
}

// readUnlisted reads the revisions again when a child names one that is not among them:
// one that was made in a pass that was cut off before it wrote the status.
func (r *Reconciler) readUnlisted(ctx context.Context, w *world) error {
	var names []string
	for _, c := range w.children {
		for _, name := range []string{subset.RevisionOf(c.observed), c.observed.Meta.Annotations[v1alpha1.AnnotationProtectedRevision]} {
			if name != "" && revision.ByName(w.revisions, name) == nil {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	err := r.readAsWritten(ctx, w.parent.Namespace, names, func() client.Object { return &appsv1.ControllerRevision{} })
	if err == nil {
		w.revisions, err = r.store().List(ctx, w.parent)
	}
	return err
}

func (w *world) read(name string, object *unstructured.Unstructured) (*child, error) {
	if why := unreadableChild(object); why != "" {
		return nil, errUnreadable(object, why)
	}
	observed, err := w.spec.adapter.Observe(object, w.pods[name])
	if err != nil {
		return nil, fmt.Errorf("read child %s: %w", object.GetName(), err)
	}
	if err := w.restore(name, object, observed); err != nil {
		return nil, fmt.Errorf("read child %s: %w", object.GetName(), err)
	}
	return &child{object: object, observed: observed}, nil
}

// restore reads a child from which somebody took what United wrote on it as it was.
func (w *world) restore(name string, object *unstructured.Unstructured, observed *adapters.Observed) error {
	if w.looks.Intact(client.ObjectKeyFromObject(w.parent), object) {
		return nil
	}
	taken, err := writer.Taken(object)
	if err != nil {
		return err
	}
	subset.Restore(observed, taken, w.keptRecord(name))
	return nil
}

// readWritten reads a child that was just written as c. What is on record of it is what was
// written there, whatever admission has made of that: so the copy in the status is of what
// is true, and the next pass can tell.
func (w *world) readWritten(name string, object *unstructured.Unstructured, c *adapters.Child) (*child, error) {
	read, err := w.read(name, object)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(read.observed.Meta.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, adapters.Record(c))
	read.observed.Meta.Annotations = annotations
	return read, nil
}

func (r *Reconciler) podsOf(ctx context.Context, parent *v1alpha1.UnitedDeployment) (map[string][]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.Client.List(ctx, list, client.InNamespace(parent.Namespace),
		client.MatchingFields{podParentIndex: parent.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := map[string][]*corev1.Pod{}
	for i := range list.Items {
		name := list.Items[i].Labels[v1alpha1.LabelSubset]
		pods[name] = append(pods[name], &list.Items[i])
	}
	return pods, nil
}

// wholeParent stands for the parent itself where failures are kept by subset.
const wholeParent = ""

// snapshot makes sure that the revision the spec asks for is kept, before
// anything is made from it, and that the revisions in use know the subsets.
func (r *Reconciler) snapshot(ctx context.Context, w *world) *outcome {
	return r.attempt(ctx, w, wholeParent, nil, func(*outcome) error {
		store := r.store()
		store.Confirm = func(ctx context.Context) error { return r.confirm(ctx, w.parent) }
		update, err := store.Snapshot(ctx, w.parent, ownerOf(w.parent), w.revisions, w.spec.content())
		if err != nil {
			return unlessStale(err)
		}
		w.revisions = slices.DeleteFunc(w.revisions, func(r *revision.Revision) bool { return r.Name == update.Name })
		w.revisions = append(w.revisions, update)
		w.update = update
		inUse, living := w.inUse(), w.spec.overlays()
		for i, rev := range w.revisions {
			if !inUse[rev.Name] {
				continue
			}
			amended, err := store.Amend(ctx, rev, living)
			if err != nil {
				return unlessStale(err) // what is kept stays as it was
			}
			w.revisions[i] = amended
		}
		w.update = revision.ByName(w.revisions, update.Name)
		return nil
	})
}

// unlessStale: a revision that has changed, or is gone, is read again.
func unlessStale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return writer.ErrStale
	}
	return err
}

// confirm tells whether the parent still has the template and the subsets that it was
// read to have; the error is writer.ErrStale when not. A controller that does not know
// yet that another leads would make a revision again that is gone, or remove a subset
// that is back.
func (r *Reconciler) confirm(ctx context.Context, parent *v1alpha1.UnitedDeployment) error {
	live, err := r.readLive(ctx, parent)
	if err != nil {
		return err
	}
	if live.UID != parent.UID ||
		!equality.Semantic.DeepEqual(&live.Spec.Template, &parent.Spec.Template) ||
		!equality.Semantic.DeepEqual(&live.Spec.Topology, &parent.Spec.Topology) {
		return fmt.Errorf("%s has changed: %w", parent.Name, writer.ErrStale)
	}
	return nil
}

// inUse names every revision that the status or a child names.
func (w *world) inUse() map[string]bool {
	inUse := map[string]bool{
		w.parent.Status.CurrentRevision: true,
		w.parent.Status.UpdateRevision:  true,
	}
	if w.update != nil {
		inUse[w.update.Name] = true
	}
	for _, s := range w.parent.Status.Subsets {
		inUse[s.CurrentRevision], inUse[s.UpdateRevision] = true, true
		if kept := s.ChildRecord; kept != nil {
			inUse[kept.Annotations[v1alpha1.AnnotationRevision]] = true
			inUse[kept.Annotations[v1alpha1.AnnotationProtectedRevision]] = true
		}
	}
	for _, c := range w.children {
		inUse[c.observed.Meta.Annotations[v1alpha1.AnnotationRevision]] = true
		inUse[c.observed.Meta.Annotations[v1alpha1.AnnotationProtectedRevision]] = true
	}
	return inUse
}

// initialized tells whether a replica of the parent was ever ready. Children
// that protect a revision tell so too, should the status be lost.
func (w *world) initialized() bool {
	if meta.IsStatusConditionTrue(w.parent.Status.Conditions, v1alpha1.ConditionInitialized) {
		return true
	}
	for _, c := range w.children {
		if subset.Protects(c.observed) || slices.ContainsFunc(c.observed.Members, func(m adapters.Replica) bool { return m.Ready && !m.Terminating }) {
			return true
		}
	}
	return false
}

// currentRevision is the revision that the whole parent ran last.
func (w *world) currentRevision() string {
	status := &w.parent.Status
	switch {
	case !w.initialized() && (!w.paused() || status.CurrentRevision == ""):
		return w.update.Name
	case w.finishedOn(status.UpdateRevision):
		// Seen now, but not in time to be written: the spec has changed since.
		return status.UpdateRevision
	case status.CurrentRevision != "":
		return status.CurrentRevision
	}
	return w.oldestProtected()
}

// finishedOn tells whether every replica that the status speaks of is updated to,
// and ready on, the revision.
func (w *world) finishedOn(name string) bool {
	finished := false
	for i := range w.parent.Status.Subsets {
		was := &w.parent.Status.Subsets[i]
		if was.DesiredReplicas == 0 {
			continue
		}
		observed := w.observed(was.Name)
		if observed == nil || observed.Replicas != was.DesiredReplicas || subset.RevisionOf(observed) != name || !allUpdated(observed) || w.unmade(was.Name, observed) {
			return false
		}
		finished = true
	}
	return finished && name != ""
}

// allUpdated tells whether the child has exactly its replicas, and all are ready
// on what its template is.
func allUpdated(observed *adapters.Observed) bool {
	return observed.CaughtUp && !subset.Forgot(observed) && len(subset.Unreleased(observed)) == 0 && len(observed.Members) == int(observed.Replicas) &&
		!slices.ContainsFunc(observed.Members, func(m adapters.Replica) bool {
			return !m.Ready || m.Terminating || m.Hash != observed.UpdateHash || m.Position >= observed.Replicas
		})
}

// oldestProtected stands in for a lost status.
func (w *world) oldestProtected() string {
	var named []*revision.Revision
	for name, c := range w.children {
		if rev := revision.ByName(w.revisions, w.protected(name, c.observed, "", 0)); rev != nil {
			named = append(named, rev)
		}
	}
	if len(named) == 0 {
		return w.update.Name
	}
	return slices.MinFunc(named, func(a, b *revision.Revision) int { return cmp.Compare(a.Number, b.Number) }).Name
}

func ownerOf(parent *v1alpha1.UnitedDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(parent, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
}
