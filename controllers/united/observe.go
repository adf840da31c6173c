// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"github.com/unitedworkloads/united/controllers/subset/writer"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/revision/store"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// observe reads everything that belongs to the parent. Children and pods are found by their labels; children that the
// parent does not control are ignored.
func (r *Reconciler) observe(ctx context.Context, parent *v1alpha1.UnitedDeployment, s *spec.Spec) (*planner.Input, error) {
	in := &planner.Input{World: world.World{Parent: parent, Spec: s, Now: r.Clock.Now(), Children: map[string]*world.Child{}, Unreadable: map[string]*world.Unreadable{},
		Unreached: r.unreached.Get(client.ObjectKeyFromObject(parent), ""),
	}}
	err := r.readOwnWrites(ctx, in)
	if err != nil {
		return nil, err
	}
	if in.Revisions, err = r.store(parent).List(ctx, parent); err != nil {
		return nil, err
	}
	if in.Pods, err = r.podsOf(ctx, parent); err != nil {
		return nil, err
	}
	if in.Related, err = r.relatedOf(ctx, parent, s.Adapter); err != nil {
		return nil, err
	}
	children, err := labelled(ctx, r.Client.List, parent, s.Adapter.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	for _, object := range children {
		name := object.GetLabels()[v1alpha1.LabelSubset]
		if !metav1.IsControlledBy(object, parent) || object.GetName() != adapters.ChildName(parent.Name, name) {
			continue
		}
		r.addChild(in, name, object)
	}
	r.readStripped(ctx, in)
	r.observedChildren.keepOnly(in)
	r.findContested(ctx, in)
	r.readOutlived(ctx, in)
	r.readNameHolders(ctx, in)
	if err := r.readUnlisted(ctx, in); err != nil {
		return nil, err
	}
	in.Spec = planner.Relocating(in)
	return in.WithUpdateRevision()
}

// addChild reads the child of a subset. If it cannot be read, only its subset is affected.
func (r *Reconciler) addChild(in *planner.Input, name string, object *unstructured.Unstructured) {
	child, err := r.readChild(in, name, object)
	if err != nil {
		in.Unreadable[name] = &world.Unreadable{Meta: metaOf(object), Why: err.Error()}
		return
	}
	in.Children[name] = child
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
func (r *Reconciler) readOwnWrites(ctx context.Context, in *planner.Input) error {
	status, child := &in.Parent.Status, objectOf(in.Spec.Adapter.GroupVersionKind())
	var children []string
	for _, s := range in.Spec.Subsets {
		children = append(children, adapters.ChildName(in.Parent.Name, s.Name))
	}
	revisions := []string{status.CurrentRevision, status.UpdateRevision}
	for _, s := range status.Subsets {
		children = append(children, adapters.ChildName(in.Parent.Name, s.Name))
		revisions = append(revisions, s.CurrentRevision, s.UpdateRevision)
	}
	if err := r.readAsWritten(ctx, in.Parent.Namespace, children, func() client.Object { return child.DeepCopy() }); err != nil {
		return err
	}
	return r.readAsWritten(ctx, in.Parent.Namespace, revisions, func() client.Object { return &appsv1.ControllerRevision{} })
}

func (r *Reconciler) readAsWritten(ctx context.Context, namespace string, names []string, empty func() client.Object) error {
	names = slices.Sorted(slices.Values(names)) // a copy: Compact clears the remaining elements
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

// readUnlisted reads the revisions again if a child names one that was not listed: it was created in a pass that was
// interrupted before it wrote the status.
func (r *Reconciler) readUnlisted(ctx context.Context, in *planner.Input) error {
	var names []string
	for _, c := range in.Children {
		for _, name := range []string{subset.RevisionOf(c.Observed), c.Observed.Meta.Annotations[v1alpha1.AnnotationProtectedRevision]} {
			if name != "" && revision.ByName(in.Revisions, name) == nil {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	err := r.readAsWritten(ctx, in.Parent.Namespace, names, func() client.Object { return &appsv1.ControllerRevision{} })
	if err == nil {
		in.Revisions, err = r.store(in.Parent).List(ctx, in.Parent)
	}
	if err != nil {
		return err
	}
	return r.readUnlabelled(ctx, in, names)
}

// unlistedRevisions is the key in the failures by subset for revisions that are read past the cache. It is not a valid
// name of a subset.
const unlistedRevisions = "revisions/unlisted"

// readUnlabelled reads, past the cache, the revisions that are still not listed: somebody may have removed the label by
// which they are found. keepRevision restores that label. If a revision does not exist, it is looked up less and less
// often, because no watch reports when it appears without its label.
func (r *Reconciler) readUnlabelled(ctx context.Context, in *planner.Input, names []string) error {
	parent, attempt := client.ObjectKeyFromObject(in.Parent), undone.Attempt{UID: in.Parent.UID}
	if pending := r.failures.Pending(parent, unlistedRevisions, attempt, in.Now); pending != nil {
		wakeAt(in, pending.RetryAt)
		return nil
	}
	var gone error
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		// Anybody can write any value into an annotation.
		if len(validation.NameIsDNSSubdomain(name, false)) > 0 || revision.ByName(in.Revisions, name) != nil {
			continue
		}
		found, err := r.store(in.Parent).Unlabelled(ctx, in.Parent, name)
		switch {
		case err != nil:
			return err
		case found == nil:
			gone = fmt.Errorf("revision %s: %w", name, subset.ErrRevisionGone)
		default:
			in.Revisions = append(in.Revisions, found)
		}
	}
	if gone == nil {
		r.failures.Succeeded(parent, unlistedRevisions)
		return nil
	}
	wakeAt(in, r.failures.Failed(parent, unlistedRevisions, attempt, gone, in.Now).RetryAt)
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
func (r *Reconciler) relatedOf(ctx context.Context, parent *v1alpha1.UnitedDeployment, adapter adapters.Adapter) (map[string][]*unstructured.Unstructured, error) {
	related := map[string][]*unstructured.Unstructured{}
	from := r.Client.List
	if apart := r.Related[adapter.GroupVersionKind()]; apart != nil {
		from = apart.List
	}
	for _, gvk := range relatedTo(adapter) {
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

func (r *Reconciler) readChild(in *planner.Input, name string, object *unstructured.Unstructured) (*world.Child, error) {
	if why := unreadableChild(object); why != "" {
		return nil, errUnreadable(object, why)
	}
	observed, err := r.observedChildren.observe(in, name, object)
	if err != nil {
		return nil, errUnreadable(object, err.Error())
	}
	if err := r.restoreRecord(in, name, object, observed); err != nil {
		return nil, errUnreadable(object, err.Error())
	}
	return &world.Child{Object: object, Observed: observed}, nil
}

// findContested finds the children whose partition somebody lowers again and again.
func (r *Reconciler) findContested(ctx context.Context, in *planner.Input) {
	w, parent := r.writer(in.Spec.Adapter), client.ObjectKeyFromObject(in.Parent)
	in.Contested = map[string]time.Time{}
	for _, s := range in.Spec.Subsets {
		c := in.Children[s.Name]
		if c == nil {
			continue
		}
		until, err := w.Contested(parent, c.Object, c.Observed)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("could not find out who has lowered a partition", "subset", s.Name, "error", err.Error())
		}
		if !until.IsZero() {
			in.Contested[s.Name] = until
		}
	}
}

// restoreRecord restores, in the observed child, what United wrote on it, if somebody has removed that.
func (r *Reconciler) restoreRecord(in *planner.Input, name string, object *unstructured.Unstructured, observed *adapters.Observed) error {
	if r.compared.Intact(client.ObjectKeyFromObject(in.Parent), object) {
		return nil
	}
	taken, err := ownership.Taken(object, in.Spec.Adapter.FieldPaths().Partition)
	if err != nil {
		return err
	}
	var kept *v1alpha1.ChildRecord
	if status := world.SubsetStatus(&in.Parent.Status, name); status != nil {
		kept = status.ChildRecord
	}
	subset.Restore(observed, taken, kept)
	return nil
}

func (r *Reconciler) podsOf(ctx context.Context, parent *v1alpha1.UnitedDeployment) (map[string][]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.Client.List(ctx, list, client.InNamespace(parent.Namespace),
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

// parentFailures is the key of the parent itself in the failures by subset.
const parentFailures = ""

// keepRevision stores the revision of a plan before anything is created from it, and adds missing subsets to the
// revisions in use. It returns the input with the revisions as they are stored, and the plan. That is a different plan
// if the revision cannot be stored, or not under its name; it is nil if there is no revision to continue with.
func (r *Reconciler) keepRevision(ctx context.Context, in *planner.Input, p *planner.Plan) (*planner.Input, *planner.Plan, *planner.Result) {
	out := in
	result := r.attempt(ctx, in, parentFailures, nil, func(*planner.Result) error {
		revisions := r.store(in.Parent)
		revisions.Confirm = func(ctx context.Context) error { return r.confirmSpec(ctx, in.Parent) }
		kept := in.Kept()
		update, err := revisions.Ensure(ctx, in.Parent, world.OwnerOf(in.Parent), kept, in.Spec.Content(), in.Update)
		if err != nil {
			return asStaleRevision(err)
		}
		kept = slices.DeleteFunc(kept, func(r *revision.Revision) bool { return r.Name == update.Name })
		kept = append(kept, update)
		inUse, living := in.InUse(), in.Spec.Overlays()
		inUse[update.Name] = true
		for i, rev := range kept {
			if !inUse[rev.Name] {
				continue
			}
			if rev, err = revisions.Adopt(ctx, in.Parent, world.OwnerOf(in.Parent), rev); err != nil {
				return asStaleRevision(err)
			}
			if kept[i], err = revisions.Amend(ctx, rev, living); err != nil {
				return asStaleRevision(err) // the stored revision stays as it was
			}
			if err := r.spacing(in.Parent).errIfOverridden(revisionObject(rev.Name)); err != nil {
				return err
			}
		}
		out = in.WithRevisions(kept, revision.ByName(kept, update.Name))
		return nil
	})
	switch {
	case result.Failure != nil:
		if out = in.WithoutUpdate(result.Failure); out == nil {
			return in, nil, result
		}
		p = planner.Make(out)
	case out.Update.Name != in.Update.Name:
		p = planner.Make(out)
	}
	return out, p, result
}

// asStaleRevision converts the error that a revision has changed, or is gone, into one that causes another read.
func asStaleRevision(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, store.ErrLabelTaken) {
		return subset.ErrStale
	}
	return err
}

// confirmSpec confirms that the parent still has the template and the subsets that were read; otherwise the error is
// writer.ErrStale. Without this, a controller that does not know yet that another one leads could create a deleted
// revision again, or remove a subset that was added back.
func (r *Reconciler) confirmSpec(ctx context.Context, parent *v1alpha1.UnitedDeployment) error {
	live, err := writer.ReadParent(ctx, r.Live, parent)
	if err != nil {
		return err
	}
	if live.UID != parent.UID ||
		!equality.Semantic.DeepEqual(&live.Spec.Template, &parent.Spec.Template) ||
		!equality.Semantic.DeepEqual(&live.Spec.Topology, &parent.Spec.Topology) {
		return fmt.Errorf("%s has changed: %w", parent.Name, subset.ErrStale)
	}
	return nil
}
