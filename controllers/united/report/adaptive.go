// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// setSchedulable sets the scheduling part of the status of a subset.
func setSchedulable(in *planner.Input, s *planner.SubsetPlan, status *v1alpha1.SubsetStatus) {
	if !spec.Adaptive(in.Parent) {
		return
	}
	if s.Cap != nil {
		status.Cap = s.Cap.DeepCopy()
		status.Cap.Reserved = s.Reserved
		status.Cap.Message = plain(status.Cap.Message, maxSubsetMessage)
	}
	if was := world.SubsetStatus(&in.Parent.Status, s.Name); was != nil {
		status.Conditions = slices.Clone(was.Conditions)
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionSchedulable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSchedulable,
		ObservedGeneration: in.Parent.Generation, LastTransitionTime: metav1.NewTime(in.Now.Truncate(time.Second)),
	}
	if limit := status.Cap; limit != nil {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonUnschedulable
		condition.Message = fmt.Sprintf("capped at %d %s: no node fits %s", s.Desired, replicasWord(s.Desired), limit.Message)
		if limit.ClearedTime != nil {
			condition.Reason = v1alpha1.ReasonRetryLater
			condition.Message = fmt.Sprintf("capped at %d %s until %s: no node fitted %s", s.Desired, replicasWord(s.Desired),
				limit.ClearedTime.Add(spec.SchedulingRules(in.Parent).Retry).UTC().Format(time.RFC3339), limit.Message)
		}
		condition.Message = sentence(condition.Message)
	}
	meta.SetStatusCondition(&status.Conditions, condition)
}

// capEvents returns an event when a subset becomes capped, and when that ends.
func capEvents(before, after *v1alpha1.SubsetStatus) []Event {
	was := before != nil && before.Cap != nil
	switch {
	case after.Cap != nil && !was:
		return []Event{{corev1.EventTypeWarning, v1alpha1.EventSubsetCapped, "Schedule",
			fmt.Sprintf("%s: no node fits %s; the subset keeps %d of %d %s, and gets no more; others are created where there is room",
				after.Name, after.Cap.Message, after.Cap.Replicas, max(after.Cap.Replicas, after.DesiredReplicas), replicasWord(after.DesiredReplicas)), after.Workload}}
	case was && after.Cap == nil:
		return []Event{{corev1.EventTypeNormal, v1alpha1.EventSubsetUncapped, "Schedule",
			after.Name + ": the subset may get more replicas again when spec.replicas grows", after.Workload}}
	}
	return nil
}
