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
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
)

// Relabel restores the labels of a child of ours that has lost them, and therefore disappeared from the cache; it looks
// for it past the cache. The error says which object has the child's name: an ErrStale if it is ours. It is nil if the
// name is free.
func (w *Writer) Relabel(ctx context.Context, c *adapters.Child) error {
	gvk := w.Adapter.GroupVersionKind()
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(gvk)
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, live)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look up %s %s: %w", gvk.Kind, c.Name, err)
	}
	owner := metav1.GetControllerOf(live)
	switch {
	case live.DeletionTimestamp != nil,
		owner != nil && owner.UID != c.Owner.UID && owner.Kind == c.Owner.Kind && owner.Name == c.Owner.Name:
		return fmt.Errorf("%s %s is %w", gvk.Kind, c.Name, subset.ErrPredecessor)
	case owner == nil || owner.UID != c.Owner.UID:
		return fmt.Errorf("%s %s exists and is %w; United leaves it alone: choose another name for the subset", gvk.Kind, c.Name, subset.ErrNameConflict)
	}
	return w.restoreLabels(ctx, c, live)
}

// Stripped reads, past the cache, a child that has lost one of its labels, and so may not be in the cache. It returns
// nil if the name is free, or the object with that name has its labels, or is not ours.
func (w *Writer) Stripped(ctx context.Context, c *adapters.Child) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(w.Adapter.GroupVersionKind())
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, live)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOf(live)
	if owner == nil || owner.UID != c.Owner.UID || live.GetDeletionTimestamp() != nil || ownership.Labelled(c, live) {
		return nil, nil //nolint:nilnil // there is no such child
	}
	return live, nil
}

// restoreLabels restores the labels of a child. If the child has them, it is only not in the cache yet. Both cases are
// checked again later, and labels that are removed each time are restored less and less often.
func (w *Writer) restoreLabels(ctx context.Context, c *adapters.Child, live *metav1.PartialObjectMetadata) error {
	lost := ownership.LostLabel(c, live)
	if lost == "" {
		return &subset.WaitError{Reason: c.Name + " exists, but is not in the cache yet"}
	}
	content := labelling(live)
	if err := w.delayWriteIfRepeated(c.Name, content, "", ownership.LabelAt(lost), live.GetManagedFields()); err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(live.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if live.Labels == nil {
		live.Labels = map[string]string{}
	}
	live.Labels[v1alpha1.LabelName], live.Labels[v1alpha1.LabelSubset] = c.Parent, c.Subset
	switch err := w.Client.Patch(ctx, live, patch, client.FieldOwner(v1alpha1.FieldManager)); {
	case apierrors.IsConflict(err):
	case err != nil:
		return fmt.Errorf("restore the labels of %s: %w", c.Name, err)
	default:
		w.recordRelabel(c, content, live)
	}
	return &subset.WaitError{Reason: c.Name + " lost its labels; restoring them"}
}
