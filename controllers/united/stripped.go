// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset/writer"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// readStripped reads the children that have lost one of the labels by which they are found,
// past the cache, and lets the pass decide on them as on any other: the write that they get
// then has their labels, and all else that is asked for. Labels that are taken again and
// again are put back less and less often, and what protects must not wait for that.
//
// It asks for subsets alone that the status knows and the cache has no child of, as for
// others whatever has the name is in nobody's way; and not for those that have failed and
// whose time has not come. Without an answer all goes on as without a child, which the
// writer does not make anew.
func (r *Reconciler) readStripped(ctx context.Context, in *planner.Input) {
	parent, w := client.ObjectKeyFromObject(in.Parent), r.writer(in.Spec.Adapter)
	for _, s := range in.Spec.Subsets {
		if in.Children[s.Name] != nil || in.Unreadable[s.Name] != nil || planner.SubsetStatus(&in.Parent.Status, s.Name) == nil ||
			r.failures.Pending(parent, s.Name, attemptFor(in, nil), in.Now) != nil {
			continue
		}
		who := in.ChildIdentity(s.Name)
		child, err := w.Stripped(ctx, &who)
		switch {
		case err != nil:
			ctrl.LoggerFrom(ctx).Info("could not read a child workload from the API server", "subset", s.Name, "error", err.Error())
		case child != nil:
			r.addChild(in, s.Name, child)
		}
	}
}

// stripped reports whether the child of a subset has lost one of its labels.
func (e *executor) stripped(s *planner.SubsetPlan) bool {
	who, current := e.in.ChildIdentity(s.Name), e.currentChild(s)
	return current != nil && !writer.Labelled(&who, current)
}

// relabel puts the labels back on the child of a subset that is to get no other write.
func (e *executor) relabel(ctx context.Context, s *planner.SubsetPlan) *planner.Result {
	who := e.in.ChildIdentity(s.Name)
	o := e.attempt(ctx, e.in, s.Name, e.currentChild(s), func(*planner.Result) error {
		if err := e.writer.CheckNameFree(ctx, &who); err != nil {
			return err
		}
		return writer.ErrStale // it is gone by now
	})
	return orOverridden(o, e.writer.Overridden(e.parent(), s.Workload, nil))
}

// errIfUnlabelled is why the pass comes back after a write: no watch tells what becomes of a child
// that has not got its labels by it. nil where it has.
func errIfUnlabelled(c *adapters.Child, after *unstructured.Unstructured) error {
	if writer.Labelled(c, after) {
		return nil
	}
	return &writer.WaitError{Reason: c.Name + " lost its labels; restoring them"}
}
