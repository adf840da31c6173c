// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters/internal/pods"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// The message of the scheduler is copied if it finds no node for a pod, but not if the pod merely waits.
func TestUnschedulable(t *testing.T) {
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name      string
		condition corev1.PodCondition
		ready     bool
		want      string
	}{
		{"no node", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/6 nodes are available: 6 Insufficient cpu. "}, false, "0/6 nodes are available: 6 Insufficient cpu"},
		{"no node, and no words", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}, false, "no node fits"},
		{"gates", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated", Message: "gates"}, false, ""},
		{"scheduled", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, false, ""},
		{"the kubelet has it", corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "x"}, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", CreationTimestamp: metav1.NewTime(created)}}
			tc.condition.LastTransitionTime = metav1.NewTime(created.Add(time.Minute))
			pod.Status.Conditions = append(pod.Status.Conditions, tc.condition)
			if tc.ready {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})
			}
			r := pods.Replica(pod, 0, "hash")
			if r.Unschedulable != tc.want || tc.want != "" && !r.UnschedulableSince.Equal(created.Add(time.Minute)) {
				t.Errorf("%q since %s", r.Unschedulable, r.UnschedulableSince)
			}
			if want := "unschedulable since 2026-11-20T12:01:00Z: " + tc.want; tc.want != "" && r.WhyUnavailable() != want {
				t.Error(r.WhyUnavailable())
			}
		})
	}
}

// A pod has a node as soon as it is bound to one, whatever becomes of it there.
// The zone of a pod without a node is only what its template says.
func TestWhereItIs(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "mine"}, {Name: v1alpha1.GateColocation}}}}
	if r := pods.Replica(pod, 0, "hash"); r.Node != "" || r.Zone != "" || !r.Gated {
		t.Errorf("%+v", r)
	}
	pod.Spec.NodeName, pod.Spec.SchedulingGates = "n", pod.Spec.SchedulingGates[:1]
	if r := pods.Replica(pod, 0, "hash"); r.Node != "n" || r.Zone != "a" || r.Gated {
		t.Errorf("%+v", r)
	}
}

func TestPlaced(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}}
	if pods.Replica(pod, 0, "hash").Placed {
		t.Error("it has no node")
	}
	pod.Spec.NodeName = "n"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if !pods.Replica(pod, 0, "hash").Placed {
		t.Error("it is on a node, and not ready")
	}
}
