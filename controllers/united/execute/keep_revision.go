// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/observe"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/revision/store"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// parentFailures is the key of the parent itself in the failures by subset.
const parentFailures = ""

// Try keeps the revisions of a parent, unless that failed and it is too early to try again.
func (e *Executor) Try(in *planner.Input, keep func() error) *planner.Result {
	return e.attempt(e.Context, in, parentFailures, nil, func(*planner.Result) error { return keep() })
}

// Store stores the revision that the spec asks for.
func (e *Executor) Store(in *planner.Input, kept []*revision.Revision) (*revision.Revision, error) {
	r, err := e.confirmed(in).Create(e.Context, in.Parent, world.OwnerOf(in.Parent), kept, in.Spec.Content())
	return r, asStaleRevision(err)
}

// Keep restores what makes a revision the parent's, and changes it. If that fails, the stored revision stays as it was.
func (e *Executor) Keep(in *planner.Input, r *revision.Revision, change revision.Change) (*revision.Revision, error) {
	revisions := e.confirmed(in)
	r, err := revisions.Adopt(e.Context, in.Parent, world.OwnerOf(in.Parent), r)
	if err == nil {
		r, err = revisions.Change(e.Context, r, change)
	}
	if err != nil {
		return nil, asStaleRevision(err)
	}
	return r, e.spacing().errIfOverridden(revisionObject(r.Name))
}

// confirmed is the store of revisions that make pods: nothing is written for a spec that has changed since.
func (e *Executor) confirmed(in *planner.Input) *store.Store {
	revisions := e.store()
	revisions.Confirm = func(ctx context.Context) error { return e.confirmSpec(ctx, in.Parent) }
	return revisions
}

// asStaleRevision converts the error that a revision has changed, or is gone, into one that causes another read.
func asStaleRevision(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, store.ErrLabelTaken) {
		return subset.ErrStale
	}
	return err
}

// confirmSpec confirms that the parent still has the template and the subsets that were read, and is not paused since; otherwise
// the error is subset.ErrStale. Without this, a controller that does not know yet that another one leads could create a deleted
// revision again, remove a subset that was added back, or start a Job during a pause.
func (e *Executor) confirmSpec(ctx context.Context, parent *v1alpha1.UnitedDeployment) error {
	live, err := observe.ReadParent(ctx, e.Live, parent)
	if err != nil {
		return err
	}
	if live.UID != parent.UID || live.Spec.Paused != parent.Spec.Paused ||
		!equality.Semantic.DeepEqual(&live.Spec.Template, &parent.Spec.Template) ||
		!equality.Semantic.DeepEqual(&live.Spec.Topology, &parent.Spec.Topology) {
		return fmt.Errorf("%s has changed: %w", parent.Name, subset.ErrStale)
	}
	return nil
}

// Record changes the record of a revision.
func (e *Executor) Record(r *revision.Revision, change revision.Change) error {
	if _, err := e.store().Change(e.Context, r, change); err != nil {
		return asStaleRevision(err)
	}
	return e.spacing().errIfOverridden(currentRecordOf(r.Name))
}

// Truncate deletes the revisions, except the youngest ones, that neither the old nor the new status nor a child names.
func (e *Executor) Truncate(in *planner.Input, results planner.Results, status *v1alpha1.UnitedDeploymentStatus) error {
	inUse := in.After(results).InUse()
	inUse[status.CurrentRevision], inUse[status.UpdateRevision] = true, true
	for _, s := range status.Subsets {
		inUse[s.CurrentRevision], inUse[s.UpdateRevision] = true, true
	}
	if len(revision.Surplus(in.Revisions, inUse, spec.RevisionLimit(in.Parent))) == 0 {
		return nil
	}
	if err := e.addNamedByChildren(e.Context, in, inUse); err != nil {
		return err
	}
	e.forgetSurplus(in, inUse)
	return e.store().Truncate(e.Context, in.Revisions, inUse, spec.RevisionLimit(in.Parent))
}

// addNamedByChildren adds the revisions that the children name. It reads past the cache, because a controller that does
// not know yet that another one leads may have outdated children in its cache, and a protected revision cannot be
// created again.
func (e *Executor) addNamedByChildren(ctx context.Context, in *planner.Input, inUse map[string]bool) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(in.Spec.Adapter.GroupVersionKind())
	if err := e.Live.List(ctx, list, client.InNamespace(in.Parent.Namespace), client.MatchingLabels{v1alpha1.LabelName: in.Parent.Name}); err != nil {
		return fmt.Errorf("list children: %w", err)
	}
	for i := range list.Items {
		planner.AddNamed(inUse, list.Items[i].GetAnnotations())
	}
	return nil
}
