// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/execute"
	"github.com/unitedworkloads/united/controllers/united/fairness"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// hands are the hands of the manager for one pass over a parent. What they do is in the API server.
type hands struct {
	*execute.Executor
	of     *Reconciler
	parent *v1alpha1.UnitedDeployment
	turn   *fairness.Pass
}

var _ pass.Hands = &hands{}

func (r *Reconciler) hands(ctx context.Context, in *planner.Input, turn *fairness.Pass) *hands {
	return &hands{&execute.Executor{
		Context: ctx, Client: r.Client, Live: r.Live, Clock: r.Clock, Writer: r.writer(in.Parent, in.Spec.Adapter), Memory: r.entry(in.Parent),
		ReadChild: r.observer(in.Parent, in.Spec.Adapter).ReadChild,
	}, r, in.Parent, turn}
}

// Ask has the checks observed.
func (h *hands) Ask(asks []known.CheckAsk) {
	if h.of.Checks != nil {
		h.of.Checks.Ask(client.ObjectKeyFromObject(h.parent), asks)
	}
}

// MayContinue reports whether the turn of the parent is not over.
func (h *hands) MayContinue() bool { return h.turn.MayContinue(h.Context, h.parent) }

// Publish writes the status.
func (h *hands) Publish(p *pass.Pass) (time.Duration, error) {
	publisher := h.of.publisher(h.parent)
	again, err := publisher.Publish(h.Context, h.parent, p.Status, p.Describe, p.Plan, p.Results)
	return pass.Sooner(again, publisher.ConfirmAfter()), err
}

// Tidy removes runs and revisions.
func (h *hands) Tidy(p *pass.Pass) error {
	return errors.Join(h.TidyRuns(p.In, p.Plan), h.Truncate(p.In, p.Results, p.Status))
}
