// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/writer"
)

// tell writes the status if it changed, and when that is done the events and
// the metrics. Nothing else writes any of the three. The error is writer.ErrStale
// when the parent is gone, or its status is not what it was when it was read, and a
// *writer.OverriddenError when the write is put off.
func (r *Reconciler) tell(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, done *carried) error {
	if err := r.tellStatus(ctx, parent, status); err != nil {
		return err
	}
	for _, e := range eventsOf(&parent.Status, status, done) {
		r.Recorder.Eventf(parent, r.related(parent, e.workload), e.kind, e.reason, e.action, "%s", truncated(e.note, maxNote))
	}
	r.Metrics.Observe(parent, status)
	return nil
}

// maxNote is how long the API server lets the note of an event be.
const maxNote = 1024

// maxSubsetMessage bounds what is told of one subset, and of the rollout. The API
// server can refuse a child with hundreds of errors, and a request for the status
// holds a hundred subsets twice: as they were, and as they are.
const maxSubsetMessage = 1024

func truncated(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}

// tellBlocked tells of a parent for which nothing can be done, and when it is
// tried again.
func (r *Reconciler) tellBlocked(ctx context.Context, parent *v1alpha1.UnitedDeployment, failure *subset.Failure) (ctrl.Result, error) {
	now := r.Clock.Now()
	if err := r.tell(ctx, parent, blockedStatus(parent, failure, now), nil); err != nil {
		return r.again(err)
	}
	if failure.RetryAt.IsZero() {
		return ctrl.Result{RequeueAfter: r.sureBy(parent, 0)}, nil // only a change of the spec helps, and that is watched
	}
	return ctrl.Result{RequeueAfter: r.sureBy(parent, max(failure.RetryAt.Sub(now), time.Millisecond))}, nil
}

// again is when to try again after an error. The watch that tells what has moved on
// usually is sooner; but a conflict can be answered where nothing did, and then no
// watch tells.
func (r *Reconciler) again(err error) (ctrl.Result, error) {
	putOff := (*writer.OverriddenError)(nil)
	switch {
	case errors.As(err, &putOff):
		return ctrl.Result{RequeueAfter: max(putOff.Until.Sub(r.Clock.Now()), time.Millisecond)}, nil
	case errors.Is(err, writer.ErrStale):
		return ctrl.Result{RequeueAfter: retryStale}, nil
	}
	return ctrl.Result{}, err
}

// event is one thing to tell once.
type event struct {
	kind, reason, action, note string
	// workload names the child it is about; "" when it is about the whole.
	workload string
}

// related points at the child an event is about. Trap: the recorder folds events
// that differ in nothing but their note into the first of them, and the note is
// all that would differ between two subsets.
func (r *Reconciler) related(parent *v1alpha1.UnitedDeployment, workload string) runtime.Object {
	adapter, err := r.Adapters.For(&parent.Spec.Template)
	if workload == "" || err != nil {
		return nil
	}
	version, kind := adapter.GroupVersionKind().ToAPIVersionAndKind()
	return &corev1.ObjectReference{APIVersion: version, Kind: kind, Namespace: parent.Namespace, Name: workload}
}

// Reasons of events that are not reasons of a condition.
const (
	eventRolloutStarted  = "RolloutStarted"
	eventRolloutFinished = "RolloutFinished"
	eventPartition       = "PartitionChanged"
	eventSubsetRemoved   = "SubsetRemoved"
	eventStuckDeleted    = "StuckReplicaDeleted"
	eventReplicaDeleted  = "ReplicaDeleted"
	eventStepReached     = "StepReached"
	eventStepPassed      = "StepPassed"
	eventForced          = "RolloutForced"
	eventLost            = "ProtectionLost"
	eventRestored        = "ProtectionRestored"
)

// eventsOf gives one event for each transition from one status to the next, and
// for what the pass deleted.
func eventsOf(before, after *v1alpha1.UnitedDeploymentStatus, done *carried) []event {
	list := revisionEvents(before, after)
	for i := range after.Subsets {
		s := &after.Subsets[i]
		if old := subsetStatus(before, s.Name); old != nil && old.Partition != s.Partition {
			note := fmt.Sprintf("%s: partition %d -> %d of %d replicas", s.Name, old.Partition, s.Partition, s.DesiredReplicas)
			if o := done.of(s.Name); o != nil && o.why != "" {
				note += ": " + o.why
			}
			list = append(list, event{corev1.EventTypeNormal, eventPartition, "Rollout", note, s.Workload})
		}
		list = append(list, memoryEvents(subsetStatus(before, s.Name), s)...)
		list = append(list, noteEvents(subsetStatus(before, s.Name), s, done.of(s.Name))...)
	}
	list = append(list, rolloutEvents(before.Rollout, after.Rollout, after.UpdateRevision == after.CurrentRevision, after.PausedTime != nil)...)
	if done != nil {
		list = append(list, deletionEvents(before, after, done)...)
	}
	return append(list, conditionEvents(before, after)...)
}

// noteEvents tells once what is noted of a child.
func noteEvents(before, after *v1alpha1.SubsetStatus, o *outcome) []event {
	if o == nil || o.note == "" || before != nil && strings.Contains(before.Message, o.note) {
		return nil
	}
	return []event{{corev1.EventTypeWarning, v1alpha1.ReasonOverridden, "Apply", after.Name + ": " + o.note, after.Workload}}
}

// memoryEvents tells when a child has forgotten what its protected replicas run, and
// when it remembers it again and they run it.
func memoryEvents(before, after *v1alpha1.SubsetStatus) []event {
	was := before != nil && before.Phase == v1alpha1.PhaseRestoring
	is := after.Phase == v1alpha1.PhaseRestoring
	switch {
	case is && !was:
		return []event{{corev1.EventTypeWarning, eventLost, "Restore", after.Name + ": " + after.Message, after.Workload}}
	case was && !is && after.Phase != v1alpha1.PhaseStalled:
		return []event{{corev1.EventTypeNormal, eventRestored, "Restore",
			fmt.Sprintf("%s: protected replicas run %s, and come back on it", after.Name, after.CurrentRevision), after.Workload}}
	}
	return nil
}

func revisionEvents(before, after *v1alpha1.UnitedDeploymentStatus) []event {
	var list []event
	if before.UpdateRevision != "" && after.UpdateRevision != before.UpdateRevision {
		note := fmt.Sprintf("the update revision is %s, the current one %s", after.UpdateRevision, after.CurrentRevision)
		switch {
		case !meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionInitialized):
			note = fmt.Sprintf("%s takes the place of %s, of which no replica was ever ready", after.UpdateRevision, before.UpdateRevision)
		case after.UpdateRevision == after.CurrentRevision:
			note = fmt.Sprintf("goes back to %s, the current revision", after.UpdateRevision)
		}
		list = append(list, event{corev1.EventTypeNormal, eventRolloutStarted, "Rollout", note, ""})
	}
	if before.CurrentRevision != "" && after.CurrentRevision != before.CurrentRevision && meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionInitialized) {
		list = append(list, event{corev1.EventTypeNormal, eventRolloutFinished, "Rollout",
			fmt.Sprintf("all replicas run %s and are ready", after.CurrentRevision), ""})
	}
	return list
}

// rolloutEvents tells of the steps of a coordinated rollout, and of force. back: it
// goes back to, or already is, what all replicas run, so the steps are passed by.
func rolloutEvents(before, after *v1alpha1.RolloutStatus, back, paused bool) []event {
	if after == nil {
		return nil
	}
	same := before != nil && before.Revision == after.Revision
	var list []event
	if after.Forced && (!same || !before.Forced) {
		list = append(list, event{corev1.EventTypeWarning, eventForced, "Rollout",
			"the rollout to " + after.Revision + " goes on whatever the health of the replicas", ""})
	}
	phase := meaningOf(after, paused)
	if phase.stepReached && after.ReachedTime != nil && (!same || before.Step != after.Step || before.Phase != after.Phase) {
		list = append(list, event{corev1.EventTypeNormal, eventStepReached, "Rollout", after.Message, ""})
	}
	if same && !back && after.Step > before.Step && !phase.done {
		list = append(list, event{corev1.EventTypeNormal, eventStepPassed, "Rollout", after.Message, ""})
	}
	return list
}

func deletionEvents(before, after *v1alpha1.UnitedDeploymentStatus, done *carried) []event {
	var list []event
	for _, name := range done.removed {
		workload := ""
		if s := subsetStatus(before, name); s != nil {
			workload = s.Workload
		}
		list = append(list, event{corev1.EventTypeNormal, eventSubsetRemoved, "Remove",
			name + ": the child was deleted, since the subset is gone", workload})
	}
	for i := range after.Subsets {
		s := &after.Subsets[i]
		if o := done.subsets[s.Name]; o != nil && len(o.freed) > 0 {
			reason := eventStuckDeleted
			if after.Rollout != nil {
				reason = eventReplicaDeleted
			}
			list = append(list, event{corev1.EventTypeNormal, reason, "Rollout",
				fmt.Sprintf("%s: deleted %s: broken, or released and not on %s", s.Name, strings.Join(o.freed, ", "), after.UpdateRevision), s.Workload})
		}
		if o := done.subsets[s.Name]; o != nil && len(o.undone) > 0 {
			list = append(list, event{corev1.EventTypeNormal, eventReplicaDeleted, "Restore",
				fmt.Sprintf("%s: deleted %s: never released, and to come back on %s", s.Name, strings.Join(o.undone, ", "), s.CurrentRevision), s.Workload})
		}
	}
	return list
}

// conditionEvents tells when a condition goes to another state, and when a stall
// changes its cause. Progressing follows from Ready and is left out.
func conditionEvents(before, after *v1alpha1.UnitedDeploymentStatus) []event {
	var list []event
	for _, c := range after.Conditions {
		old := meta.FindStatusCondition(before.Conditions, c.Type)
		turned := old == nil || old.Status != c.Status
		bad := (c.Type == v1alpha1.ConditionStalled) == (c.Status == metav1.ConditionTrue)
		switch c.Type {
		case v1alpha1.ConditionStalled:
			if c.Status == metav1.ConditionTrue && (turned || old.Reason != c.Reason) {
				list = append(list, event{corev1.EventTypeWarning, c.Reason, "Reconcile", c.Message, ""})
			}
		case v1alpha1.ConditionReady, v1alpha1.ConditionInitialized:
			if turned && !bad {
				list = append(list, event{corev1.EventTypeNormal, c.Reason, "Reconcile", cmp.Or(c.Message, c.Type), ""})
			}
		case v1alpha1.ConditionReplicasHonored:
			if bad && turned {
				list = append(list, event{corev1.EventTypeWarning, c.Reason, "Allocate", c.Message, ""})
			}
		}
	}
	return list
}
