// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
)

// memoryOf reads, past the cache, the object that manages the replicas of a child and remembers what they ran. That is
// another workload if the child delegates its replicas, otherwise the child itself. related are the objects that
// Observe needs for such a child.
func (w *Writer) memoryOf(ctx context.Context, current *unstructured.Unstructured) (related []*unstructured.Unstructured, memory *unstructured.Unstructured, err error) {
	delegating, ok := w.Adapter.(adapters.Delegating)
	if !ok {
		return nil, current, nil
	}
	for _, gvk := range delegating.Related() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := w.Live.List(ctx, list, client.InNamespace(current.GetNamespace()), client.MatchingLabels{delegating.RelatedLabel(): current.GetName()}); err != nil {
			return nil, nil, fmt.Errorf("list %ss of %s: %w", gvk.Kind, current.GetName(), err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if gvk == delegating.Delegate() && object.GetName() == current.GetName() {
				memory = object.DeepCopy()
			}
			delegating.Reduce(object)
			related = append(related, object)
		}
	}
	if memory == nil || !controlledBy(memory, current.GetUID()) {
		return nil, nil, subset.ErrStale
	}
	return related, memory, nil
}

func controlledBy(object metav1.Object, uid types.UID) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == uid
}

// delegateLeft checks, past the cache, for a workload that would manage the replicas of a child that does not exist
// yet. If an earlier child has left it behind, the new one adopts it with its revisions and its pods (left). The error
// says what must go first: a workload that will be garbage collected with the earlier child. A workload that no child
// has created is an error too, and is left alone; the child's own controller would not do that.
func (w *Writer) delegateLeft(ctx context.Context, c *adapters.Child) (left bool, err error) {
	delegating, ok := w.Adapter.(adapters.Delegating)
	if !ok {
		return false, nil
	}
	kind := delegating.Delegate().Kind
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(delegating.Delegate())
	err = w.Live.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, live)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up %s %s: %w", kind, c.Name, err)
	case live.Labels[delegating.RelatedLabel()] != c.Name:
		return false, fmt.Errorf("%s %s exists and is %w, and the %s would take it over; United leaves it alone: choose another name for the subset",
			kind, c.Name, subset.ErrNameConflict, w.Adapter.GroupVersionKind().Kind)
	case live.DeletionTimestamp != nil || metav1.GetControllerOf(live) != nil:
		return false, &subset.WaitError{Reason: fmt.Sprintf("the garbage collector has yet to delete %s %s of the previous %s", kind, c.Name, w.Adapter.GroupVersionKind().Kind)}
	}
	return true, nil
}
