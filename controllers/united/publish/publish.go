// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// Publisher publishes what a pass says: the status, the events and the metrics.
type Publisher struct {
	Client client.Client
	// Live reads past the cache.
	Live     client.Reader
	Adapters adapters.Registry
	Recorder events.EventRecorder
	Metrics  *Metrics
	Clock    clock.PassiveClock
	Batching Batching
	Repeats  *undone.Repeats
	Memory   *Memory
}

// Memory is what a Publisher remembers of earlier statuses. If it is lost, that costs only additional writes.
type Memory struct {
	pending pendingStatuses
	returns statusReturns
}

// Forget forgets a parent.
func (m *Memory) Forget(parent types.NamespacedName) {
	m.pending.Forget(parent)
	m.returns.Forget(parent)
}

// Publish writes the status if it changed, and then the events and the metrics. Nothing else writes any of these three.
// A status that can be delayed, and has no events, waits for the next one, and so does one that alternates between the
// same values: Publish returns for how long. The error is subset.ErrStale if the parent is gone, or its status has
// changed since it was read, and a *undone.OverriddenError if the write is delayed. p is nil if there is no plan.
func (w *Publisher) Publish(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, p *planner.Plan, results planner.Results) (wait time.Duration, err error) {
	changed := !SameStatus(&parent.Status, status)
	if changed {
		wait = w.Memory.pending.delay(parent, status, w.Batching, w.Clock.Now())
	}
	if wait > 0 && len(report.Events(&parent.Status, status, p, results)) == 0 {
		w.Metrics.Observe(parent, status)
		return wait, nil
	}
	if changed {
		wait, err = w.Memory.returns.delay(parent, status, w.Batching, w.Clock.Now())
		if err != nil {
			return 0, err
		}
		if wait > 0 {
			w.recordEvents(parent, &parent.Status, p, results) // what was done has events nevertheless
			w.Metrics.Observe(parent, status)
			return wait, nil
		}
	}
	if err := w.publishStatus(ctx, parent, status); err != nil {
		return 0, err
	}
	w.Memory.pending.recordUpToDate(client.ObjectKeyFromObject(parent), changed, w.Clock.Now())
	if changed {
		err = w.Memory.returns.recordWritten(parent, status, w.Batching, w.Clock.Now())
	}
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
