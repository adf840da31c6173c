// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"encoding/json"
	"errors"
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
)

// ErrRevisionGone says that a child cannot be reminded of what its protected replicas
// run, because its own revision is not kept any more.
var ErrRevisionGone = errors.New("no longer exists")

// ErrRevisionTaken says that a child cannot be reminded of what its protected replicas run,
// because another has that revision now.
var ErrRevisionTaken = errors.New("the revision no longer belongs to the child")

// ErrForgets says that a child was reminded, and has to be watched for a while: it
// forgets again as long as its controller does not see its revisions.
var ErrForgets = errors.New("keeps forgetting what its protected replicas run")

// Remind tells a child again which of its own revisions its protected replicas run, in
// its status, where a StatefulSet keeps it. Its spec stays, and no pod moves.
//
// It looks past the cache before: what seems forgotten may be finished where the
// replicas are known of later than the child, and a revision that is gone would be
// forgotten at once. record are the annotations of the child as it is decided from: somebody
// may have taken them from the child itself.
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
		return current, false, ErrStale
	case err != nil:
		return current, false, fmt.Errorf("remind %s: %w", current.GetName(), err)
	}
	if memory != current {
		after = current // that of a child which leaves its replicas to another
	}
	return after, true, nil
}

// reminder is a JSON patch that tests what the decision rests on: that it is this child,
// of this spec, which remembers what it did.
//
// The resourceVersion is no fence for it: the child's controller writes the status within
// milliseconds whenever one of its replicas comes or goes.
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
	if !subset.Forgot(live) {
		return ErrStale
	}
	return nil
}

// checkRevisionKept looks whether a revision of the child's own is there, and is not to be collected
// with an earlier child.
//
// One that nobody controls, because that was orphaned, will do: its controller counts it
// in, and adopts it when it next looks. Trap: nothing but the reminder may make it look.
// memory is what has the revision: the child, or what that leaves its replicas to.
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
			"update revision; to move to that, lower the partition to 0 with updateStrategy.type Manual", hash, current.GetName(), ErrRevisionGone)
	}
	if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID != memory.GetUID() {
		return &WaitError{fmt.Sprintf("the garbage collector has yet to delete revision %s of the previous %s", hash, current.GetName())}
	}
	return nil
}

// relabelling is the content of the write that puts the labels back on a revision.
const relabelling = "labels"

// relabelRevision puts the labels back on a revision of the child's own that has lost them:
// its controller looks for its revisions by them, and while the name is taken it can make
// none like it. The error is nil where there is no revision of that name.
//
// One that has lost its owner as well is told by its name. It gets the labels only: with
// them its controller finds it, and makes itself its owner.
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
			ErrRevisionTaken, hash, current.GetName(), owner.Kind, owner.Name)
	} else if owner == nil && !namesRevisionOf(current.GetName(), hash) {
		return fmt.Errorf("%w: ControllerRevision %s, which is recorded as what the protected replicas of %[3]s run, is not controlled by %[3]s", ErrRevisionTaken, hash, current.GetName())
	}
	labels, _, err := unstructured.NestedStringMap(current.Object, "spec", "template", "metadata", "labels")
	if err != nil {
		return fmt.Errorf("labels of revision %s: %w", hash, err)
	}
	return w.patchLabels(ctx, live, labels, current)
}

// namesRevisionOf reports whether a child of that name would call a revision of its own so: by its
// name, and a hash.
func namesRevisionOf(child, revision string) bool {
	hash, ok := strings.CutPrefix(revision, child+"-")
	return ok && hash != "" && !strings.Contains(hash, "-")
}

// patchLabels puts labels on a revision of the child's own, and less and less often where they are taken each time.
func (w *Writer) patchLabels(ctx context.Context, live *metav1.PartialObjectMetadata, labels map[string]string, current *unstructured.Unstructured) error {
	parent, object, lost := parentOfObject(current), "ControllerRevision "+live.Name, labelAt(v1alpha1.LabelSubset)
	putOff := w.Repeats.Delay(parent, object, relabelling, "", func(string) Override { return Override{Field: lost.text} }, w.now())
	if putOff != nil {
		return putOff
	}
	patch := client.MergeFromWithOptions(live.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if live.Labels == nil {
		live.Labels = map[string]string{}
	}
	maps.Copy(live.Labels, labels)
	err := w.Client.Patch(ctx, live, patch, client.FieldOwner(v1alpha1.FieldManager), client.DisableReadYourWritesConsistency) // it is in no cache
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("restore the labels of revision %s: %w", live.Name, err)
	}
	override := Override{}
	if err == nil && live.Labels[v1alpha1.LabelSubset] != labels[v1alpha1.LabelSubset] {
		override = Override{Field: lost.text, Admission: true}
	}
	w.Repeats.RecordWrite(parent, object, relabelling, relabelling, override, w.now())
	return &WaitError{fmt.Sprintf("revision %s of %s lost its labels; restoring them", live.Name, current.GetName())}
}

func ofChild(current *unstructured.Unstructured) client.MatchingLabels {
	of := current.GetLabels()
	return client.MatchingLabels{v1alpha1.LabelName: of[v1alpha1.LabelName], v1alpha1.LabelSubset: of[v1alpha1.LabelSubset]}
}
