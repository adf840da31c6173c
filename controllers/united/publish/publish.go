// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish writes the status: whether, when and how; and after it the events and the metrics. Nothing else writes
// any of these three.
package publish

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// Publisher publishes what a pass over a parent says: the status, the events and the metrics.
type Publisher struct {
	Client client.Client
	// Live reads past the cache.
	Live     client.Reader
	Adapters adapters.Registry
	Recorder events.EventRecorder
	Metrics  *Metrics
	Clock    clock.PassiveClock
	Batching Batching
	// Memory is what is remembered of the parent.
	Memory memory.Entry
}

// Describe returns the status with why it is overridden itself.
type Describe func(*undone.OverriddenError) *v1alpha1.UnitedDeploymentStatus

// Publish writes the status if it changed, and then the events and the metrics. Nothing else writes any of these three.
// A status that can be delayed, and has no events, waits for the next one, and so does one that alternates between the
// same values: Publish returns for how long. The error is subset.ErrStale if the parent is gone, or its status has
// changed since it was read, and a *undone.OverriddenError if the write is delayed. p is nil if there is no plan.
func (w *Publisher) Publish(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, describe Describe, p *planner.Plan, results planner.Results) (wait time.Duration, err error) {
	unbounded := describe
	describe = func(e *undone.OverriddenError) *v1alpha1.UnitedDeploymentStatus { return report.Bounded(unbounded(e)) }
	status = report.Bounded(status)
	change, kept := Compare(&parent.Status, status), publishedOf(w.Memory)
	events := len(report.Events(&parent.Status, status, p, results)) > 0
	if wait, err = kept.delay(status, change, events, w.Batching, w.Clock.Now()); err != nil {
		return 0, err
	}
	if wait > 0 {
		w.recordEvents(parent, &parent.Status, p, results) // what was done has events nevertheless
		w.Metrics.Observe(parent, status)
		return wait, nil
	}
	if status, err = w.publishStatus(ctx, parent, status, describe); err != nil {
		return 0, err
	}
	err = kept.recordUpToDate(status, change, w.Batching, w.Clock.Now())
	w.recordEvents(parent, status, p, results)
	w.Metrics.Observe(parent, status)
	return 0, err
}

// recordEvents records the events of a pass; status is the status after it.
func (w *Publisher) recordEvents(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, p *planner.Plan, results planner.Results) {
	for _, e := range report.Events(&parent.Status, status, p, results) {
		w.Recorder.Eventf(parent, w.childReference(parent, e.Workload), e.Type, e.Reason, e.Action, "%s", e.Note)
	}
}

// childReference returns a reference to the child of an event. Trap: the recorder merges events that differ only in
// their notes into the first of them, and the note would be the only difference between two subsets.
func (w *Publisher) childReference(parent *v1alpha1.UnitedDeployment, workload string) runtime.Object {
	adapter, err := w.Adapters.For(&parent.Spec.Template)
	if workload == "" || err != nil {
		return nil
	}
	version, kind := adapter.GroupVersionKind().ToAPIVersionAndKind()
	return &corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: parent.Namespace, Name: workload}
}
