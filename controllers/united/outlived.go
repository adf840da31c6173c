// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/controllers/united/planner"
)

// readOutlived finds the pods that outlived a child that must be created again. It reads them only for subsets without
// a child, and not for subsets with a failure for which it is too early to try again. If it misses pods, because the
// request failed or they were orphaned later, no pod is lost: the writer checks again, and does not create a child that
// would delete one.
func (r *Reconciler) readOutlived(ctx context.Context, in *planner.Input) {
	if !in.Initialized() {
		return // there is nothing to protect, and pods that outlived a child may be replaced
	}
	parent := client.ObjectKeyFromObject(in.Parent)
	for _, s := range in.Spec.Subsets {
		if in.Children[s.Name] != nil || in.Unreadable[s.Name] != nil || r.failures.Pending(parent, s.Name, attemptFor(in, nil), in.Now) != nil {
			continue
		}
		pods, err := r.writer(in.Spec.Adapter).Outlived(ctx, parent.Namespace, parent.Name, s.Name)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("could not look up the pods that outlived a child workload", "subset", s.Name, "error", err.Error())
			continue
		}
		if in.Outlived == nil {
			in.Outlived = map[string][]corev1.Pod{}
		}
		in.Outlived[s.Name] = pods
	}
}
