// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

func TestOnlyCounters(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	status := func() *v1alpha1.UnitedDeploymentStatus {
		return &v1alpha1.UnitedDeploymentStatus{
			ObservedGeneration: 3, Selector: "app=web", CurrentRevision: "web-1", UpdateRevision: "web-2",
			ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: 6, ReadyReplicas: 4, AvailableReplicas: 4, UpdatedReplicas: 1, UpdatedReadyReplicas: 1},
			Conditions:    []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "RollingOut", Message: "1 of 6", ObservedGeneration: 3, LastTransitionTime: at}},
			Rollout:       &v1alpha1.RolloutStatus{Revision: "web-2", Phase: v1alpha1.RolloutProgressing, LastProgressTime: &at},
			Subsets: []v1alpha1.SubsetStatus{{
				Name: "a", DesiredReplicas: 6, Partition: 5, Phase: v1alpha1.SubsetPhase("Updating"), Message: "waits",
				ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: 6, ReadyReplicas: 4, AvailableReplicas: 4, UpdatedReplicas: 1, UpdatedReadyReplicas: 1},
				ChildRecord:   &v1alpha1.ChildRecord{UID: "u", Hash: "h", Checksum: "c"},
			}},
			LastProgressTime: &at,
		}
	}
	later := ptr.To(metav1.NewTime(at.Add(time.Second)))
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.UnitedDeploymentStatus)
		want   bool
	}{
		{"nothing", func(*v1alpha1.UnitedDeploymentStatus) {}, true},
		{"counters, and their words", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.ReadyReplicas, s.Subsets[0].ReadyReplicas, s.Subsets[0].Message, s.Conditions[0].Message = 5, 5, "waits for another", "2 of 6"
			s.LastProgressTime, s.Rollout.LastProgressTime, s.Rollout.Message = later, later, "1 of maxUnavailable 1 in use"
			s.UpdatedReplicas, s.Subsets[0].UpdatedReplicas, s.Summary = 2, 2, "a 2/6 updating"
		}, true},
		{"fewer", func(s *v1alpha1.UnitedDeploymentStatus) { s.ReadyReplicas, s.Subsets[0].ReadyReplicas = 3, 3 }, true},
		{"all are ready for a moment", func(s *v1alpha1.UnitedDeploymentStatus) { s.ReadyReplicas, s.Subsets[0].ReadyReplicas = 6, 6 }, true},
		{"one is replaced", func(s *v1alpha1.UnitedDeploymentStatus) { s.Replicas, s.Subsets[0].Replicas = 5, 5 }, true},
		{"the child knows its own name of the template", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Subsets[0].ChildRecord.Hash, s.Subsets[0].ChildRecord.Checksum = "h2", "c2"
		}, true},
		{"another child", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].ChildRecord.UID = "u2" }, false},
		{"how many are wanted", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].DesiredReplicas = 7 }, false},
		{"selector", func(s *v1alpha1.UnitedDeploymentStatus) { s.Selector = "app=x" }, false},
		{"generation", func(s *v1alpha1.UnitedDeploymentStatus) { s.ObservedGeneration = 4 }, false},
		{"a reason", func(s *v1alpha1.UnitedDeploymentStatus) { s.Conditions[0].Reason = "ReplicaFailed" }, false},
		{"a condition", func(s *v1alpha1.UnitedDeploymentStatus) { s.Conditions[0].Status = metav1.ConditionTrue }, false},
		{"one more condition", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: "Stalled"})
		}, false},
		{"a phase", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Phase = v1alpha1.SubsetPhase("Held") }, false},
		{"a partition", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Partition = 4 }, false},
		{"a revision", func(s *v1alpha1.UnitedDeploymentStatus) { s.UpdateRevision = "web-3" }, false},
		{"a subset's revision", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].CurrentRevision = "web-2" }, false},
		{"the rollout", func(s *v1alpha1.UnitedDeploymentStatus) { s.Rollout.Step = 1 }, false},
		{"the soak", func(s *v1alpha1.UnitedDeploymentStatus) { s.Rollout.ReachedTime = later }, false},
		{"a subset less", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets = nil }, false},
		{"a subset more", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Subsets = append(s.Subsets, v1alpha1.SubsetStatus{Name: "b"})
		}, false},
		{"the record of a child", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].ChildRecord = nil }, false},
		{"a pause", func(s *v1alpha1.UnitedDeploymentStatus) { s.PausedTime = later }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := status(), status()
			tc.change(after)
			if got := planner.OnlyCounters(before, after); got != tc.want {
				t.Error(got)
			}
		})
	}
}

// While replicas are made for the first time it can wait which subset has got how far; what went wrong,
// and that all is done, cannot.
func TestOnlyArrivals(t *testing.T) {
	status := func() *v1alpha1.UnitedDeploymentStatus {
		return &v1alpha1.UnitedDeploymentStatus{
			ObservedGeneration: 1, UpdateRevision: "web-1",
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonScaling}, {Type: "Initialized", Status: metav1.ConditionFalse}},
			Subsets: []v1alpha1.SubsetStatus{
				{Name: "a", DesiredReplicas: 3, Phase: v1alpha1.PhaseScaling, ChildRecord: &v1alpha1.ChildRecord{UID: "u"}},
				{Name: "b", DesiredReplicas: 3, Phase: v1alpha1.PhasePending},
			},
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.UnitedDeploymentStatus)
		want   bool
	}{
		{"replicas come", func(s *v1alpha1.UnitedDeploymentStatus) { s.Replicas, s.Subsets[0].Replicas = 2, 2 }, true},
		{"a subset is complete", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Phase = v1alpha1.PhaseComplete }, true},
		{"a subset is held", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Phase = v1alpha1.PhaseHeld }, true},
		{"another begins", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[1].Phase = v1alpha1.PhaseUpdating }, true},
		{"all are there, one is not ready", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Conditions[0].Reason = v1alpha1.ReasonReplicasUnavailable
		}, true},
		{"the first one is ready", func(s *v1alpha1.UnitedDeploymentStatus) { s.Conditions[1].Status = metav1.ConditionTrue }, false},
		{"Ready", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Conditions[0].Status, s.Conditions[0].Reason = metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete
		}, false},
		{"refused", func(s *v1alpha1.UnitedDeploymentStatus) { s.Conditions[0].Reason = v1alpha1.ReasonApplyFailed }, false},
		{"a subset is stalled", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[1].Phase = v1alpha1.PhaseStalled }, false},
		{"another template", func(s *v1alpha1.UnitedDeploymentStatus) { s.ObservedGeneration, s.UpdateRevision = 2, "web-2" }, false},
		{"a step", func(s *v1alpha1.UnitedDeploymentStatus) { s.Rollout = &v1alpha1.RolloutStatus{} }, false},
		{"a child is there", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[1].ChildRecord = &v1alpha1.ChildRecord{UID: "v"} }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := status(), status()
			tc.change(after)
			if got := planner.OnlyArrivals(before, after); got != tc.want {
				t.Error(got)
			}
		})
	}
}
