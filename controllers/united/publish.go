// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// publish writes the status if it changed, and then the events and the metrics. Nothing else writes any of these three.
// A status that can be delayed, and has no events, waits for the next one, and so does one that alternates between the
// same values: publish returns for how long. The error is writer.ErrStale if the parent is gone, or its status has
// changed since it was read, and a *writer.OverriddenError if the write is delayed. p is nil if there is no plan.
func (r *Reconciler) publish(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, p *planner.Plan, results planner.Results) (wait time.Duration, err error) {
	changed := !publish.SameStatus(&parent.Status, status)
	if changed {
		wait = r.pendingStatuses.delay(parent, status, r.StatusBatching, r.Clock.Now())
	}
	if wait > 0 && len(report.Events(&parent.Status, status, p, results)) == 0 {
		r.Metrics.Observe(parent, status)
		return wait, nil
	}
	if changed {
		wait, err = r.statusReturns.delay(parent, status, r.StatusBatching, r.Clock.Now())
		if err != nil {
			return 0, err
		}
		if wait > 0 {
			r.recordEvents(parent, &parent.Status, p, results) // what was done has events nevertheless
			r.Metrics.Observe(parent, status)
			return wait, nil
		}
	}
	if err := r.publishStatus(ctx, parent, status); err != nil {
		return 0, err
	}
	r.pendingStatuses.recordUpToDate(client.ObjectKeyFromObject(parent), changed, r.Clock.Now())
	if changed {
		err = r.statusReturns.recordWritten(parent, status, r.StatusBatching, r.Clock.Now())
	}
	r.recordEvents(parent, status, p, results)
	r.Metrics.Observe(parent, status)
	return 0, err
}

// recordEvents records the events of a pass; status is the status after it.
func (r *Reconciler) recordEvents(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, p *planner.Plan, results planner.Results) {
	for _, e := range report.Events(&parent.Status, status, p, results) {
		r.Recorder.Eventf(parent, r.childReference(parent, e.Workload), e.Type, e.Reason, e.Action, "%s", e.Note)
	}
}

// publishBlocked publishes why nothing can be done for a parent, and returns when to try again.
func (r *Reconciler) publishBlocked(ctx context.Context, parent *v1alpha1.UnitedDeployment, failure *subset.Failure) (ctrl.Result, error) {
	now := r.Clock.Now()
	wait, err := r.publish(ctx, parent, report.Blocked(parent, failure, now), nil, nil)
	if err != nil {
		return r.requeueAfter(err)
	}
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if failure.RetryAt.IsZero() {
		return ctrl.Result{RequeueAfter: r.requeueToConfirm(parent, 0)}, nil // only a change of the spec helps, and that is watched
	}
	return ctrl.Result{RequeueAfter: r.requeueToConfirm(parent, max(failure.RetryAt.Sub(now), time.Millisecond))}, nil
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

// childReference returns a reference to the child of an event. Trap: the recorder merges events that differ only in
// their notes into the first of them, and the note would be the only difference between two subsets.
func (r *Reconciler) childReference(parent *v1alpha1.UnitedDeployment, workload string) runtime.Object {
	adapter, err := r.Adapters.For(&parent.Spec.Template)
	if workload == "" || err != nil {
		return nil
	}
	version, kind := adapter.GroupVersionKind().ToAPIVersionAndKind()
	return &corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: parent.Namespace, Name: workload}
}
