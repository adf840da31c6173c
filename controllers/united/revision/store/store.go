// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the revisions that package revision names.
package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Store keeps revisions as ControllerRevisions.
type Store struct {
	// Client writes, and reads from a cache of the ControllerRevisions that carry
	// the label united.dev/name and not united.dev/subset.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Confirm, when set, is asked before a revision is made or changed for a parent. Its
	// error keeps that from being done, and is what the caller gets.
	Confirm func(ctx context.Context) error
	// Parsed remembers what List has parsed. Nil remembers nothing.
	Parsed *Parsed
	// Spacing, when set, spaces the changes that somebody undoes again and again.
	Spacing Spacing
}

// Spacing spaces changes of revisions that are undone each time. Its errors are what the caller gets.
type Spacing interface {
	// Delay gives an error while a revision is not to be changed again from what it is to what is
	// wanted. is is nil where there is none.
	Delay(is, wanted *appsv1.ControllerRevision) error
	// Wrote notes a change from what a revision was, nil if there was none, to what is wanted, and
	// what the API server has made of it.
	Wrote(was, wanted, after *appsv1.ControllerRevision)
}

// List gives the revisions that the parent controls, and those whose owner somebody has
// taken, for Adopt to put back. One that cannot be read is
// left out: whoever needs it by name is told that it is lost. It does not wait until the
// cache has what was written, since that would be for all parents; Ensure finds out when
// it lags. Client has an index of them by that label.
func (s *Store) List(ctx context.Context, parent *v1alpha1.UnitedDeployment) ([]*revision.Revision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := s.Client.List(ctx, list, client.InNamespace(parent.Namespace),
		client.MatchingFields{v1alpha1.LabelName: parent.Name}, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	key := client.ObjectKeyFromObject(parent)
	known, revisions := s.Parsed.of(key), make([]*revision.Revision, 0, len(list.Items))
	for i := range list.Items {
		cr := &list.Items[i]
		// A child's own ControllerRevisions carry the labels of its pods.
		if _, ofChild := cr.Labels[v1alpha1.LabelSubset]; ofChild || !metav1.IsControlledBy(cr, parent) && !revision.Stray(cr, parent) {
			continue
		}
		r, err := parse(known, cr, parent.Name)
		if err != nil {
			continue
		}
		revisions = append(revisions, r)
	}
	s.Parsed.keep(key, revisions)
	return revisions, nil
}

// Unlabelled gives a revision of the parent that has lost the label by which List finds it,
// and puts that back; nil when there is none of that name, or it is not the parent's, or
// cannot be read.
func (s *Store) Unlabelled(ctx context.Context, parent *v1alpha1.UnitedDeployment, owner metav1.OwnerReference, name string) (*revision.Revision, error) {
	live := &appsv1.ControllerRevision{}
	if err := s.Live.Get(ctx, client.ObjectKey{Namespace: parent.Namespace, Name: name}, live); err != nil {
		if err = client.IgnoreNotFound(err); err != nil {
			return nil, fmt.Errorf("get revision %s: %w", name, err)
		}
		return nil, nil //nolint:nilnil // there is none
	}
	r, err := parse(nil, live, parent.Name)
	if err != nil || metav1.GetControllerOfNoCopy(live) != nil && !metav1.IsControlledBy(live, parent) {
		return nil, nil //nolint:nilnil // it is none of ours
	}
	if adopted, _ := s.Adopt(ctx, parent, owner, r); adopted != nil {
		return adopted, nil
	}
	return r, nil // it is there all the same; the next pass tries again
}

// EnsureContent gives the revision of a content, and keeps it before anything is
// made from it: an equal one that is kept already, brought to the front, or a
// new one.
func (s *Store) EnsureContent(ctx context.Context, parent *v1alpha1.UnitedDeployment, owner metav1.OwnerReference,
	kept []*revision.Revision, c revision.Content,
) (*revision.Revision, error) {
	return s.Ensure(ctx, parent, owner, kept, c, revision.Find(kept, c, parent.Status.UpdateRevision))
}

// Ensure is EnsureContent where the revision of the content was looked for already. It is nil, or
// not among those that are kept, when none is.
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
			// A cache that lags, or another content or owner of the same name.
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
			err = errLabelTaken(cr.Name) // nothing is made of what would not be found again
		}
		return made, err
	}
	return nil, fmt.Errorf("found no free name for a ControllerRevision of %s after %d attempts: delete those named %[1]s-* that it does not control", parent.Name, revision.MaxCollisions)
}

// create makes a revision, and of cr what the API server answers. One that somebody deletes each time is
// made less and less often.
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

// Adopt puts back the owner, and the label, of a revision from which somebody has taken
// them; it writes nothing where they are there. It fails where they are taken as it does so, and
// gives the revision as it is then.
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
		err = errLabelTaken(r.Name)
	}
	return adopted, err
}

func errLabelTaken(name string) error {
	return fmt.Errorf("admission (a policy or webhook) removes the owner reference or the label %s from ControllerRevision %s", v1alpha1.LabelName, name)
}

// bringToFront gives a revision that is used again the highest number, so that
// the history is truncated by last use. The update revision is there already.
func (s *Store) bringToFront(ctx context.Context, kept []*revision.Revision, r *revision.Revision, updateRevision string) (*revision.Revision, error) {
	next := revision.NextNumber(kept)
	if r.Name == updateRevision || r.Number == next-1 {
		return r, nil
	}
	return s.patch(ctx, r, map[string]any{"revision": next})
}

// Amend records in a revision the subsets that came and went after it was
// taken; it writes nothing when there are none.
func (s *Store) Amend(ctx context.Context, r *revision.Revision, living map[string]revision.Overlay) (*revision.Revision, error) {
	annotation, changed := r.Amend(living)
	if !changed {
		return r, nil
	}
	return s.patch(ctx, r, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationSubsets: annotation}},
	})
}

// RecordCurrent records that a revision of the parent became the current one, after that
// with the number last. See revision.LastCurrent.
func (s *Store) RecordCurrent(ctx context.Context, parent *v1alpha1.UnitedDeployment, r *revision.Revision, last int64) error {
	_, err := s.patch(ctx, r, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{v1alpha1.AnnotationCurrent: revision.CurrentRecord(parent.UID, last)}},
	})
	return err
}

// patch is fenced by the UID, since the name may have been given to another revision,
// and by the resourceVersion. Trap: a client that waits to read its own writes waits
// for ever for one that its cache has lost in the meantime.
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

// patched is what a revision is to be by a merge patch.
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

// Truncate deletes revisions that are not in use, but for the limit youngest. The
// deletes are fenced by resourceVersion: a revision that is used again was brought
// to the front since.
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
