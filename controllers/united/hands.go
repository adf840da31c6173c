// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/controllers/united/execute"
	"github.com/unitedworkloads/united/controllers/united/fairness"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// hands are the hands of the manager for one pass over the parent of in. What they do is in the API server.
type hands struct {
	*Reconciler
	ctx      context.Context
	in       *planner.Input
	executor *execute.Executor
	turn     *fairness.Pass
}

var _ pass.Hands = &hands{}

func (r *Reconciler) hands(ctx context.Context, in *planner.Input, turn *fairness.Pass) *hands {
	return &hands{r, ctx, in, &execute.Executor{
		Client: r.Client, Live: r.Live, Clock: r.Clock, Writer: r.writer(in.Parent, in.Spec.Adapter), Memory: r.entry(in.Parent),
		ReadChild: r.observer(in.Parent, in.Spec.Adapter).ReadChild,
	}, turn}
}

func (h *hands) Try(in *planner.Input, keep func() error) *planner.Result {
	return h.executor.Try(h.ctx, in, keep)
}

func (h *hands) Store(in *planner.Input, kept []*revision.Revision) (*revision.Revision, error) {
	return h.executor.Store(h.ctx, in, kept)
}

func (h *hands) Keep(in *planner.Input, r *revision.Revision, change revision.Change) (*revision.Revision, error) {
	return h.executor.Keep(h.ctx, in, r, change)
}

func (h *hands) Ask(asks []known.CheckAsk) {
	if h.Checks != nil {
		h.Checks.Ask(client.ObjectKeyFromObject(h.in.Parent), asks)
	}
}

func (h *hands) MayContinue() bool { return h.turn.MayContinue(h.ctx, h.in.Parent) }

func (h *hands) Write(in *planner.Input, w *planner.Write) *planner.Result {
	return h.executor.Write(h.ctx, in, w)
}

func (h *hands) Start(in *planner.Input, asks []known.CheckAsk) time.Duration {
	return h.executor.StartRuns(h.ctx, in, asks)
}

func (h *hands) Record(r *revision.Revision, change revision.Change) error {
	return h.executor.Record(h.ctx, r, change)
}

func (h *hands) Publish(p *pass.Pass) (time.Duration, error) {
	publisher := h.publisher(h.in.Parent)
	again, err := publisher.Publish(h.ctx, h.in.Parent, p.Status, p.Describe, p.Plan, p.Results)
	return pass.Sooner(again, publisher.ConfirmAfter()), err
}

func (h *hands) Tidy(p *pass.Pass) error {
	return errors.Join(h.executor.TidyRuns(h.ctx, p.In, p.Plan), h.executor.Truncate(h.ctx, p.In, p.Results, p.Status))
}
