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

// readOutlived looks which pods outlived a child that is to be made again. It asks for
// subsets without a child only, and not for those that have failed and whose time has not
// come. What it does not see, for want of an answer or since it was orphaned later, costs no
// pod: the writer looks once more, and makes no child that would delete one.
func (r *Reconciler) readOutlived(ctx context.Context, in *planner.Input) {
	if !in.Initialized() {
		return // there is nothing to protect, and what outlived may be replaced
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
