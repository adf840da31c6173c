// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
)

// tell writes the status if it changed, and when that is done the events and
// the metrics. Nothing else writes any of the three.
func (r *Reconciler) tell(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, done *carried) error {
	if !equality.Semantic.DeepEqual(&parent.Status, status) {
		if err := r.writeStatus(ctx, parent, status); err != nil {
			return err
		}
	}
	for _, e := range eventsOf(&parent.Status, status, done) {
		r.Recorder.Eventf(parent, nil, e.kind, e.reason, e.action, "%s", truncated(e.note, maxNote))
	}
	r.Metrics.Observe(parent, status)
	return nil
}

// maxNote is how long the API server lets the note of an event be.
const maxNote = 1024

func truncated(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const ellipsis = "..."
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}

// writeStatus patches what differs. The UID fences it: the name may have been
// given to another object since. It is not fenced by resourceVersion: what the
// users do to the spec in the meantime does not make it wrong, since it names
// the generation it speaks of.
func (r *Reconciler) writeStatus(ctx context.Context, parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) error {
	type body struct {
		Status *v1alpha1.UnitedDeploymentStatus `json:"status"`
	}
	before, err := json.Marshal(body{&parent.Status})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if parent.Status.ObservedGeneration <= 0 {
		// The first status. The object has no zero counts yet, and compared with
		// the Go zero value they would be left out.
		before = []byte(`{"status":{}}`)
	}
	after, err := json.Marshal(body{status})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	raw, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	var patch map[string]any
	if err := json.Unmarshal(raw, &patch); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	patch["metadata"] = map[string]any{"uid": parent.UID}
	if raw, err = json.Marshal(patch); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	err = r.Client.Status().Patch(ctx, parent.DeepCopy(), client.RawPatch(types.MergePatchType, raw), client.FieldOwner(v1alpha1.FieldManager))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // deleted, or re-created: the watch tells
	}
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// tellBlocked tells of a parent for which nothing can be done, and when it is
// tried again.
func (r *Reconciler) tellBlocked(ctx context.Context, parent *v1alpha1.UnitedDeployment, failure *subset.Failure) (ctrl.Result, error) {
	now := r.Clock.Now()
	if err := r.tell(ctx, parent, blockedStatus(parent, failure, now), nil); err != nil {
		return ctrl.Result{}, err
	}
	if failure.RetryAt.IsZero() {
		return ctrl.Result{}, nil // only a change of the spec helps, and that is watched
	}
	return ctrl.Result{RequeueAfter: max(failure.RetryAt.Sub(now), time.Millisecond)}, nil
}

// event is one thing to tell once.
type event struct {
	kind, reason, action, note string
}

// Reasons of events that are not reasons of a condition.
const (
	eventRolloutStarted  = "RolloutStarted"
	eventRolloutFinished = "RolloutFinished"
	eventPartition       = "PartitionChanged"
	eventSubsetRemoved   = "SubsetRemoved"
	eventReplicaDeleted  = "StuckReplicaDeleted"
)

// eventsOf gives one event for each transition from one status to the next, and
// for what the pass deleted.
func eventsOf(before, after *v1alpha1.UnitedDeploymentStatus, done *carried) []event {
	var list []event
	normal := func(reason, action, format string, args ...any) {
		list = append(list, event{corev1.EventTypeNormal, reason, action, fmt.Sprintf(format, args...)})
	}
	if before.UpdateRevision != "" && after.UpdateRevision != before.UpdateRevision {
		normal(eventRolloutStarted, "Rollout", "the update revision is %s, the current one %s", after.UpdateRevision, after.CurrentRevision)
	}
	for _, s := range after.Subsets {
		if old := subsetStatus(before, s.Name); old != nil && old.Partition != s.Partition {
			normal(eventPartition, "Rollout", "%s: partition %d -> %d of %d replicas", s.Name, old.Partition, s.Partition, s.DesiredReplicas)
		}
	}
	if before.CurrentRevision != "" && after.CurrentRevision != before.CurrentRevision && meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionInitialized) {
		normal(eventRolloutFinished, "Rollout", "all replicas run %s and are ready", after.CurrentRevision)
	}
	if done != nil {
		for _, name := range done.removed {
			normal(eventSubsetRemoved, "Remove", "%s: the child was deleted, since the subset is gone", name)
		}
		for _, s := range after.Subsets {
			if o := done.subsets[s.Name]; o != nil {
				for _, name := range o.freed {
					normal(eventReplicaDeleted, "Rollout", "%s: deleted %s, which is released, not ready and not on %s", s.Name, name, after.UpdateRevision)
				}
			}
		}
	}
	return append(list, conditionEvents(before, after)...)
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
				list = append(list, event{corev1.EventTypeWarning, c.Reason, "Reconcile", c.Message})
			}
		case v1alpha1.ConditionReady, v1alpha1.ConditionInitialized:
			if turned && !bad {
				list = append(list, event{corev1.EventTypeNormal, c.Reason, "Reconcile", cmp.Or(c.Message, c.Type)})
			}
		case v1alpha1.ConditionReplicasHonored:
			if bad && turned {
				list = append(list, event{corev1.EventTypeWarning, c.Reason, "Allocate", c.Message})
			}
		}
	}
	return list
}
