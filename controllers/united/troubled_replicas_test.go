// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// fitsOnNoNode makes a pod unschedulable from now on.
func (s *scene) fitsOnNoNode(name string) *scene {
	return s.edit(name, func(pod *corev1.Pod) {
		pod.Status.StartTime, pod.Spec.NodeName = nil, ""
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/6 nodes are available: 6 Insufficient cpu.", LastTransitionTime: s.API.Now(),
		}}
	})
}

func (s *scene) conditionOf(conditionType string) metav1.Condition {
	if c := meta.FindStatusCondition(s.status().Conditions, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// warnings returns the number of events with a reason about the parent.
func (s *scene) warnings(reason string) (n int) {
	for _, e := range s.Recorded.Events {
		if strings.HasPrefix(e, "Warning "+reason+": ") {
			n++
		}
	}
	return n
}

// A replica that fits on no node is reported at once, with the scheduler's message. After half a minute it is the
// reason why the parent is not ready, and a single Warning.
func TestUnschedulable(t *testing.T) {
	s := newScene(t).settled().fitsOnNoNode("b-1").pass()
	const words = ": 0/6 nodes are available: 6 Insufficient cpu)"
	if got := s.told(); !strings.Contains(got, "waiting for web-b-1 (unschedulable since") || !strings.Contains(got, words) {
		t.Error("the subset does not say it:\n", got)
	}
	if c := s.conditionOf(v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonReplicasUnavailable {
		t.Errorf("a moment later: %s: %s", c.Reason, c.Message)
	}
	s.later(30 * time.Second).pass().pass()
	c := s.conditionOf(v1alpha1.ConditionReady)
	if c.Reason != v1alpha1.ReasonUnschedulable || !strings.HasPrefix(c.Message, "b: no node fits 1 of 2 replicas: web-b-1 (unschedulable since ") || !strings.Contains(c.Message, words) {
		t.Errorf("half a minute later: %s: %s", c.Reason, c.Message)
	}
	if got := s.warnings(v1alpha1.ReasonUnschedulable); got != 1 {
		t.Error(got, s.Recorded.Events)
	}
	if c := s.conditionOf(v1alpha1.ConditionStalled); c.Status != metav1.ConditionFalse {
		t.Error("a node may come:", c.Reason)
	}
}

// With Manual, too, an updated replica that failed is a failure at once, and freezes nothing.
func TestFailedByHand(t *testing.T) {
	fails := func(s *scene) *scene {
		return s.edit("a-1", func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
		})
	}
	s := fails(newScene(t).settled().image("broken2").partition("a", "1").settled()).pass()
	for _, conditionType := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled} {
		c := s.conditionOf(conditionType)
		if c.Reason != v1alpha1.ReasonReplicaFailed || !strings.HasPrefix(c.Message, "web-a-1 (ErrImagePull since ") {
			t.Errorf("%s: %s %s: %s", conditionType, c.Status, c.Reason, c.Message)
		}
	}
	if got := s.warnings(v1alpha1.ReasonReplicaFailed); got != 1 {
		t.Error(got, s.Recorded.Events)
	}
	if s.partition("b", "0").pass(); s.partitionOf("b") != 0 {
		t.Error("another subset is frozen")
	}
	if s.image("v1").settled(); s.conditionOf(v1alpha1.ConditionStalled).Status != metav1.ConditionFalse {
		t.Error("it stays failed on the way back:", s.told())
	}

	s = fails(newScene(t).pass().moves("a", "b")).pass()
	if c := s.conditionOf(v1alpha1.ConditionStalled); c.Status != metav1.ConditionFalse {
		t.Error("the control: before the first replica was ready nothing has failed:", c.Reason)
	}
	s = fails(newScene(t).settled()).pass()
	if c := s.conditionOf(v1alpha1.ConditionStalled); c.Status != metav1.ConditionFalse {
		t.Error("the control: what all replicas ran has proven itself:", c.Reason)
	}
}

// A subset that gets nothing although it wants a replica reports that.
func TestShortfallOfOne(t *testing.T) {
	s := newScene(t).wish("a", "1").wish("b", "90").replicas(2).settled()
	if got := s.told(); !strings.Contains(got, "asks for 1 replica, gets 0") || !strings.Contains(got, "asks for 90 replicas, gets 2") {
		t.Error(got)
	}
}

// A subset with an updated replica that failed is not Updating, under either strategy, because it makes no more
// progress.
func TestFailedIsNotUpdating(t *testing.T) {
	for name, release := range map[string]func(*scene) *scene{
		"Manual":        func(s *scene) *scene { return s.settled().partition("a", "0") },
		"RollingUpdate": func(s *scene) *scene { return s.rolling().settled() },
	} {
		t.Run(name, func(t *testing.T) {
			s := release(newScene(t).ordered()).image("broken2").settled().edit("a-1", func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
			}).pass()
			got := s.told()
			if !strings.Contains(got, "\na Unavailable: ") || !strings.Contains(got, "; waiting for web-a-1 (ErrImagePull since") {
				t.Error(got)
			}
			if c := s.conditionOf(v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonReplicaFailed {
				t.Error(c.Reason, c.Message)
			}
		})
	}
}
