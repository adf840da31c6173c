// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// readOutlived finds the pods that outlived a child that must be created again. It reads them only for subsets without
// a child, and not for subsets with a failure for which it is too early to try again. If it misses pods, because the
// request failed or they were orphaned later, no pod is lost: the writer checks again, and does not create a child that
// would delete one.
func (o *Observer) readOutlived(ctx context.Context, w *world.World) {
	if !w.Initialized() {
		return // there is nothing to protect, and pods that outlived a child may be replaced
	}
	for _, s := range w.Spec.Subsets {
		if w.Children[s.Name] != nil || w.Unreadable[s.Name] != nil || o.failures().Pending(s.Name, undone.AttemptOn(w.Parent, nil), w.Now) != nil {
			continue
		}
		pods, err := o.Writes.Outlived(ctx, w.Parent.Namespace, w.Parent.Name, s.Name)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("could not look up the pods that outlived a child workload", "subset", s.Name, "error", err.Error())
			continue
		}
		if w.Outlived == nil {
			w.Outlived = map[string][]corev1.Pod{}
		}
		w.Outlived[s.Name] = pods
	}
}
