// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// reminderKey is the key in the failures by subset for reminders of a subset's child, so that repeated reminders do not
// delay anything else. It is not a valid name of a subset.
func reminderKey(name string) string { return name + "/memory" }

// relearningKey is the key for a child that has forgotten a revision of which it can no longer be reminded.
func relearningKey(name string) string { return name + "/relearning" }

// remind reminds a child of what it has forgotten. Reminders may have no effect as long as the child's controller does
// not see its revisions, so each one counts as a failure, and the next one comes later.
func (e *executor) remind(ctx context.Context, s *planner.SubsetPlan) *planner.Result {
	current := e.currentChild(s)
	attempt := undone.AttemptOn(e.in.Parent, current)
	if pending := e.failures().Pending(reminderKey(s.Name), attempt, e.in.Now); pending != nil {
		return &planner.Result{Failure: pending}
	}
	o := &planner.Result{}
	current, _, err := e.Writer.Remind(ctx, s.Step.Hash, e.in.Children[s.Name].Observed.Meta.Annotations, current)
	if err == nil {
		err = e.setChild(o, s.Name, current)
	}
	switch {
	case errors.Is(err, subset.ErrRevisionGone) && s.Step.Instead != nil:
		return e.relearn(ctx, s, err)
	case errors.Is(err, subset.ErrStale):
		markStale(o, err)
	case err != nil:
		o.Failure = e.failures().Failed(reminderKey(s.Name), attempt, err, e.in.Now)
		ctrl.LoggerFrom(ctx).Info("could not restore the revision of the protected replicas", "subset", s.Name, "error", err.Error(), "retryAt", o.Failure.RetryAt)
	default:
		again := e.failures().Failed(reminderKey(s.Name), attempt, fmt.Errorf("%s %w", s.Workload, subset.ErrForgets), e.in.Now)
		ctrl.LoggerFrom(ctx).Info("reminded", "subset", s.Name, "of", s.Step.Hash, "notAgainBefore", again.RetryAt)
	}
	return o
}

// relearn returns a child to the template of what it has forgotten, because the revision for the reminder is gone. If
// somebody deletes that each time, each relearning comes later; otherwise the child would alternate between both
// templates.
func (e *executor) relearn(ctx context.Context, s *planner.SubsetPlan, gone error) *planner.Result {
	current := e.currentChild(s)
	// Its generation is not useful: it increases with each template.
	key, attempt := relearningKey(s.Name), undone.Attempt{UID: e.in.Parent.UID, ChildUID: current.GetUID()}
	e.failures().Expire(key, e.in.Now)
	if pending := e.failures().Pending(key, attempt, e.in.Now); pending != nil {
		return &planner.Result{Failure: pending}
	}
	o := e.apply(ctx, s, *s.Step.Instead, "")
	if o.Child != nil {
		e.failures().Failed(key, attempt, gone, e.in.Now)
	}
	return o
}
