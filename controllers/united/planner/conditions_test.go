// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// What is said of a status that is overridden stays as it is from pass to pass.
func TestJudgeOverridden(t *testing.T) {
	parent, lasts := &v1alpha1.UnitedDeployment{Status: v1alpha1.UnitedDeploymentStatus{
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Fine"}},
	}}, false
	first := time.Unix(1e9, 0)
	pass := func(now time.Time) *v1alpha1.UnitedDeploymentStatus {
		status := parent.Status.DeepCopy()
		set := setter(status, 1, now)
		set(v1alpha1.ConditionReady, true, v1alpha1.ReasonRolloutComplete, "fine")
		set(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonRolloutComplete, "fine")
		set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonProgressing, "")
		JudgeOverridden(parent, status, "status.x is changed", lasts, now)
		return status
	}
	for _, lasting := range []bool{false, true} {
		lasts = lasting
		parent.Status = *pass(first)
		if !meta.IsStatusConditionFalse(parent.Status.Conditions, v1alpha1.ConditionReady) ||
			meta.IsStatusConditionTrue(parent.Status.Conditions, v1alpha1.ConditionStalled) != lasting {
			t.Error(lasting, parent.Status.Conditions)
		}
		if diff := cmp.Diff(&parent.Status, pass(first.Add(time.Minute))); diff != "" {
			t.Error(lasting, "another status each time:", diff)
		}
	}
	setter(&parent.Status, 1, first)(v1alpha1.ConditionStalled, true, v1alpha1.ReasonReplicaFailed, "a failure")
	before := parent.Status.DeepCopy()
	JudgeOverridden(parent, &parent.Status, "status.x is changed", lasts, first)
	if diff := cmp.Diff(before, &parent.Status); diff != "" {
		t.Error("what stalls otherwise comes first:", diff)
	}
}
