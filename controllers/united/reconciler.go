// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package united reconciles UnitedDeployments: it wires what observes a parent to a pass over it (package pass), and gives that the
// hands that write. All decisions are made in package planner, and in the pure packages that it calls.
package united

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/writer"
	"github.com/unitedworkloads/united/controllers/united/execute"
	"github.com/unitedworkloads/united/controllers/united/fairness"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/observe"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// Reconciler reconciles UnitedDeployments.
type Reconciler struct {
	// Client reads from the cache, and always sees its own writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Related reads from the caches of the objects that are related to children of a kind that delegates
	// (adapters.Delegating).
	Related map[schema.GroupVersionKind]client.Reader
	// Adapters are for the supported kinds of children.
	Adapters adapters.Registry
	// Checks observes what the checks of rollouts are about; nil observes nothing.
	Checks   Checks
	Recorder events.EventRecorder
	Metrics  *publish.Metrics
	Clock    clock.PassiveClock
	// Shares and Meter prevent one parent from using the time of all. Without them there are no limits.
	Shares *fairness.Shares
	Meter  fairness.Meter
	// StatusBatching is how long a status waits for the next one.
	StatusBatching publish.Batching

	kinds  *kinds
	memory memory.Memory
}

// Checks observes the checks of rollouts (package checks). It never waits.
type Checks interface {
	// Ask observes what is asked of a parent from now on, and nothing else of it.
	Ask(parent types.NamespacedName, asks []known.CheckAsk)
	// Results returns what was last seen of it, by the name of the check.
	Results(parent types.NamespacedName) map[string]known.CheckResult
	// Forget ends the observation.
	Forget(parent types.NamespacedName)
}

// Reconcile runs a pass over one UnitedDeployment if it may have one now.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	parent := &v1alpha1.UnitedDeployment{}
	// It is shared with the cache: nothing modifies it.
	if err := r.Client.Get(ctx, req.NamespacedName, parent, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.reportReadable(ctx, req.NamespacedName)
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if parent.DeletionTimestamp != nil {
		// The garbage collector deletes or orphans the children, as the user requested.
		r.Shares.Forget(req.NamespacedName)
		r.forgetChecks(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if why := unreadableParent(parent); why != "" {
		r.Shares.Forget(req.NamespacedName) // no other parent should wait behind it
		return r.reportUnreadable(ctx, parent, why)
	}
	r.reportReadable(ctx, req.NamespacedName)
	passes := &fairness.Passes{Shares: r.Shares, Meter: r.Meter, Client: r.Client, Clock: r.Clock}
	turn, wait := passes.Start(req.NamespacedName)
	if turn == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	defer turn.End()
	r.gathering().begin(req.NamespacedName)
	return r.pass(ctx, parent, turn)
}

// pass is one pass over a UnitedDeployment: observe, decide, carry, finish.
func (r *Reconciler) pass(ctx context.Context, parent *v1alpha1.UnitedDeployment, turn *fairness.Pass) (ctrl.Result, error) {
	spec, err := observe.Spec(r.entry(parent), parent, r.Adapters)
	if err != nil {
		return r.publishBlocked(ctx, parent, &subset.Failure{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), Stalled: true})
	}
	switch unusable, err := r.kinds.ensure(ctx, spec.Adapter, r.Clock.Now()); {
	case err != nil:
		return r.publishUnread(ctx, parent, err)
	case unusable != nil:
		return r.publishBlocked(ctx, parent, unusable)
	}
	in, err := r.observe(ctx, parent, spec)
	if err != nil {
		return r.publishUnread(ctx, parent, err)
	}
	hands := r.hands(ctx, in, turn)
	p, kept := pass.Decide(in, hands)
	switch {
	case kept.Stale:
		return r.requeueAfter(subset.ErrStale)
	case p == nil:
		return r.publishBlocked(ctx, parent, kept.Failure)
	}
	p.Carry(hands)
	r.gathering().end(client.ObjectKeyFromObject(parent), !p.Plan.Waits(p.Results), p.Plan.Unreached(p.Results))
	if turn.ParentIsGone() {
		return ctrl.Result{}, nil // there is no object with a status
	}
	again, err := p.Finish(hands)
	result, err := r.requeueAfter(err)
	return ctrl.Result{RequeueAfter: pass.Sooner(again, result.RequeueAfter)}, err
}

// WroteQuietly reports whether a version of a parent is one that this process wrote, and that changed only parts of the
// status by which no pass decides.
func (r *Reconciler) WroteQuietly(parent client.ObjectKey, resourceVersion string) bool {
	return publish.Quiet(r.memory.Of(parent), resourceVersion)
}

// Gathers reports whether, according to the last pass over a parent, nothing waits for an event of a replica or a child, so
// that such events may start one pass together.
func (r *Reconciler) Gathers(parent client.ObjectKey) bool {
	return r.gathering().lastPass(parent).Get().idle
}

func (r *Reconciler) gathering() *gathering { return &gathering{clock: r.Clock, memory: &r.memory} }

// entry is what is remembered of a parent.
func (r *Reconciler) entry(parent *v1alpha1.UnitedDeployment) memory.Entry {
	return r.memory.Of(client.ObjectKeyFromObject(parent))
}

// forget removes the state of a parent that is gone.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.Metrics.Forget(key)
	r.memory.Forget(key)
	r.Shares.Forget(key)
	r.forgetChecks(key)
}

// observe reads the world of a parent, and completes it to the input of a plan.
func (r *Reconciler) observe(ctx context.Context, parent *v1alpha1.UnitedDeployment, s *spec.Spec) (*planner.Input, error) {
	seen, err := r.observer(parent, s.Adapter).Observe(ctx, parent, s, r.Clock.Now())
	if err != nil {
		return nil, err
	}
	undone.FailuresOf(r.entry(parent)).Succeeded(readFailures)
	seen.Unreached = r.gathering().lastPass(client.ObjectKeyFromObject(parent)).Get().unreached
	if r.Checks != nil {
		seen.Checks = r.Checks.Results(client.ObjectKeyFromObject(parent)) // after the replicas: not older than what the step is reached by
		execute.ExplainAbsent(undone.FailuresOf(r.entry(parent)), parent, seen.Checks)
	}
	return planner.NewInput(seen)
}

func (r *Reconciler) forgetChecks(parent types.NamespacedName) {
	if r.Checks != nil {
		r.Checks.Forget(parent)
	}
}

func (r *Reconciler) observer(parent *v1alpha1.UnitedDeployment, adapter adapters.Adapter) *observe.Observer {
	return &observe.Observer{
		Client: r.Client, Live: r.Live, Related: r.Related, Writes: r.writer(parent, adapter), Memory: r.entry(parent),
	}
}

// publisher returns what publishes the result of a pass over a parent.
func (r *Reconciler) publisher(parent *v1alpha1.UnitedDeployment) *publish.Publisher {
	return &publish.Publisher{
		Client: r.Client, Live: r.Live, Adapters: r.Adapters, Recorder: r.Recorder, Metrics: r.Metrics, Clock: r.Clock,
		Batching: r.StatusBatching, Memory: r.entry(parent),
	}
}

func (r *Reconciler) writer(parent *v1alpha1.UnitedDeployment, adapter adapters.Adapter) *writer.Writer {
	return &writer.Writer{Adapter: adapter, Client: r.Client, Live: r.Live, Now: r.Clock.Now, Memory: r.entry(parent)}
}

// readFailures is the key of failures to read in the failures by subset; no subset has such a name.
const readFailures = "(read)"

// publishUnread publishes that what belongs to a parent could not be read, and returns when to try again. The first time,
// nothing is said, because a single request may always fail.
func (r *Reconciler) publishUnread(ctx context.Context, parent *v1alpha1.UnitedDeployment, err error) (ctrl.Result, error) {
	if errors.Is(err, subset.ErrStale) || ctx.Err() != nil {
		return r.requeueAfter(err)
	}
	failures, attempt, now := undone.FailuresOf(r.entry(parent)), undone.AttemptOn(parent, nil), r.Clock.Now()
	failure := failures.Pending(readFailures, attempt, now)
	if failure == nil {
		failure = failures.Failed(readFailures, attempt, err, now)
		ctrl.LoggerFrom(ctx).Info("could not read", "error", err.Error(), "retryAt", failure.RetryAt)
	}
	if !failure.Repeated {
		return ctrl.Result{RequeueAfter: max(failure.RetryAt.Sub(now), time.Millisecond)}, nil
	}
	failure.Reason = v1alpha1.ReasonReadFailed
	return r.publishBlocked(ctx, parent, failure)
}

// publishBlocked publishes why nothing can be done for a parent, and returns when to try again.
func (r *Reconciler) publishBlocked(ctx context.Context, parent *v1alpha1.UnitedDeployment, failure *subset.Failure) (ctrl.Result, error) {
	now := r.Clock.Now()
	describe := func(overridden *undone.OverriddenError) *v1alpha1.UnitedDeploymentStatus {
		return report.Blocked(parent, failure, overridden, now)
	}
	wait, err := r.publisher(parent).Publish(ctx, parent, describe(nil), describe, nil, nil)
	if err != nil {
		return r.requeueAfter(err)
	}
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if failure.RetryAt.IsZero() {
		return ctrl.Result{RequeueAfter: r.publisher(parent).ConfirmAfter()}, nil // only a change of the spec helps, and that is watched
	}
	return ctrl.Result{RequeueAfter: pass.Sooner(max(failure.RetryAt.Sub(now), time.Millisecond), r.publisher(parent).ConfirmAfter())}, nil
}

// requeueAfter returns when to try again after an error. Normally a watch reports the change earlier. But the API
// server can report a conflict although nothing has changed, and then no watch does.
func (r *Reconciler) requeueAfter(err error) (ctrl.Result, error) {
	putOff := (*undone.OverriddenError)(nil)
	switch {
	case errors.As(err, &putOff):
		return ctrl.Result{RequeueAfter: max(putOff.Until.Sub(r.Clock.Now()), time.Millisecond)}, nil
	case errors.Is(err, subset.ErrStale):
		return ctrl.Result{RequeueAfter: planner.RetryStale}, nil
	}
	return ctrl.Result{}, err
}
