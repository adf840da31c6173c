// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe reads what belongs to a parent. It writes nothing, and decides nothing.
package observe

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/revision/store"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/unreadable"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Observer reads the world of a parent. It writes nothing.
type Observer struct {
	// Client reads from the cache, with an index by the label united.dev/name.
	Client client.Reader
	// Live reads past the cache.
	Live client.Reader
	// Related reads from the caches of the objects that are related to children of a kind that delegates
	// (adapters.Delegating).
	Related map[schema.GroupVersionKind]client.Reader
	Writes  Writes
	// Memory is what is remembered of the parent. If it is lost, that costs only additional reads.
	Memory memory.Entry
}

// Writes is what is remembered of the writes to the children of a kind, and where they are read past the cache because
// of that.
type Writes interface {
	// Intact reports whether nobody has changed a child since it was written.
	Intact(child *unstructured.Unstructured) bool
	// Contested returns until when it counts as a contest that somebody lowers the partition of a child.
	Contested(child *unstructured.Unstructured, observed *adapters.Observed) (time.Time, error)
	// Outlived returns the pods that outlived the child of a subset.
	Outlived(ctx context.Context, namespace, parent, subset string) ([]corev1.Pod, error)
	// Stripped returns a child that has lost one of its labels; nil if there is none.
	Stripped(ctx context.Context, c *adapters.Child) (*unstructured.Unstructured, error)
}

// failures are those of writes: a child of which one failed is looked up less often.
func (o *Observer) failures() undone.Failures { return undone.FailuresOf(o.Memory) }

func (o *Observer) store() *store.Reader {
	return &store.Reader{Cached: o.Client, Live: o.Live, Memory: o.Memory}
}

// Observe reads everything that belongs to the parent. Children and pods are found by their labels; children that the
// parent does not control are ignored.
func (o *Observer) Observe(ctx context.Context, parent *v1alpha1.UnitedDeployment, s *spec.Spec, now time.Time) (*world.World, error) {
	w := &world.World{Parent: parent, Spec: s, Now: now, Children: map[string]*world.Child{}, Unreadable: map[string]*world.Unreadable{}}
	err := o.readOwnWrites(ctx, w)
	if err != nil {
		return nil, err
	}
	if w.Revisions, err = o.store().List(ctx, parent); err != nil {
		return nil, err
	}
	if w.Pods, err = o.podsOf(ctx, parent); err != nil {
		return nil, err
	}
	if w.Related, err = o.relatedOf(ctx, parent, s.Adapter); err != nil {
		return nil, err
	}
	children, err := labelled(ctx, o.Client.List, parent, s.Adapter.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	for _, object := range children {
		name := object.GetLabels()[v1alpha1.LabelSubset]
		if !metav1.IsControlledBy(object, parent) || object.GetName() != adapters.ChildName(parent.Name, name) {
			continue
		}
		o.addChild(w, name, object)
	}
	o.readStripped(ctx, w)
	o.observedChildren().DeleteFunc(func(subset string, _ observedChild) bool { return w.Children[subset] == nil })
	o.findContested(ctx, w)
	o.readOutlived(ctx, w)
	o.readNameHolders(ctx, w)
	if err := o.readUnlisted(ctx, w); err != nil {
		return nil, err
	}
	return w, nil
}

// addChild reads the child of a subset. If it cannot be read, only its subset is affected.
func (o *Observer) addChild(w *world.World, name string, object *unstructured.Unstructured) {
	child, err := o.ReadChild(w, name, object)
	if err != nil {
		w.Unreadable[name] = &world.Unreadable{Meta: metaOf(object), Why: err.Error()}
		return
	}
	w.Children[name] = child
}

// metaOf returns the metadata that is used of a child that cannot be read.
func metaOf(object *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), Annotations: object.GetAnnotations()}
}

// readOwnWrites waits until the caches have the last writes to the objects that the spec and status of the parent name.
//
// Trap: a List that reads its own writes waits for all writes to the kind that any worker has in flight, so the slow
// writes of one tenant would delay every pass of all others. A Get waits only for writes to one object; the Lists that
// follow do not wait. Writes that they could miss, such as the last write to a child of a removed subset, are fenced.
func (o *Observer) readOwnWrites(ctx context.Context, w *world.World) error {
	status, child := &w.Parent.Status, ObjectOf(w.Spec.Adapter.GroupVersionKind())
	var children []string
	for _, s := range w.Spec.Subsets {
		children = append(children, adapters.ChildName(w.Parent.Name, s.Name))
	}
	revisions := []string{status.CurrentRevision, status.UpdateRevision}
	for _, s := range status.Subsets {
		children = append(children, adapters.ChildName(w.Parent.Name, s.Name))
		revisions = append(revisions, s.CurrentRevision, s.UpdateRevision)
	}
	if err := o.readAsWritten(ctx, w.Parent.Namespace, children, func() client.Object { return child.DeepCopy() }); err != nil {
		return err
	}
	return o.readAsWritten(ctx, w.Parent.Namespace, revisions, func() client.Object { return &appsv1.ControllerRevision{} })
}

func (o *Observer) readAsWritten(ctx context.Context, namespace string, names []string, empty func() client.Object) error {
	names = slices.Sorted(slices.Values(names)) // a copy: Compact clears the remaining elements
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		err := o.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, empty(), client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("wait until %s is read as it was written: %w", name, err)
		}
	}
	return nil
}

// readUnlisted reads the revisions again if a child names one that was not listed: it was created in a pass that was
// interrupted before it wrote the status.
func (o *Observer) readUnlisted(ctx context.Context, w *world.World) error {
	var names []string
	for _, c := range w.Children {
		for _, name := range []string{subset.RevisionOf(c.Observed), c.Observed.Meta.Annotations[v1alpha1.AnnotationProtectedRevision]} {
			if name != "" && revision.ByName(w.Revisions, name) == nil {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	err := o.readAsWritten(ctx, w.Parent.Namespace, names, func() client.Object { return &appsv1.ControllerRevision{} })
	if err == nil {
		w.Revisions, err = o.store().List(ctx, w.Parent)
	}
	if err != nil {
		return err
	}
	return o.readUnlabelled(ctx, w, names)
}

// unlistedRevisions is the key in the failures by subset for revisions that are read past the cache. It is not a valid
// name of a subset.
const unlistedRevisions = "revisions/unlisted"

// readUnlabelled reads, past the cache, the revisions that are still not listed: somebody may have removed the label by
// which they are found. Executor.Keep restores that label. If a revision does not exist, it is looked up less and less
// often, because no watch reports when it appears without its label.
func (o *Observer) readUnlabelled(ctx context.Context, w *world.World, names []string) error {
	attempt := undone.Attempt{UID: w.Parent.UID}
	if pending := o.failures().Pending(unlistedRevisions, attempt, w.Now); pending != nil {
		wakeAt(w, pending.RetryAt)
		return nil
	}
	var gone error
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		// Anybody can write any value into an annotation.
		if len(validation.NameIsDNSSubdomain(name, false)) > 0 || revision.ByName(w.Revisions, name) != nil {
			continue
		}
		found, err := o.store().Unlabelled(ctx, w.Parent, name)
		switch {
		case err != nil:
			return err
		case found == nil:
			gone = fmt.Errorf("revision %s: %w", name, subset.ErrRevisionGone)
		default:
			w.Revisions = append(w.Revisions, found)
		}
	}
	if gone == nil {
		o.failures().Succeeded(unlistedRevisions)
		return nil
	}
	wakeAt(w, o.failures().Failed(unlistedRevisions, attempt, gone, w.Now).RetryAt)
	return nil
}

// lists is the List method of a client or cache.
type lists func(context.Context, client.ObjectList, ...client.ListOption) error

// labelled returns the objects of a kind that have the label of the parent. They are shared with the cache.
func labelled(ctx context.Context, from lists, parent *v1alpha1.UnitedDeployment, gvk schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	if err := from(ctx, list, client.InNamespace(parent.Namespace), client.MatchingFields{v1alpha1.LabelName: parent.Name},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("list %ss: %w", gvk.Kind, err)
	}
	objects := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, nil
}

// relatedOf returns the objects that an adapter reads in addition to children and pods, by subset according to their
// labels.
func (o *Observer) relatedOf(ctx context.Context, parent *v1alpha1.UnitedDeployment, adapter adapters.Adapter) (map[string][]*unstructured.Unstructured, error) {
	related := map[string][]*unstructured.Unstructured{}
	from := o.Client.List
	if apart := o.Related[adapter.GroupVersionKind()]; apart != nil {
		from = apart.List
	}
	for _, gvk := range RelatedTo(adapter) {
		objects, err := labelled(ctx, from, parent, gvk)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			name := object.GetLabels()[v1alpha1.LabelSubset]
			related[name] = append(related[name], object)
		}
	}
	return related, nil
}

// ReadChild reads a child of a parent.
func (o *Observer) ReadChild(w *world.World, name string, object *unstructured.Unstructured) (*world.Child, error) {
	if why := UnreadableChild(object); why != "" {
		return nil, errUnreadable(object, why)
	}
	observed, err := o.observeChild(w, name, object)
	if err != nil {
		return nil, errUnreadable(object, err.Error())
	}
	if err := o.restoreRecord(w, name, object, observed); err != nil {
		return nil, errUnreadable(object, err.Error())
	}
	return &world.Child{Object: object, Observed: observed}, nil
}

// findContested finds the children whose partition somebody lowers again and again.
func (o *Observer) findContested(ctx context.Context, w *world.World) {
	w.Contested = map[string]time.Time{}
	for _, s := range w.Spec.Subsets {
		c := w.Children[s.Name]
		if c == nil {
			continue
		}
		until, err := o.Writes.Contested(c.Object, c.Observed)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("could not find out who has lowered a partition", "subset", s.Name, "error", err.Error())
		}
		if !until.IsZero() {
			w.Contested[s.Name] = until
		}
	}
}

// restoreRecord restores, in the observed child, what United wrote on it, if somebody has removed that.
func (o *Observer) restoreRecord(w *world.World, name string, object *unstructured.Unstructured, observed *adapters.Observed) error {
	if o.Writes.Intact(object) {
		return nil
	}
	taken, err := ownership.Taken(object, w.Spec.Adapter.FieldPaths().Partition)
	if err != nil {
		return err
	}
	var kept *v1alpha1.ChildRecord
	if status := world.SubsetStatus(&w.Parent.Status, name); status != nil {
		kept = status.ChildRecord
	}
	subset.Restore(observed, taken, kept)
	return nil
}

func (o *Observer) podsOf(ctx context.Context, parent *v1alpha1.UnitedDeployment) (map[string][]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := o.Client.List(ctx, list, client.InNamespace(parent.Namespace),
		client.MatchingFields{v1alpha1.LabelName: parent.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := map[string][]*corev1.Pod{}
	for i := range list.Items {
		name := list.Items[i].Labels[v1alpha1.LabelSubset]
		pods[name] = append(pods[name], &list.Items[i])
	}
	return pods, nil
}

// UnreadableChild returns why a child cannot be read, "" if it can. Its kind requires a spec, and a stand-in has none.
func UnreadableChild(child *unstructured.Unstructured) string {
	if child.Object["spec"] != nil {
		return ""
	}
	return child.GetAnnotations()[unreadable.Annotation]
}

// errUnreadable returns the error for a child.
func errUnreadable(child *unstructured.Unstructured, why string) error {
	return fmt.Errorf("%s %s cannot be read: %s", child.GetKind(), child.GetName(), why)
}

// RelatedTo returns the kinds of the objects that an adapter reads besides children and pods.
func RelatedTo(adapter adapters.Adapter) []schema.GroupVersionKind {
	if relating, ok := adapter.(adapters.Relating); ok {
		return relating.Related()
	}
	return nil
}

// ObjectOf returns an empty object of a kind. Children are unstructured objects, so that fields that are newer than our
// types are not lost.
func ObjectOf(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// ReadParent reads a parent past the cache; the error is subset.ErrStale if it is gone. It lists, so that no permission
// to get is needed.
func ReadParent(ctx context.Context, live client.Reader, parent *v1alpha1.UnitedDeployment) (*v1alpha1.UnitedDeployment, error) {
	list := &v1alpha1.UnitedDeploymentList{}
	if err := live.List(ctx, list, client.InNamespace(parent.Namespace), client.MatchingFields{"metadata.name": parent.Name}); err != nil {
		return nil, fmt.Errorf("read %s: %w", parent.Name, err)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("read %s: %w", parent.Name, subset.ErrStale)
	}
	return &list.Items[0], nil
}
