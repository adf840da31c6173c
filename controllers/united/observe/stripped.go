// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// readStripped reads, past the cache, the children that have lost one of the labels by which they are found, so that
// the pass handles them like any other: the next write has their labels, together with all other changes. Labels that
// are removed again and again are restored less and less often, and writes that protect must not wait for that.
//
// It reads only children of subsets that the status knows and that have no child in the cache, because for other
// subsets an object with that name does not matter; and not for subsets with a failure for which it is too early to try
// again. If a read fails, the pass continues as without a child, which the writer does not create again.
func (o *Observer) readStripped(ctx context.Context, w *world.World) {
	for _, s := range w.Spec.Subsets {
		if w.Children[s.Name] != nil || w.Unreadable[s.Name] != nil || world.SubsetStatus(&w.Parent.Status, s.Name) == nil ||
			o.failures().Pending(s.Name, undone.AttemptOn(w.Parent, nil), w.Now) != nil {
			continue
		}
		who := w.ChildIdentity(s.Name)
		child, err := o.Writes.Stripped(ctx, &who)
		switch {
		case err != nil:
			ctrl.LoggerFrom(ctx).Info("could not read a child workload from the API server", "subset", s.Name, "error", err.Error())
		case child != nil:
			o.addChild(w, s.Name, child)
		}
	}
}
