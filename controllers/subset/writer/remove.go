// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
)

// Remove deletes the child of a removed subset in the version that was read: if it has changed since, it may be wanted
// again.
func (w *Writer) Remove(ctx context.Context, current *unstructured.Unstructured) error {
	err := w.Client.Delete(ctx, current,
		client.Preconditions{UID: ptr.To(current.GetUID()), ResourceVersion: ptr.To(current.GetResourceVersion())},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) {
		return subset.ErrStale
	}
	w.comparisons().Delete(current.GetName())
	w.repeats().Delete(w.object(current.GetName()))
	return client.IgnoreNotFound(err)
}

// Shrink removes replicas from the child of a removed subset, pauses it on request, and returns the updated child. Nothing
// else of it can be written, because the spec does not have the subset anymore. An error is ErrStale or the API server's
// error.
func (w *Writer) Shrink(ctx context.Context, current *unstructured.Unstructured, replicas int32, pause bool) (*unstructured.Unstructured, error) {
	if err := w.delayShrinkIfRepeated(current, replicas); err != nil {
		return nil, err
	}
	after := current.DeepCopy()
	patch := map[string]any{
		"metadata": map[string]any{"uid": current.GetUID(), "resourceVersion": current.GetResourceVersion()},
		"spec":     map[string]any{"replicas": replicas},
	}
	if pause {
		if err := unstructured.SetNestedField(patch, true, w.Adapter.FieldPaths().Paused...); err != nil {
			return nil, fmt.Errorf("shrink %s: %w", current.GetName(), err)
		}
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("shrink %s: %w", current.GetName(), err)
	}
	err = w.Client.Patch(ctx, after, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(v1alpha1.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, subset.ErrStale
	}
	if err != nil {
		return nil, err
	}
	if w.recordShrink(current, after, replicas) && after.GetResourceVersion() == current.GetResourceVersion() {
		return nil, subset.ErrStale // as in update: no watch reports it
	}
	return after, nil
}

// CheckUnchanged checks, past the cache, whether the spec of a child is as it was read; the error is ErrStale if it is
// not.
func (w *Writer) CheckUnchanged(ctx context.Context, current *unstructured.Unstructured) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(w.Adapter.GroupVersionKind())
	err := w.Live.Get(ctx, client.ObjectKeyFromObject(current), live)
	switch {
	case apierrors.IsNotFound(err):
		return subset.ErrStale
	case err != nil:
		return fmt.Errorf("look up %s: %w", current.GetName(), err)
	case live.UID != current.GetUID() || live.Generation != current.GetGeneration():
		return subset.ErrStale
	}
	return nil
}

// DeleteReplica deletes a released replica, but not a newer one of the same name.
func (w *Writer) DeleteReplica(ctx context.Context, namespace string, r adapters.Replica) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.Name}}
	err := w.Client.Delete(ctx, pod, client.Preconditions{UID: ptr.To(r.UID)})
	if apierrors.IsConflict(err) {
		return subset.ErrStale
	}
	return client.IgnoreNotFound(err)
}
