// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package writer executes what package subset decides for a child workload. Its writes are fenced, so that they can
// neither create an object twice nor change one that is not ours. It remembers, only in memory, what failed, what was
// undone, in which children somebody keeps lowering the partition, and which children are as they were written.
package writer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/memory"
)

// absent as the resourceVersion of a server-side apply means: create, never update. If the object exists, the response
// is a 409. ("0" is ignored instead.)
const absent = "1"

// Writer writes children of one kind.
type Writer struct {
	Adapter adapters.Adapter
	// Client writes. Its cache holds only objects with United's labels.
	Client client.Client
	// Live reads past the cache, which does not have foreign objects and orphans.
	Live client.Reader
	// Memory is what is remembered of the parent: which children are as they were written, which writes are undone, based on the
	// time that Now returns, and in which children somebody lowers the partition again and again. Without it, no write is delayed.
	Memory memory.Entry
	Now    func() time.Time

	// Corrected describes the change by somebody else that the last write of Execute reverted in the child; "" if there
	// was none.
	Corrected string
}

// Execute executes a step for a child that was read as current, which is nil if it does not exist. It handles all
// actions except ActionRemind, which Remind handles. It returns the child as it is now, and whether it was written.
// Errors are ErrStale, ErrNameConflict, an *OverriddenError, a *field.Error about the user's spec, or the API server's
// error; the child is then unchanged.
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
	if err := w.Relabel(ctx, &s.Child); err != nil {
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
	if err := w.delayWriteIfRepeated(s.Child.Name, contentOf(&s.Child, u), "", ownership.Location{}, nil); err != nil {
		return nil, false, err
	}
	u.SetResourceVersion(absent)
	if _, err := w.apply(ctx, &s.Child, u); err != nil {
		return nil, false, err
	}
	return u, true, nil
}

// checkRevisionsCollected checks, past the cache, whether the garbage collector has deleted the revisions of an earlier
// child of that name. Trap: the new child's controller adopts a revision of the same name and content, and settles on
// it; when that is collected, the controller forgets what it should remember. The revisions of a child that was
// orphaned have no controller anymore, and are adopted.
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
			return &subset.WaitError{Reason: fmt.Sprintf("the garbage collector has yet to delete revision %s of the previous %s", revisions.Items[i].Name, c.Name)}
		}
	}
	return nil
}

// Outlived returns the pods of a subset that has no child. It reads past the cache, which may still show them with the
// deleted child as their owner.
func (w *Writer) Outlived(ctx context.Context, namespace, parent, subset string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := w.Live.List(ctx, pods, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelName: parent, v1alpha1.LabelSubset: subset})
	if err != nil {
		return nil, fmt.Errorf("list pods that outlived %s: %w", adapters.ChildName(parent, subset), err)
	}
	return pods.Items, nil
}

// checkRoomForOrphans checks whether a seed still has room for the pods that outlived an earlier child
// (subset.KeepOutlived). It returns an ErrStale if more have been orphaned since.
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
		return subset.ErrStale
	}
	return nil
}

// update writes the child, in one write, if it differs from its desired state, and reports whether that changed it.
func (w *Writer) update(ctx context.Context, c *adapters.Child, current *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	if w.comparisons().upToDate(c, current) {
		// The child need not be rendered for a comparison, which would be most of the work of a pass.
		w.writeStands(c)
		return current, false, nil
	}
	u, err := w.build(c)
	if err != nil {
		return current, false, err
	}
	if guarding, ok := w.Adapter.(adapters.Guarding); ok {
		if err := guarding.CheckChange(u, current); err != nil {
			return current, false, err
		}
	}
	observed, err := w.Adapter.Observe(current, adapters.Dependents{})
	if err != nil {
		return current, false, err
	}
	at, err := w.differs(u, c, current, observed)
	if err != nil {
		return current, false, err
	}
	if at.Text == "" {
		return w.correctOverruled(ctx, c, u, current, observed)
	}
	if !raisesProtection(c, observed) || w.barredByAdmission(c, u) {
		if err := w.delayIfRepeated(c, u, at, current, observed); err != nil {
			return current, false, err
		}
	}
	return w.replace(ctx, c, u, at, current)
}

// replace writes a child that differs from u at a location, and reports whether that changed it.
func (w *Writer) replace(ctx context.Context, c *adapters.Child, u *unstructured.Unstructured, at ownership.Location, current *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
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
	if overridden.Text != "" {
		// Admission restored the previous state. No watch reports that, so nothing else would trigger another pass.
		return u, false, subset.ErrStale
	}
	return u, false, nil
}

// raisesProtection reports whether a write of a child raises its partition above replicas. A child that has no replicas
// starts anew, whatever its partition is, so its write is no more urgent than any other.
func raisesProtection(c *adapters.Child, observed *adapters.Observed) bool {
	return c.Partition > observed.Partition && observed.Replicas > 0
}

// correction describes which field a write has corrected, and who had changed it according to managedFields. It is ""
// if nobody had: then the field differs because the desired state has changed.
func (w *Writer) correction(at ownership.Location, current *unstructured.Unstructured) string {
	by, err := ownership.OwnerOf(at.Path, current.GetManagedFields(), "")
	if err != nil {
		return "" // the write succeeded nevertheless
	}
	owned, err := ownership.OwnedIn(current.GetManagedFields())
	ours := err == nil && owned != nil && len(at.Path) > 0 && owned.Has(at.Path)
	switch {
	case by != "":
		return fmt.Sprintf("%s of %s, which %q had changed", at.Text, current.GetName(), by)
	case ours || len(at.Path) == 0:
		return ""
	case owned != nil && at.Text == ownership.FieldAt(w.Adapter.FieldPaths().Replicas...).Text:
		return fmt.Sprintf("%s of %s, which somebody had changed", at.Text, current.GetName()) // see overrideAt
	}
	return fmt.Sprintf("%s of %s, which somebody had changed or removed", at.Text, current.GetName())
}

// withoutReadYourWrites returns options with which no read waits for the write of a child that is not in the cache.
// Trap: if admission prevents it from getting its labels, the cache never receives that write, and the next pass would
// wait until the timeout.
func withoutReadYourWrites(c *adapters.Child, current *unstructured.Unstructured) []client.ApplyOption {
	if ownership.Labelled(c, current) {
		return nil
	}
	return []client.ApplyOption{client.DisableReadYourWritesConsistency}
}

// differs returns the first location at which applying u would change something.
func (w *Writer) differs(u *unstructured.Unstructured, c *adapters.Child, current *unstructured.Unstructured, observed *adapters.Observed) (ownership.Location, error) {
	if at := w.differsFrom(c, fingerprintOf(u), observed); at.Text != "" {
		return at, nil
	}
	if label := ownership.LostLabel(c, current); label != "" {
		return ownership.LabelAt(label), nil // according to managedFields, what admission has removed is still ours
	}
	if w.comparisons().nothingLost(c, current, u) {
		return ownership.Location{}, nil
	}
	if taken, err := ownership.TakenAnnotations(current); err != nil || len(taken) > 0 {
		return ownership.AnnotationAt(append(taken, "")[0]), err
	}
	if at := ownership.Forged(u, current); at.Text != "" {
		return at, nil
	}
	// What is only written along with other changes does not justify a write.
	return ownership.Lost(withoutRecord(u), current.GetManagedFields())
}

// differsFrom is the part of differs that compares values.
func (w *Writer) differsFrom(c *adapters.Child, fingerprint string, observed *adapters.Observed) ownership.Location {
	if path := subset.Difference(c, observed, w.Adapter.FieldPaths()); path != nil {
		return ownership.FieldAt(path...)
	}
	if observed.Meta.Annotations[v1alpha1.AnnotationFingerprint] != fingerprint {
		return ownership.AnnotationAt(v1alpha1.AnnotationFingerprint)
	}
	return ownership.Location{}
}

// build returns the object to apply, with its fingerprint.
func (w *Writer) build(c *adapters.Child) (*unstructured.Unstructured, error) {
	// Replicas, partition and the end of a seed are compared separately, and everything else that is omitted is only
	// written along with other changes.
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

// apply writes u, which is the object for c, and updates u from the API server's response. It returns the first
// location at which that differs from what was written.
func (w *Writer) apply(ctx context.Context, c *adapters.Child, u *unstructured.Unstructured, opts ...client.ApplyOption) (ownership.Location, error) {
	content, fingerprint, applied := contentOf(c, u), fingerprintOf(u), u.DeepCopy()
	err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		append(opts, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)...)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return ownership.Location{}, subset.ErrStale
	case err != nil:
		return ownership.Location{}, err
	}
	w.comparisons().recordWrite(u, adapters.Altered(w.Adapter, applied, u))
	return w.recordWrite(c, content, fingerprint, applied, u), nil
}

// withoutRecord returns the child without the annotations that do not justify a write. It shares everything else with
// u.
func withoutRecord(u *unstructured.Unstructured) *unstructured.Unstructured {
	object := maps.Clone(u.Object)
	metadata := maps.Clone(object["metadata"].(map[string]any))
	annotations := maps.Clone(metadata["annotations"].(map[string]any))
	for _, key := range append(adapters.RecordKeys(), v1alpha1.AnnotationRecordChecksum, v1alpha1.AnnotationPlacement) {
		if key != v1alpha1.AnnotationRevision { // a change of it justifies a write
			delete(annotations, key)
		}
	}
	metadata["annotations"], object["metadata"] = annotations, metadata
	return &unstructured.Unstructured{Object: object}
}

// Intact reports whether nobody has changed a child since it was written.
func (w *Writer) Intact(child *unstructured.Unstructured) bool {
	return w.comparisons().Intact(child)
}
