// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// readStripped reads, past the cache, the children that have lost one of the labels by which they are found, so that
// the pass handles them like any other: the next write has their labels, together with all other changes. Labels that
// are removed again and again are restored less and less often, and writes that protect must not wait for that.
//
// It reads only children of subsets that the status knows and that have no child in the cache, because for other
// subsets an object with that name does not matter; and not for subsets with a failure for which it is too early to try
// again. If a read fails, the pass continues as without a child, which the writer does not create again.
func (r *Reconciler) readStripped(ctx context.Context, in *planner.Input) {
	parent, w := client.ObjectKeyFromObject(in.Parent), r.writer(in.Spec.Adapter)
	for _, s := range in.Spec.Subsets {
		if in.Children[s.Name] != nil || in.Unreadable[s.Name] != nil || world.SubsetStatus(&in.Parent.Status, s.Name) == nil ||
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
	return current != nil && !ownership.Labelled(&who, current)
}

// relabel restores the labels on the child of a subset that gets no other write.
func (e *executor) relabel(ctx context.Context, s *planner.SubsetPlan) *planner.Result {
	who := e.in.ChildIdentity(s.Name)
	o := e.attempt(ctx, e.in, s.Name, e.currentChild(s), func(*planner.Result) error {
		if err := e.writer.Relabel(ctx, &who); err != nil {
			return err
		}
		return subset.ErrStale // it is gone by now
	})
	return orOverridden(o, e.writer.Overridden(e.parent(), s.Workload, nil))
}

// errIfUnlabelled returns an error that causes another pass if a child does not have its labels after a write, because
// no watch reports what happens to it then. It returns nil if the child has them.
func errIfUnlabelled(c *adapters.Child, after *unstructured.Unstructured) error {
	if ownership.Labelled(c, after) {
		return nil
	}
	return &subset.WaitError{Reason: c.Name + " lost its labels; restoring them"}
}
