// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/controllers/subset/writer"
)

// memoryOf stands for the memory of a subset's child where failures are kept by subset:
// that one has to be reminded again puts off nothing else. It is no name of a subset.
func memoryOf(name string) string { return name + "/memory" }

// remindSubset reminds a child of what it has forgotten. It may do so in vain, for as
// long as its controller does not see its revisions: so each time counts as one that
// failed, and the next comes later.
func (r *Reconciler) remindSubset(ctx context.Context, wr *writer.Writer, w *world, s *subsetPlan) *outcome {
	parent, current := client.ObjectKeyFromObject(w.parent), w.children[s.Name].object
	attempt := w.attemptOn(current)
	if pending := r.failures.Pending(parent, memoryOf(s.Name), attempt, w.now); pending != nil {
		return &outcome{failure: pending}
	}
	o := &outcome{}
	current, wrote, err := wr.Remind(ctx, s.step.Hash, current)
	o.wrote = wrote
	if err == nil {
		w.children[s.Name], err = w.read(s.Name, current)
	}
	switch {
	case errors.Is(err, writer.ErrStale):
		o.stale = true
		if e := (*writer.WaitError)(nil); errors.As(err, &e) {
			o.waits = "waits: " + e.For
		}
	case err != nil:
		o.failure = r.failures.Failed(parent, memoryOf(s.Name), attempt, err, w.now)
		ctrl.LoggerFrom(ctx).Info("could not remind", "subset", s.Name, "error", err.Error(), "retryAt", o.failure.RetryAt)
	default:
		again := r.failures.Failed(parent, memoryOf(s.Name), attempt, fmt.Errorf("%s %w", s.workload, writer.ErrForgets), w.now)
		ctrl.LoggerFrom(ctx).Info("reminded", "subset", s.Name, "of", s.step.Hash, "notAgainBefore", again.RetryAt)
	}
	return o
}
