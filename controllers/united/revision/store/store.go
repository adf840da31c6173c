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
// writes, because that would delay all parents; Store.Create notices a cache that lags.
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

// Create stores a new revision with a content, before anything is made from it, and returns it. kept are the stored ones.
func (s *Store) Create(ctx context.Context, parent *v1alpha1.UnitedDeployment, owner metav1.OwnerReference, kept []*revision.Revision, c revision.Content) (*revision.Revision, error) {
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
	wanted := r.Object.DeepCopy()
	wanted.OwnerReferences = append(slices.DeleteFunc(wanted.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }), owner)
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, v1alpha1.LabelName, parent.Name)
	adopted, err := s.patch(ctx, r, wanted, map[string]any{"metadata": map[string]any{
		"ownerReferences": wanted.OwnerReferences,
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

// Change changes a revision; it writes nothing if there is nothing to change.
func (s *Store) Change(ctx context.Context, r *revision.Revision, change revision.Change) (*revision.Revision, error) {
	if change.None() {
		return r, nil
	}
	patch, annotations := map[string]any{}, map[string]any{}
	for key, value := range change.Annotations {
		if annotations[key] = value; value == "" {
			annotations[key] = nil // removes it
		}
	}
	if len(annotations) > 0 {
		patch["metadata"] = map[string]any{"annotations": annotations}
	}
	if change.Number != 0 {
		patch["revision"] = change.Number
	}
	return s.patch(ctx, r, change.Of(r.Object), patch)
}

// patch makes a revision as wanted with a merge patch. It is fenced by the UID, because another revision may have got the name, and by the
// resourceVersion. Trap: a client that waits until it can read its own writes waits forever for an
// object that its cache has lost in the meantime.
func (s *Store) patch(ctx context.Context, r *revision.Revision, wanted *appsv1.ControllerRevision, patch map[string]any) (*revision.Revision, error) {
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
