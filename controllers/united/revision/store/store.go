// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store reads and writes the revisions that package revision names.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Store stores revisions as ControllerRevisions.
type Store struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server and not from a cache.
	Live client.Reader
	// Confirm, if set, is called before a revision of a parent is created or changed. If it returns
	// an error, the revision is not written, and the caller gets that error.
	Confirm func(ctx context.Context) error
	// Spacing, if set, delays changes that somebody keeps undoing.
	Spacing Spacing
}

// Reader reads revisions.
type Reader struct {
	// Cached reads from a cache of the ControllerRevisions with the label united.dev/name and without united.dev/subset. It
	// must have an index by that label.
	Cached client.Reader
	// Live reads from the API server and not from a cache.
	Live client.Reader
	// Memory is what is remembered of the parent: what List has parsed.
	Memory memory.Entry
}

// Spacing delays changes of revisions that are undone each time. The caller gets its errors.
type Spacing interface {
	// Delay returns an error while it is too early to change a revision from is to wanted again. is
	// is nil if the revision does not exist.
	Delay(is, wanted *appsv1.ControllerRevision) error
	// Wrote records a change from was, which is nil if the revision did not exist, to wanted, and the
	// object after, which the API server returned.
	Wrote(was, wanted, after *appsv1.ControllerRevision)
}

// List returns the revisions that the parent controls, and those whose owner reference somebody has
// removed, so that Store.Adopt can restore it. It leaves out a revision that cannot be parsed: a caller
// that needs it by name learns that it is lost. List does not wait until the cache has seen the last
// writes, because that would delay all parents; Store.Ensure notices a cache that lags.
func (s *Reader) List(ctx context.Context, parent *v1alpha1.UnitedDeployment) ([]*revision.Revision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := s.Cached.List(ctx, list, client.InNamespace(parent.Namespace),
		client.MatchingFields{v1alpha1.LabelName: parent.Name}, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	last := memory.Slot[parsed]{Entry: s.Memory}
	known, revisions := last.Get(), make([]*revision.Revision, 0, len(list.Items))
	for i := range list.Items {
		cr := &list.Items[i]
		// The ControllerRevisions of a child carry the labels of its pods.
		if _, ofChild := cr.Labels[v1alpha1.LabelSubset]; ofChild || !metav1.IsControlledBy(cr, parent) && !revision.Stray(cr, parent) {
			continue
		}
		r, err := parse(known, cr, parent.Name)
		if err != nil {
			continue
		}
		revisions = append(revisions, r)
	}
	last.Set(parsedOf(revisions))
	return revisions, nil
}

// Unlabelled returns a revision of the parent that has lost the label by which List finds it; Store.Adopt
// restores the label. It returns nil if no revision has the name, or if it does not belong to the
// parent or cannot be parsed.
func (s *Reader) Unlabelled(ctx context.Context, parent *v1alpha1.UnitedDeployment, name string) (*revision.Revision, error) {
	live := &appsv1.ControllerRevision{}
	if err := s.Live.Get(ctx, client.ObjectKey{Namespace: parent.Namespace, Name: name}, live); err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			return nil, fmt.Errorf("get revision %s: %w", name, err)
		}
		return nil, nil //nolint:nilnil // it does not exist
	}
	r, err := parse(nil, live, parent.Name)
	if err != nil || metav1.GetControllerOfNoCopy(live) != nil && !metav1.IsControlledBy(live, parent) {
		return nil, nil //nolint:nilnil // it is not ours
	}
	return r, nil
}

// Ensure returns the revision of a content. It is stored before anything is made from it: either an
// equal one exists, found, which becomes the latest, or a new one is created. found
// is nil, or not one of kept, if none is stored.
func (s *Store) Ensure(ctx context.Context, parent *v1alpha1.UnitedDeployment, owner metav1.OwnerReference,
	kept []*revision.Revision, c revision.Content, found *revision.Revision,
) (*revision.Revision, error) {
	if found != nil && found.Object.UID != "" {
		return s.bringToFront(ctx, kept, found, parent.Status.UpdateRevision)
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	for collision := range revision.MaxCollisions {
		cr := revision.New(parent, owner, c, revision.NextNumber(kept), collision)
		err := s.create(ctx, cr)
		if apierrors.IsAlreadyExists(err) {
			// The cache lags, or the name belongs to another content or owner.
			live := &appsv1.ControllerRevision{}
			if err := s.Live.Get(ctx, client.ObjectKeyFromObject(cr), live); err != nil {
				return nil, fmt.Errorf("get revision %s: %w", cr.Name, err)
			}
			r, err := revision.Parse(live)
			if err == nil && r.Matches(c) && (metav1.IsControlledBy(live, parent) || revision.Stray(live, parent)) {
				return s.Adopt(ctx, parent, owner, r)
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("create revision %s: %w", cr.Name, err)
		}
		made, err := revision.Parse(cr)
		if err == nil && cr.Labels[v1alpha1.LabelName] != parent.Name {
			err = ErrLabelTaken // do not use a revision that List would not find again
		}
		return made, err
	}
	return nil, fmt.Errorf("found no free name for a ControllerRevision of %s after %d attempts: delete those named %[1]s-* that it does not control", parent.Name, revision.MaxCollisions)
}

// create creates a revision and replaces *cr by the answer of the API server. If somebody deletes it
// each time, it is created less and less often.
func (s *Store) create(ctx context.Context, cr *appsv1.ControllerRevision) error {
	if s.Spacing == nil {
		return s.Client.Create(ctx, cr)
	}
	wanted := cr.DeepCopy()
	if err := s.Spacing.Delay(nil, wanted); err != nil {
		return err
	}
	if err := s.Client.Create(ctx, cr); err != nil {
		return err
	}
	s.Spacing.Wrote(nil, wanted, cr)
	return nil
}

// Adopt restores the owner reference and the label of a revision from which somebody has removed
// them, and returns the result. It writes nothing if they exist, and fails if somebody removes them
// at the same time.
func (s *Store) Adopt(ctx context.Context, parent *v1alpha1.UnitedDeployment, owner metav1.OwnerReference, r *revision.Revision) (*revision.Revision, error) {
	has := func(r *revision.Revision) bool {
		return metav1.IsControlledBy(r.Object, parent) && r.Object.Labels[v1alpha1.LabelName] == parent.Name
	}
	if has(r) {
		return r, nil
	}
	others := slices.DeleteFunc(slices.Clone(r.Object.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	adopted, err := s.patch(ctx, r, map[string]any{"metadata": map[string]any{
		"ownerReferences": append(others, owner),
		"labels":          map[string]any{v1alpha1.LabelName: parent.Name},
	}})
	if err == nil && !has(adopted) {
		err = ErrLabelTaken
	}
	return adopted, err
}

// ErrLabelTaken means that admission removed the owner reference or the label of a revision while it was written. Spacing
// reports it if that happens again and again.
var ErrLabelTaken = errors.New("admission (a policy or webhook) removes the owner reference or the label of a ControllerRevision")

// bringToFront gives a revision that is used again the highest number, so that the history is
// truncated by last use. The update revision already has the highest number.
func (s *Store) bringToFront(ctx context.Context, kept []*revision.Revision, r *revision.Revision, updateRevision string) (*revision.Revision, error) {
	next := revision.NextNumber(kept)
	if r.Name == updateRevision || r.Number == next-1 {
		return r, nil
	}
	return s.patch(ctx, r, map[string]any{"revision": next})
}

// Amend records in a revision which subsets were added or removed after it was made; it writes
// nothing if there are none.
func (s *Store) Amend(ctx context.Context, r *revision.Revision, living map[string]revision.Overlay) (*revision.Revision, error) {
	annotation, changed := r.Amend(living)
	if !changed {
		return r, nil
	}
	return s.patch(ctx, r, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationSubsets: annotation}},
	})
}

// RecordCurrent records that a revision of the parent became the current one, after the revision with
// the number last. See revision.LastCurrent.
func (s *Store) RecordCurrent(ctx context.Context, parent *v1alpha1.UnitedDeployment, r *revision.Revision, last int64) error {
	_, err := s.patch(ctx, r, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{
			v1alpha1.AnnotationCurrent: revision.CurrentRecord(parent.UID, last), v1alpha1.AnnotationLeft: nil, v1alpha1.AnnotationRejected: nil,
		}},
	})
	return err
}

// RecordLeft records that the rollout is on the way back from a revision. See revision.Revision.Left.
func (s *Store) RecordLeft(ctx context.Context, r *revision.Revision, value string) error {
	_, err := s.patch(ctx, r, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationLeft: value}},
	})
	return err
}

// RecordRejected records why a revision is rejected, or that it is no longer (""), and how it was left. See
// revision.Revision.Rejected.
func (s *Store) RecordRejected(ctx context.Context, r *revision.Revision, left, why string) error {
	annotations := map[string]any{v1alpha1.AnnotationLeft: left, v1alpha1.AnnotationRejected: nil}
	if why != "" {
		annotations[v1alpha1.AnnotationRejected] = why
	}
	_, err := s.patch(ctx, r, map[string]any{"metadata": map[string]any{"annotations": annotations}})
	return err
}

// patch is fenced by the UID, because another revision may have got the name, and by the
// resourceVersion. Trap: a client that waits until it can read its own writes waits forever for an
// object that its cache has lost in the meantime.
func (s *Store) patch(ctx context.Context, r *revision.Revision, patch map[string]any) (*revision.Revision, error) {
	meta, _ := patch["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["uid"], meta["resourceVersion"] = r.Object.UID, r.Object.ResourceVersion
	patch["metadata"] = meta
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch revision %s: %w", r.Name, err)
	}
	wanted, err := patched(r.Object, raw)
	if err != nil {
		return nil, err
	}
	if s.Spacing != nil {
		if err := s.Spacing.Delay(r.Object, wanted); err != nil {
			return nil, fmt.Errorf("patch revision %s: %w", r.Name, err)
		}
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	opts := []client.PatchOption{client.FieldOwner(v1alpha1.FieldManager)}
	if _, cached := r.Object.Labels[v1alpha1.LabelName]; !cached {
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	cr := r.Object.DeepCopy()
	if err := s.Client.Patch(ctx, cr, client.RawPatch(types.MergePatchType, raw), opts...); err != nil {
		return nil, fmt.Errorf("patch revision %s: %w", r.Name, err)
	}
	if s.Spacing != nil {
		s.Spacing.Wrote(r.Object, wanted, cr)
	}
	return revision.Parse(cr)
}

// patched returns the revision that a merge patch makes.
func patched(cr *appsv1.ControllerRevision, patch []byte) (*appsv1.ControllerRevision, error) {
	before, err := json.Marshal(cr)
	if err != nil {
		return nil, fmt.Errorf("patch revision %s: %w", cr.Name, err)
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, fmt.Errorf("patch revision %s: %w", cr.Name, err)
	}
	wanted := &appsv1.ControllerRevision{}
	if err := json.Unmarshal(after, wanted); err != nil {
		return nil, fmt.Errorf("patch revision %s: %w", cr.Name, err)
	}
	return wanted, nil
}

func (s *Store) confirm(ctx context.Context) error {
	if s.Confirm == nil {
		return nil
	}
	return s.Confirm(ctx)
}

// Truncate deletes revisions that are not in use, except the youngest ones, up to limit. The deletes
// are fenced by the resourceVersion: a revision that is used again has been changed.
func (s *Store) Truncate(ctx context.Context, kept []*revision.Revision, inUse map[string]bool, limit int) error {
	for _, r := range revision.Surplus(kept, inUse, limit) {
		uid, version := r.Object.UID, r.Object.ResourceVersion
		err := s.Client.Delete(ctx, r.Object, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete revision %s: %w", r.Name, err)
		}
	}
	return nil
}
