// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

func TestCounts(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	status := func() *v1alpha1.UnitedDeploymentStatus {
		return &v1alpha1.UnitedDeploymentStatus{
			ObservedGeneration: 3, Selector: "app=web", CurrentRevision: "web-1", UpdateRevision: "web-2",
			ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: 6, ReadyReplicas: 4, AvailableReplicas: 4, UpdatedReplicas: 1, UpdatedReadyReplicas: 1},
			Conditions:    []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "RollingOut", Message: "1 of 6", ObservedGeneration: 3, LastTransitionTime: at}},
			Rollout:       &v1alpha1.RolloutStatus{Revision: "web-2", Phase: v1alpha1.RolloutProgressing, LastProgressTime: &at},
			Subsets: []v1alpha1.SubsetStatus{{
				Name: "a", DesiredReplicas: 6, Partition: 3, ExpectedUpdatedReplicas: 3, Phase: v1alpha1.SubsetPhase("Updating"), Message: "waits",
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
		{"all that is released is updated, but not ready", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].UpdatedReplicas = 3 }, true},
		{"all that is released is ready", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].UpdatedReadyReplicas = 3 }, false},
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
			if got := publish.Compare(before, after) <= publish.Counts; got != tc.want {
				t.Error(got)
			}
		})
	}
}

// While nothing is replaced, somebody may wait for each count that reaches the wanted number.
func TestCountsThatComplete(t *testing.T) {
	for _, phase := range []v1alpha1.SubsetPhase{v1alpha1.PhaseScaling, v1alpha1.PhaseUnavailable, v1alpha1.PhaseWaiting, v1alpha1.PhaseUpdating} {
		before := &v1alpha1.UnitedDeploymentStatus{Subsets: []v1alpha1.SubsetStatus{{Name: "a", DesiredReplicas: 3, ExpectedUpdatedReplicas: 3, Phase: phase}}}
		for name, count := range map[string]func(*v1alpha1.ReplicaCounts) *int32{
			"replicas":  func(c *v1alpha1.ReplicaCounts) *int32 { return &c.Replicas },
			"ready":     func(c *v1alpha1.ReplicaCounts) *int32 { return &c.ReadyReplicas },
			"available": func(c *v1alpha1.ReplicaCounts) *int32 { return &c.AvailableReplicas },
		} {
			for n, want := range map[int32]bool{2: true, 3: phase == v1alpha1.PhaseUpdating} {
				after := before.DeepCopy()
				*count(&after.Subsets[0].ReplicaCounts) = n
				if got := publish.Compare(before, after) <= publish.Counts; got != want {
					t.Errorf("%s: %d of 3 %s waits: %v", phase, n, name, got)
				}
				if got := publish.Compare(after, after); got != publish.Same {
					t.Errorf("%s: %d of 3 %s, as before: %v", phase, n, name, got)
				}
			}
		}
	}
}

// If nothing has to be updated, the counts of updated replicas complete nothing.
func TestNothingIsToBeUpdated(t *testing.T) {
	before := &v1alpha1.UnitedDeploymentStatus{Subsets: []v1alpha1.SubsetStatus{{
		Name: "a", DesiredReplicas: 3, Phase: v1alpha1.PhaseUnavailable, ReplicaCounts: v1alpha1.ReplicaCounts{UpdatedReplicas: 3, UpdatedReadyReplicas: 1},
	}}}
	after := before.DeepCopy()
	if after.Subsets[0].UpdatedReadyReplicas = 0; publish.Compare(before, after) != publish.Counts {
		t.Error("it does not wait")
	}
}

// While replicas are created for the first time, the progress of each subset can wait; a problem, and that
// everything is done, cannot.
func TestProvisioning(t *testing.T) {
	status := func() *v1alpha1.UnitedDeploymentStatus {
		return &v1alpha1.UnitedDeploymentStatus{
			ObservedGeneration: 1, CurrentRevision: "web-1", UpdateRevision: "web-1",
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
		{"all of one subset are ready", func(s *v1alpha1.UnitedDeploymentStatus) { s.ReadyReplicas, s.Subsets[0].ReadyReplicas = 3, 3 }, true},
		{"all are ready", func(s *v1alpha1.UnitedDeploymentStatus) { s.ReadyReplicas = 6 }, false},
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
			if got := publish.Compare(before, after) == publish.Provisioning; got != tc.want {
				t.Error(got)
			}
		})
	}
}

// Provisioning is over when all were Ready, and in a rollout: from then on each phase is reported at once.
func TestProvisioningIsOver(t *testing.T) {
	at := func(seconds int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC))
	}
	for _, tc := range []struct {
		name               string
		ready, initialized metav1.Condition
		current            string
		want               bool
	}{
		{"no replica was ready yet", metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: at(0)}, metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: at(0)}, "web-1", true},
		{"one is ready", metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: at(0)}, metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: at(5)}, "web-1", true},
		{"one is ready, soon", metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: at(0)}, metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: at(0)}, "web-1", true},
		{"scaled up from nothing for the first time", metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: at(8)}, metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: at(0)}, "web-1", true},
		{"all were ready", metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: at(9)}, metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: at(5)}, "web-1", false},
		{"all are ready", metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: at(5)}, metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: at(5)}, "web-1", false},
		{"a rollout of those that were made", metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: at(0)}, metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: at(5)}, "web-0", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.ready.Type, tc.initialized.Type = v1alpha1.ConditionReady, v1alpha1.ConditionInitialized
			before := &v1alpha1.UnitedDeploymentStatus{
				CurrentRevision: tc.current, UpdateRevision: "web-1", Conditions: []metav1.Condition{tc.ready, tc.initialized},
				Subsets: []v1alpha1.SubsetStatus{{Name: "a", DesiredReplicas: 3, Phase: v1alpha1.PhaseScaling}},
			}
			after := before.DeepCopy()
			after.Subsets[0].Phase = v1alpha1.PhaseComplete
			if got := publish.Compare(before, after) == publish.Provisioning; got != tc.want {
				t.Error(got)
			}
		})
	}
	if first := (&v1alpha1.UnitedDeploymentStatus{}); publish.Compare(first, first) == publish.Provisioning {
		t.Error("before the first status")
	}
}

// While replicas are being updated, Available and how far a subset is can wait; what completes or fails, and the beginning
// and the end of it, cannot.
func TestMoving(t *testing.T) {
	status := func() *v1alpha1.UnitedDeploymentStatus {
		return &v1alpha1.UnitedDeploymentStatus{
			ObservedGeneration: 2, CurrentRevision: "web-1", UpdateRevision: "web-2",
			Conditions: []metav1.Condition{
				{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRollingOut}, {Type: "Initialized", Status: metav1.ConditionTrue},
				{Type: "Available", Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReplicasAvailable},
			},
			Subsets: []v1alpha1.SubsetStatus{
				{Name: "a", DesiredReplicas: 3, ExpectedUpdatedReplicas: 3, Phase: v1alpha1.PhaseUpdating},
				{Name: "b", DesiredReplicas: 3, Phase: v1alpha1.PhaseHeld},
			},
		}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.UnitedDeploymentStatus)
		want   publish.Change
	}{
		"not all are available": {func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Conditions[2].Status, s.Conditions[2].Reason = metav1.ConditionFalse, v1alpha1.ReasonReplicasUnavailable
		}, publish.Moving},
		"a subset waits for the others":               {func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Phase = v1alpha1.PhaseWaiting }, publish.Moving},
		"the rollout is over, the last replica comes": {func(s *v1alpha1.UnitedDeploymentStatus) { s.Conditions[0].Reason = v1alpha1.ReasonScaling }, publish.Anything},
		"a subset is scaled":                          {func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Phase = v1alpha1.PhaseScaling }, publish.Anything},
		"the last one is ready": {func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Subsets[0].Phase, s.Subsets[0].UpdatedReadyReplicas = v1alpha1.PhaseUnavailable, 3
		}, publish.Completion},
		"a subset is complete": {func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Phase = v1alpha1.PhaseComplete }, publish.Anything},
		"a subset fails":       {func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Phase = v1alpha1.PhaseStalled }, publish.Anything},
		"a subset is restored": {func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Phase = v1alpha1.PhaseRestoring }, publish.Anything},
		"one failed":           {func(s *v1alpha1.UnitedDeploymentStatus) { s.Conditions[0].Reason = v1alpha1.ReasonReplicaFailed }, publish.Anything},
		"it is Ready": {func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Conditions[0].Status, s.Conditions[0].Reason = metav1.ConditionTrue, v1alpha1.ReasonRolloutHeld
		}, publish.Anything},
		"a partition": {func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].Partition = 1 }, publish.Anything},
		"a revision":  {func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[0].CurrentRevision = "web-2" }, publish.Anything},
		"the rollout": {func(s *v1alpha1.UnitedDeploymentStatus) { s.Rollout = &v1alpha1.RolloutStatus{Step: 1} }, publish.Anything},
	} {
		before, after := status(), status()
		if tc.change(after); publish.Compare(before, after) != tc.want {
			t.Errorf("%s: %d, want %d", name, publish.Compare(before, after), tc.want)
		}
		tc.change(before)
		if after = status(); tc.want == publish.Anything && publish.Compare(before, after) != publish.Anything {
			t.Errorf("%s, and back: %d", name, publish.Compare(before, after))
		}
	}
}
