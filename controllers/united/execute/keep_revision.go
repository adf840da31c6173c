// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/observe"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/revision/store"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// parentFailures is the key of the parent itself in the failures by subset.
const parentFailures = ""

// KeepRevision stores the revision of a plan before anything is created from it, and adds missing subsets to the
// revisions in use. It returns the input with the revisions as they are stored, and the plan. That is a different plan
// if the revision cannot be stored, or not under its name; it is nil if there is no revision to continue with.
func (e *Executor) KeepRevision(ctx context.Context, in *planner.Input, p *planner.Plan) (*planner.Input, *planner.Plan, *planner.Result) {
	out := in
	result := e.attempt(ctx, in, parentFailures, nil, func(*planner.Result) error {
		revisions := e.store()
		revisions.Confirm = func(ctx context.Context) error { return e.confirmSpec(ctx, in.Parent) }
		kept := in.Kept()
		update, err := revisions.Ensure(ctx, in.Parent, world.OwnerOf(in.Parent), kept, in.Spec.Content(), in.Asked())
		if err != nil {
			return asStaleRevision(err)
		}
		kept = slices.DeleteFunc(kept, func(r *revision.Revision) bool { return r.Name == update.Name })
		kept = append(kept, update)
		inUse, living := in.InUse(), in.Spec.Overlays()
		inUse[update.Name] = true
		for i, rev := range kept {
			if !inUse[rev.Name] {
				continue
			}
			if rev, err = revisions.Adopt(ctx, in.Parent, world.OwnerOf(in.Parent), rev); err != nil {
				return asStaleRevision(err)
			}
			if kept[i], err = revisions.Amend(ctx, rev, living); err != nil {
				return asStaleRevision(err) // the stored revision stays as it was
			}
			if err := e.spacing().errIfOverridden(revisionObject(rev.Name)); err != nil {
				return err
			}
		}
		out = in.WithRevisions(kept, revision.ByName(kept, update.Name))
		return nil
	})
	switch {
	case result.Failure != nil:
		if out = in.WithoutUpdate(result.Failure); out == nil {
			return in, nil, result
		}
		p = planner.Make(out)
	case out.Update.Name != in.Update.Name:
		p = planner.Make(out)
	}
	return out, p, result
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

// RecordCurrent records on a revision that it has become the current one, that the rollout is on the way back from it, or that
// it is rejected.
// The status may have it only after that.
func (e *Executor) RecordCurrent(ctx context.Context, in *planner.Input, p *planner.Plan, status *v1alpha1.UnitedDeploymentStatus) error {
	if r := in.UnrecordedRejection(p); r != nil {
		if err := asStaleRevision(e.store().RecordRejected(ctx, r.Revision, r.Left, r.Why)); err != nil {
			return err
		}
		return e.spacing().errIfOverridden(currentRecordOf(r.Name))
	}
	if left, value := in.UnrecordedLeft(p); left != nil {
		if err := asStaleRevision(e.store().RecordLeft(ctx, left, value)); err != nil {
			return err
		}
		return e.spacing().errIfOverridden(currentRecordOf(left.Name))
	}
	current, last := report.Unrecorded(in, p, status)
	if current == nil {
		return nil
	}
	if err := asStaleRevision(e.store().RecordCurrent(ctx, in.Parent, current, last)); err != nil {
		return err
	}
	return e.spacing().errIfOverridden(currentRecordOf(current.Name))
}

// Truncate deletes the revisions, except the youngest ones, that neither the old nor the new status nor a child names.
func (e *Executor) Truncate(ctx context.Context, in *planner.Input, results planner.Results, status *v1alpha1.UnitedDeploymentStatus) error {
	inUse := in.After(results).InUse()
	inUse[status.CurrentRevision], inUse[status.UpdateRevision] = true, true
	for _, s := range status.Subsets {
		inUse[s.CurrentRevision], inUse[s.UpdateRevision] = true, true
	}
	if len(revision.Surplus(in.Revisions, inUse, spec.RevisionLimit(in.Parent))) == 0 {
		return nil
	}
	if err := e.addNamedByChildren(ctx, in, inUse); err != nil {
		return err
	}
	e.forgetSurplus(in, inUse)
	return e.store().Truncate(ctx, in.Revisions, inUse, spec.RevisionLimit(in.Parent))
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
