// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/writer"
)

// memoryOf stands for the memory of a subset's child where failures are kept by subset:
// that one has to be reminded again puts off nothing else. It is no name of a subset.
func memoryOf(name string) string { return name + "/memory" }

// errNotYet says that a child is reminded when a replica of it may be deleted, which a
// watch tells.
var errNotYet = errors.New("no replica may be deleted yet")

// remindSubset reminds a child of what it has forgotten. It may do so in vain, for as
// long as its controller does not see its revisions: so each time counts as one that
// failed, and the next comes later.
func (r *Reconciler) remindSubset(ctx context.Context, wr *writer.Writer, w *world, s *subsetPlan) *outcome {
	parent, current, observed := client.ObjectKeyFromObject(w.parent), w.children[s.Name].object, w.observed(s.Name)
	attempt := w.attemptOn(current)
	if pending := r.failures.Pending(parent, memoryOf(s.Name), attempt, w.now); pending != nil {
		return &outcome{failure: pending}
	}
	o := &outcome{}
	current, wrote, err := wr.Remind(ctx, s.step.Hash, current, func() error {
		// What came up unreleased keeps the child from remembering.
		err := r.deleteReplicas(ctx, wr, w, observed, s.deletes, o)
		if err == nil && subset.Relapses(observed) && len(o.undone) == 0 {
			return errNotYet
		}
		return err
	})
	o.wrote = wrote
	if errors.Is(err, errNotYet) {
		return o
	}
	if err == nil {
		w.children[s.Name], err = w.read(s.Name, current)
	}
	switch {
	case errors.Is(err, writer.ErrStale) && len(o.undone) > 0:
		// A replica was deleted for it. The next is not deleted at once, though the
		// replica may be ready again by then.
		o.failure = r.failures.Failed(parent, memoryOf(s.Name), attempt, fmt.Errorf("%s %w", s.workload, writer.ErrForgets), w.now)
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
