// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
)

// readOutlived looks which pods outlived a child that is to be made again. It asks for
// subsets without a child only, and not for those that have failed and whose time has not
// come. What it does not see, for want of an answer or since it was orphaned later, costs no
// pod: the writer looks once more, and makes no child that would delete one.
func (r *Reconciler) readOutlived(ctx context.Context, w *world) {
	if !w.initialized() {
		return // there is nothing to protect, and what outlived may be replaced
	}
	parent := client.ObjectKeyFromObject(w.parent)
	for _, s := range w.spec.subsets {
		if w.children[s.Name] != nil || r.failures.Pending(parent, s.Name, w.attemptOn(nil), w.now) != nil {
			continue
		}
		pods, err := r.writer(w.spec.adapter).Outlived(ctx, parent.Namespace, parent.Name, s.Name)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("could not look up what outlived a child", "subset", s.Name, "error", err.Error())
			continue
		}
		if w.outlived == nil {
			w.outlived = map[string][]corev1.Pod{}
		}
		w.outlived[s.Name] = pods
	}
}

// around is a step with room for the pods that outlived the child before. What cannot be
// built gets no child, and the writer says why.
func (w *world) around(step subset.Step) subset.Step {
	pods := w.outlived[step.Child.Subset]
	if step.Action != subset.ActionSeed || len(pods) == 0 {
		return step
	}
	u, err := adapters.Build(w.spec.adapter, &step.Child)
	if err != nil {
		return step
	}
	return subset.Around(step, w.spec.adapter.Orphans(u, pods))
}
