// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// Remind restores in the status of a child, where a StatefulSet keeps it, which of its own revisions its protected
// replicas run. It does not change the spec, and no pod is replaced.
//
// It checks the live objects first: a child that seems to have forgotten may have finished, if the replicas in the
// cache are older than the child, and a revision that no longer exists would be forgotten at once. record has the
// annotations of the child on which the decision is based: somebody may have removed them from the child itself.
func (w *Writer) Remind(ctx context.Context, hash string, record map[string]string, current *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	related, memory, err := w.memoryOf(ctx, current)
	if err != nil {
		return current, false, err
	}
	if err := w.checkStillForgotten(ctx, record, current, related); err != nil {
		return current, false, err
	}
	if err := w.checkRevisionKept(ctx, hash, current, memory); err != nil {
		return current, false, err
	}
	raw, err := json.Marshal(reminder(hash, memory))
	if err != nil {
		return current, false, fmt.Errorf("remind %s: %w", current.GetName(), err)
	}
	after := memory.DeepCopy()
	err = w.Client.Status().Patch(ctx, after, client.RawPatch(types.JSONPatchType, raw), client.FieldOwner(v1alpha1.FieldManager))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err): // invalid: a test failed
		return current, false, subset.ErrStale
	case err != nil:
		return current, false, fmt.Errorf("remind %s: %w", current.GetName(), err)
	}
	if memory != current {
		after = current // the status of a child that delegates its replicas is not changed
	}
	return after, true, nil
}

// reminder returns a JSON patch that tests the assumptions of the decision: that it is this child, with this spec, and
// that it still remembers the same revisions.
//
// The resourceVersion cannot fence this write: the child's controller writes the status within milliseconds whenever
// one of its replicas is created or deleted.
func reminder(hash string, current *unstructured.Unstructured) []map[string]any {
	was, _, _ := unstructured.NestedString(current.Object, "status", "currentRevision")
	update, _, _ := unstructured.NestedString(current.Object, "status", "updateRevision")
	return []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": current.GetUID()},
		{"op": "test", "path": "/metadata/generation", "value": current.GetGeneration()},
		{"op": "test", "path": "/status/currentRevision", "value": was},
		{"op": "test", "path": "/status/updateRevision", "value": update},
		{"op": "replace", "path": "/status/currentRevision", "value": hash},
	}
}

func (w *Writer) checkStillForgotten(ctx context.Context, record map[string]string, current *unstructured.Unstructured, related []*unstructured.Unstructured) error {
	list := &corev1.PodList{}
	if err := w.Live.List(ctx, list, client.InNamespace(current.GetNamespace()), ofChild(current)); err != nil {
		return fmt.Errorf("list replicas of %s: %w", current.GetName(), err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	live, err := w.Adapter.Observe(current, adapters.Dependents{Pods: pods, Related: related})
	if err != nil {
		return err
	}
	live.Meta.Annotations = record
	if !subset.Forgot(live) && !subset.RemembersOther(live) {
		return subset.ErrStale
	}
	return nil
}

// checkRevisionKept checks whether a child's own revision exists, and will not be garbage collected with an earlier
// child.
//
// A revision without a controller, because it was orphaned, suffices: the child's controller includes it, and adopts it
// in its next sync. Trap: only the reminder may cause that sync. memory is the owner of the revision: the child, or the
// workload to which that delegates its replicas.
func (w *Writer) checkRevisionKept(ctx context.Context, hash string, current, memory *unstructured.Unstructured) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
	if err := w.Live.List(ctx, list, client.InNamespace(current.GetNamespace()), ofChild(current)); err != nil {
		return fmt.Errorf("list revisions of %s: %w", current.GetName(), err)
	}
	i := slices.IndexFunc(list.Items, func(r metav1.PartialObjectMetadata) bool { return r.Name == hash })
	if i < 0 {
		if err := w.relabelRevision(ctx, hash, memory); err != nil {
			return err
		}
		return fmt.Errorf("revision %s, which the protected replicas of %s run, %w: they would come back on the "+
			"update revision; to move to that, lower the partition to 0 with updateStrategy.type Manual", hash, current.GetName(), subset.ErrRevisionGone)
	}
	if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID != memory.GetUID() {
		return &subset.WaitError{Reason: fmt.Sprintf("the garbage collector has yet to delete revision %s of the previous %s", hash, current.GetName())}
	}
	return nil
}

// relabelling is the content of a write that restores the labels of a revision.
const relabelling = "labels"

// relabelRevision restores the labels of a child's own revision. The child's controller finds its revisions by their
// labels, and cannot create the same one again while the name is taken. The error is nil if there is no revision of
// that name.
//
// If the revision has lost its owner too, it is recognized by its name. It gets only the labels: with them the child's
// controller finds it, and adopts it.
func (w *Writer) relabelRevision(ctx context.Context, hash string, current *unstructured.Unstructured) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: current.GetNamespace(), Name: hash}, live)
	if err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			return fmt.Errorf("look up revision %s: %w", hash, err)
		}
		return nil
	}
	if owner := metav1.GetControllerOf(live); owner != nil && owner.UID != current.GetUID() {
		return fmt.Errorf("%w: ControllerRevision %s, which the protected replicas of %s run, is controlled by %s %s; remove that owner reference",
			subset.ErrRevisionTaken, hash, current.GetName(), owner.Kind, owner.Name)
	} else if owner == nil && !namesRevisionOf(current.GetName(), hash) {
		return fmt.Errorf("%w: ControllerRevision %s, which is recorded as what the protected replicas of %[3]s run, is not controlled by %[3]s", subset.ErrRevisionTaken, hash, current.GetName())
	}
	template, err := adapters.Unpacked(current.Object, "spec", "template")
	if err != nil {
		return fmt.Errorf("labels of revision %s: %w", hash, err)
	}
	pods, _ := template.(map[string]any)
	labels, _, err := unstructured.NestedStringMap(pods, "metadata", "labels")
	if err != nil {
		return fmt.Errorf("labels of revision %s: %w", hash, err)
	}
	return w.patchLabels(ctx, live, labels, current)
}

// namesRevisionOf reports whether a child of that name would give this name to a revision of its own: its name and a
// hash.
func namesRevisionOf(child, revision string) bool {
	hash, ok := strings.CutPrefix(revision, child+"-")
	return ok && hash != "" && !strings.Contains(hash, "-")
}

// patchLabels restores the labels of a child's own revision, less and less often if somebody removes them each time.
func (w *Writer) patchLabels(ctx context.Context, live *metav1.PartialObjectMetadata, labels map[string]string, current *unstructured.Unstructured) error {
	object, lost := "ControllerRevision "+live.Name, ownership.LabelAt(v1alpha1.LabelSubset)
	putOff := w.repeats().Delay(object, relabelling, "", func(string) undone.Override { return undone.Override{Field: lost.Text} }, w.now())
	if putOff != nil {
		return putOff
	}
	patch := client.MergeFromWithOptions(live.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if live.Labels == nil {
		live.Labels = map[string]string{}
	}
	maps.Copy(live.Labels, labels)
	err := w.Client.Patch(ctx, live, patch, client.FieldOwner(v1alpha1.FieldManager), client.DisableReadYourWritesConsistency) // the revision is in no cache
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("restore the labels of revision %s: %w", live.Name, err)
	}
	override := undone.Override{}
	if err == nil && live.Labels[v1alpha1.LabelSubset] != labels[v1alpha1.LabelSubset] {
		override = undone.Override{Field: lost.Text, Admission: true}
	}
	w.repeats().RecordWrite(object, relabelling, relabelling, override, w.now())
	return &subset.WaitError{Reason: fmt.Sprintf("revision %s of %s lost its labels; restoring them", live.Name, current.GetName())}
}

func ofChild(current *unstructured.Unstructured) client.MatchingLabels {
	of := current.GetLabels()
	return client.MatchingLabels{v1alpha1.LabelName: of[v1alpha1.LabelName], v1alpha1.LabelSubset: of[v1alpha1.LabelSubset]}
}
