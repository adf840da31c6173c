// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package writer carries out what package subset decides for one child workload,
// fenced so that it can neither create a thing twice nor touch a thing that is not
// ours. It remembers, in memory alone, what failed, what was undone, which children
// somebody opens again and again, and which are as they were written.
package writer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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

// absent as the resourceVersion of a server-side apply means: create, never
// update. An existing object answers 409. ("0" does not: it is ignored.)
const absent = "1"

// ErrStale says that the cluster has moved on since it was read: not a failure,
// but a reason to look again.
var ErrStale = errors.New("the cluster changed since it was read")

// ErrNameConflict says that an object of the child's name exists that the
// parent does not control. It was not touched.
var ErrNameConflict = errors.New("not controlled by this UnitedDeployment")

// ErrPredecessor says that the child's name is still taken by a child that goes by
// itself: it is being deleted, or its parent was one of the same name.
var ErrPredecessor = errors.New("left over from before and being deleted")

// Writer writes children of one kind.
type Writer struct {
	Adapter adapters.Adapter
	// Client writes. Its cache holds only what carries United's labels.
	Client client.Client
	// Live reads past the cache: strangers and orphans are not in it.
	Live client.Reader
	// Comparisons remembers the children that are as they were written. Nil remembers nothing.
	Comparisons *Comparisons
	// Repeats spaces writes that are undone, by the time that Now tells. Without Repeats
	// none is spaced.
	Repeats *Repeats
	// Contests remembers the children whose partition somebody lowers again and again. Nil
	// remembers nothing.
	Contests *Contests
	Now      func() time.Time

	// Corrected says what the last write of Execute has put right that somebody had changed in
	// the child; "" if nothing.
	Corrected string
}

// Execute carries out a step on a child that was read as current, nil when there
// is none; but for ActionRemind, which Remind does. It gives the child as it is now, and whether it was written. Errors
// are ErrStale, ErrNameConflict, an *OverriddenError, a *field.Error about what the user
// wrote, or what the API server answered; the child is then as it was.
func (w *Writer) Execute(ctx context.Context, s subset.Step, current *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	w.Corrected = ""
	switch s.Action {
	case subset.ActionWait, subset.ActionHalt:
		return current, false, nil
	case subset.ActionApply, subset.ActionRelearn:
		return w.update(ctx, &s.Child, current)
	case subset.ActionSeed:
		if current != nil {
			return w.update(ctx, &s.Child, current)
		}
	case subset.ActionCreate:
	}
	return w.create(ctx, s)
}

func (w *Writer) create(ctx context.Context, s subset.Step) (*unstructured.Unstructured, bool, error) {
	if err := w.CheckNameFree(ctx, &s.Child); err != nil {
		return nil, false, err
	}
	if err := w.checkRevisionsCollected(ctx, &s.Child); err != nil {
		return nil, false, err
	}
	if s.Action == subset.ActionSeed {
		if err := w.checkRoomForOrphans(ctx, &s.Child); err != nil {
			return nil, false, err
		}
	}
	u, err := w.build(&s.Child)
	if err != nil {
		return nil, false, err
	}
	if err := w.delayWriteIfRepeated(parentOf(&s.Child), s.Child.Name, contentOf(&s.Child, u), "", fieldLocation{}, nil); err != nil {
		return nil, false, err
	}
	u.SetResourceVersion(absent)
	if _, err := w.apply(ctx, &s.Child, u); err != nil {
		return nil, false, err
	}
	return u, true, nil
}

// CheckNameFree looks, past the cache, whether the child's name is free. The error says who has
// it; a child of ours that has lost its labels gets them back, and it is an ErrStale.
func (w *Writer) CheckNameFree(ctx context.Context, c *adapters.Child) error {
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
		return fmt.Errorf("%s %s is %w", gvk.Kind, c.Name, ErrPredecessor)
	case owner == nil || owner.UID != c.Owner.UID:
		return fmt.Errorf("%s %s exists and is %w; rename the subset, or delete that %s", gvk.Kind, c.Name, ErrNameConflict, gvk.Kind)
	}
	return w.relabel(ctx, c, live)
}

// Stripped reads a child that has lost one of its labels, and so may not be in the cache,
// past that; nil when the name is free, or what has it has lost none, or is not ours.
func (w *Writer) Stripped(ctx context.Context, c *adapters.Child) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(w.Adapter.GroupVersionKind())
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, live)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOf(live)
	if owner == nil || owner.UID != c.Owner.UID || live.GetDeletionTimestamp() != nil || Labelled(c, live) {
		return nil, nil //nolint:nilnil // there is no such child
	}
	return live, nil
}

// relabel puts the labels back on a child that lost them, and so fell out of the
// cache. One that has them is only not in the cache yet. Both are looked at again, and
// labels that are taken again each time are put back less and less often.
func (w *Writer) relabel(ctx context.Context, c *adapters.Child, live *metav1.PartialObjectMetadata) error {
	lost := lostLabel(c, live)
	if lost == "" {
		return &WaitError{c.Name + " exists, but is not in the cache yet"}
	}
	content := labelling(live)
	if err := w.delayWriteIfRepeated(parentOf(c), c.Name, content, "", labelAt(lost), live.GetManagedFields()); err != nil {
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
	return &WaitError{c.Name + " lost its labels; restoring them"}
}

// checkRevisionsCollected looks, past the cache, whether the garbage collector is done with the
// revisions of an earlier child of the name. Trap: the new child's controller
// takes one of the same name and content for its own, and settles on it; when it
// is collected the controller forgets what it was to remember. Revisions of a
// child that was orphaned have no controller any more, and are adopted.
func (w *Writer) checkRevisionsCollected(ctx context.Context, c *adapters.Child) error {
	if left, err := w.delegateLeft(ctx, c); left || err != nil {
		return err
	}
	revisions := &metav1.PartialObjectMetadataList{}
	revisions.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
	err := w.Live.List(ctx, revisions, client.InNamespace(c.Namespace),
		client.MatchingLabels{v1alpha1.LabelName: c.Parent, v1alpha1.LabelSubset: c.Subset})
	if err != nil {
		return fmt.Errorf("list revisions that outlived %s: %w", c.Name, err)
	}
	for i := range revisions.Items {
		if metav1.GetControllerOf(&revisions.Items[i]) != nil {
			return &WaitError{fmt.Sprintf("the garbage collector has yet to delete revision %s of the previous %s", revisions.Items[i].Name, c.Name)}
		}
	}
	return nil
}

// Outlived gives the pods of a subset that has no child, past the cache: that may still
// show them as owned by the child that is gone.
func (w *Writer) Outlived(ctx context.Context, namespace, parent, subset string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := w.Live.List(ctx, pods, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelName: parent, v1alpha1.LabelSubset: subset})
	if err != nil {
		return nil, fmt.Errorf("list pods that outlived %s: %w", adapters.ChildName(parent, subset), err)
	}
	return pods.Items, nil
}

// checkRoomForOrphans looks whether a seed still has room for the pods that outlived an earlier
// child (subset.KeepOutlived). It is an ErrStale when more have been orphaned since.
func (w *Writer) checkRoomForOrphans(ctx context.Context, c *adapters.Child) error {
	pods, err := w.Outlived(ctx, c.Namespace, c.Parent, c.Subset)
	if err != nil {
		return err
	}
	adopts, ok := w.Adapter.(adapters.Adopting)
	if !ok {
		return nil
	}
	u, err := adapters.Build(w.Adapter, c)
	if err != nil {
		return err
	}
	if needed := adopts.Orphans(u, pods); needed > c.Replicas || needed > c.Partition {
		return ErrStale
	}
	return nil
}

// update writes the child when it differs from what it shall be, in one write, and
// reports whether that changed it.
func (w *Writer) update(ctx context.Context, c *adapters.Child, current *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	if w.Comparisons.upToDate(c, current) {
		// It need not be rendered to be compared, which would be most of the work of a pass.
		w.writeStands(c)
		return current, false, nil
	}
	u, err := w.build(c)
	if err != nil {
		return current, false, err
	}
	observed, err := w.Adapter.Observe(current, adapters.Dependents{})
	if err != nil {
		return current, false, err
	}
	at, err := w.differs(u, c, current, observed)
	if err != nil {
		return current, false, err
	}
	if at.text == "" {
		return w.correctOverruled(ctx, c, u, current, observed)
	}
	if !raisesProtection(c, observed) || w.barredByAdmission(c, u) {
		if err := w.delayIfRepeated(c, u, at, current, observed); err != nil {
			return current, false, err
		}
	}
	return w.replace(ctx, c, u, at, current)
}

// replace writes a child that differs from u at a place, and reports whether that changed it.
func (w *Writer) replace(ctx context.Context, c *adapters.Child, u *unstructured.Unstructured, at fieldLocation, current *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	u.SetUID(current.GetUID())
	u.SetResourceVersion(current.GetResourceVersion())
	overridden, err := w.apply(ctx, c, u, withoutReadYourWrites(c, current)...)
	if err != nil {
		return current, false, err
	}
	if u.GetResourceVersion() != current.GetResourceVersion() {
		w.Corrected = w.correction(at, current)
		return u, true, nil
	}
	if overridden.text != "" {
		// Admission made of it what it was. No watch tells of that, so nothing else would
		// bring the pass back.
		return u, false, ErrStale
	}
	return u, false, nil
}

// raisesProtection reports whether a write of a child raises its partition over replicas. One that has none is
// created anew, whatever its partition is: what it gets back is no more urgent than any other write.
func raisesProtection(c *adapters.Child, observed *adapters.Observed) bool {
	return c.Partition > observed.Partition && observed.Replicas > 0
}

// correction says which field a write has put right, and who had changed it as far as
// managedFields tell; "" where nobody had: then the field differs since something else is asked
// for now.
func (w *Writer) correction(at fieldLocation, current *unstructured.Unstructured) string {
	by, err := OwnerOf(at.path, current.GetManagedFields(), "")
	if err != nil {
		return "" // it was written all the same
	}
	owned, err := ownedIn(current.GetManagedFields())
	ours := err == nil && owned != nil && len(at.path) > 0 && owned.Has(at.path)
	switch {
	case by != "":
		return fmt.Sprintf("%s of %s, which %q had changed", at.text, current.GetName(), by)
	case ours || len(at.path) == 0:
		return ""
	case owned != nil && at.text == fieldAt(w.Adapter.FieldPaths().Replicas...).text:
		return fmt.Sprintf("%s of %s, which somebody had changed", at.text, current.GetName()) // see overrideAt
	}
	return fmt.Sprintf("%s of %s, which somebody had changed or removed", at.text, current.GetName())
}

// withoutReadYourWrites lets no read wait for a write of a child that is not in the cache. Trap: where
// admission keeps it from getting its labels, the cache never hears of that write, and the
// next pass would wait until it is given up.
func withoutReadYourWrites(c *adapters.Child, current *unstructured.Unstructured) []client.ApplyOption {
	if Labelled(c, current) {
		return nil
	}
	return []client.ApplyOption{client.DisableReadYourWritesConsistency}
}

// differs gives the first place where applying u would change something.
func (w *Writer) differs(u *unstructured.Unstructured, c *adapters.Child, current *unstructured.Unstructured, observed *adapters.Observed) (fieldLocation, error) {
	if at := w.differsFrom(c, fingerprintOf(u), observed); at.text != "" {
		return at, nil
	}
	if label := lostLabel(c, current); label != "" {
		return labelAt(label), nil // what admission has taken is ours by managedFields
	}
	if w.Comparisons.nothingLost(c, current, u) {
		return fieldLocation{}, nil
	}
	if taken, err := TakenAnnotations(current); err != nil || len(taken) > 0 {
		return annotationAt(append(taken, "")[0]), err
	}
	if at := forged(u, current); at.text != "" {
		return at, nil
	}
	// What rides along with other writes alone is not worth one.
	return lost(withoutRecord(u), current.GetManagedFields())
}

// differsFrom is the part of differs that values tell.
func (w *Writer) differsFrom(c *adapters.Child, fingerprint string, observed *adapters.Observed) fieldLocation {
	fields := w.Adapter.FieldPaths()
	switch {
	case observed.Replicas != c.Replicas:
		return fieldAt(fields.Replicas...)
	case observed.Paused != c.Paused:
		return fieldAt(fields.Paused...)
	case observed.NoPartition:
		return fieldAt(fields.Strategy...)
	case observed.Partition != c.Partition && fields.Partition != nil:
		return fieldAt(fields.Partition...)
	case !samePace(observed.Pace, c):
		return fieldAt(fields.Strategy...)
	case subset.RecordedPartition(observed) != c.Partition:
		// A partition that somebody else has set to what it is to be now is not on record.
		return annotationAt(v1alpha1.AnnotationPartition)
	case subset.Seeding(observed) != c.Seeding:
		return annotationAt(v1alpha1.AnnotationSeeding)
	case subset.RevisionOf(observed) != c.Revision:
		// Changed by admission as it was written it is still ours by managedFields.
		return annotationAt(v1alpha1.AnnotationRevision)
	case observed.Meta.Annotations[v1alpha1.AnnotationFingerprint] != fingerprint:
		return annotationAt(v1alpha1.AnnotationFingerprint)
	}
	return fieldLocation{}
}

// build makes the object to apply, with its fingerprint.
func (w *Writer) build(c *adapters.Child) (*unstructured.Unstructured, error) {
	// Replicas, partition and the end of a seed are compared by themselves, and the
	// rest of what is left out only rides along with other writes.
	bare := *c
	bare.Replicas, bare.Partition = 0, 0
	u, err := adapters.Build(w.Adapter, &bare)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(withoutRecord(u).Object)
	if err != nil {
		return nil, fmt.Errorf("fingerprint of %s: %w", c.Name, err)
	}
	if err := adapters.Renew(w.Adapter, u, c); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	annotations := u.GetAnnotations()
	annotations[v1alpha1.AnnotationFingerprint] = hex.EncodeToString(sum[:8])
	u.SetAnnotations(annotations)
	return u, nil
}

// apply writes u, which is c, and makes of it what the API server answers. It gives the
// first place in which that is not as it was written.
func (w *Writer) apply(ctx context.Context, c *adapters.Child, u *unstructured.Unstructured, opts ...client.ApplyOption) (fieldLocation, error) {
	content, fingerprint, applied := contentOf(c, u), fingerprintOf(u), u.DeepCopy()
	err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		append(opts, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)...)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return fieldLocation{}, ErrStale
	case err != nil:
		return fieldLocation{}, err
	}
	w.Comparisons.recordWrite(c, u, adapters.Altered(w.Adapter, applied, u))
	return w.recordWrite(c, content, fingerprint, applied, u), nil
}

// Remove deletes the child of a subset that is gone, as it was read: one that has
// changed since may be wanted again.
func (w *Writer) Remove(ctx context.Context, current *unstructured.Unstructured) error {
	err := w.Client.Delete(ctx, current,
		client.Preconditions{UID: ptr.To(current.GetUID()), ResourceVersion: ptr.To(current.GetResourceVersion())},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) {
		return ErrStale
	}
	w.Comparisons.forgetChild(current)
	w.Repeats.ForgetObject(parentOfObject(current), w.object(current.GetName()))
	return client.IgnoreNotFound(err)
}

// Shrink takes replicas from a child whose subset is going, and gives it as it is
// then. Nothing else of it can be written: the spec does not know it any more. An
// error is ErrStale or what the API server answered.
func (w *Writer) Shrink(ctx context.Context, current *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	if err := w.delayShrinkIfRepeated(current, replicas); err != nil {
		return nil, err
	}
	after := current.DeepCopy()
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": current.GetUID(), "resourceVersion": current.GetResourceVersion()},
		"spec":     map[string]any{"replicas": replicas},
	})
	if err != nil {
		return nil, fmt.Errorf("shrink %s: %w", current.GetName(), err)
	}
	err = w.Client.Patch(ctx, after, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(v1alpha1.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, ErrStale
	}
	if err != nil {
		return nil, err
	}
	if w.recordShrink(current, after, replicas) && after.GetResourceVersion() == current.GetResourceVersion() {
		return nil, ErrStale // as in update: no watch tells of it
	}
	return after, nil
}

// CheckUnchanged looks, past the cache, whether the spec of a child is as it was read; the error
// is ErrStale when it is not.
func (w *Writer) CheckUnchanged(ctx context.Context, current *unstructured.Unstructured) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(w.Adapter.GroupVersionKind())
	err := w.Live.Get(ctx, client.ObjectKeyFromObject(current), live)
	switch {
	case apierrors.IsNotFound(err):
		return ErrStale
	case err != nil:
		return fmt.Errorf("look up %s: %w", current.GetName(), err)
	case live.UID != current.GetUID() || live.Generation != current.GetGeneration():
		return ErrStale
	}
	return nil
}

// DeleteReplica deletes a released replica; a newer one of the same name is left alone.
func (w *Writer) DeleteReplica(ctx context.Context, namespace string, r adapters.Replica) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.Name}}
	err := w.Client.Delete(ctx, pod, client.Preconditions{UID: ptr.To(r.UID)})
	if apierrors.IsConflict(err) {
		return ErrStale
	}
	return client.IgnoreNotFound(err)
}

// withoutRecord is the child without the annotations that make no write of their own. It
// shares all else with u.
func withoutRecord(u *unstructured.Unstructured) *unstructured.Unstructured {
	object := maps.Clone(u.Object)
	metadata := maps.Clone(object["metadata"].(map[string]any))
	annotations := maps.Clone(metadata["annotations"].(map[string]any))
	for _, key := range append(adapters.RecordKeys(), v1alpha1.AnnotationRecordChecksum) {
		if key != v1alpha1.AnnotationRevision { // another one is worth a write
			delete(annotations, key)
		}
	}
	metadata["annotations"], object["metadata"] = annotations, metadata
	return &unstructured.Unstructured{Object: object}
}
