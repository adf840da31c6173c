// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods reads replicas from pods, for all kinds whose replicas are pods.
//
// It reads these fields of a pod, which a cache must keep:
//
//	metadata.name, .namespace, .uid, .labels, .ownerReferences
//	metadata.annotations: only RevisionLabelChanged, which the cache adds
//	metadata.creationTimestamp, .deletionTimestamp, .deletionGracePeriodSeconds
//	spec.nodeName, .schedulingGates
//	status.phase, .reason, .startTime
//	status.conditions
//	status.initContainerStatuses[].state.waiting.reason
//	status.containerStatuses[].state.waiting.reason
//	in both lists also .ready, .state.running.startedAt, .state.terminated.exitCode, .lastState.terminated.exitCode
package pods

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Replica returns the replica of a pod at a position. hashLabel is the label with the child's own revision of the
// pod.
func Replica(pod *corev1.Pod, position int32, hashLabel string) adapters.Replica {
	r := replicaOf(pod, position, hashLabel)
	if began := deletionBegan(pod); r.Terminating && (r.Ready || began.Before(r.Since)) {
		r.Since = began
	}
	return r
}

func replicaOf(pod *corev1.Pod, position int32, hashLabel string) adapters.Replica {
	r := adapters.Replica{
		Name:        pod.Name,
		UID:         pod.UID,
		Position:    position,
		Hash:        pod.Labels[hashLabel],
		Created:     pod.CreationTimestamp.Time,
		Since:       pod.CreationTimestamp.Time,
		Terminating: pod.DeletionTimestamp != nil, Finalizers: finalizersOf(pod),
		Placed:     pod.Spec.NodeName != "",
		Node:       pod.Spec.NodeName,
		Colocation: pod.Labels[v1alpha1.LabelColocation],
		Version:    pod.Labels[v1alpha1.LabelVersion],
		Gated:      slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.GateColocation}),
		Failure:    failureOf(pod),
		Crashed:    hasCrashed(pod),
	}
	if r.Placed {
		r.Zone = pod.Labels[corev1.LabelTopologyZone]
	}
	if hashLabel == appsv1.ControllerRevisionHashLabelKey {
		r.HashChanged = pod.Annotations[adapters.RevisionLabelChanged]
	}
	ready := conditionOf(pod, corev1.PodReady)
	if ready == nil {
		r.NeverReady = true
		setUnschedulable(&r, pod)
		return r
	}
	changed := ready.LastTransitionTime.Time
	if changed.Before(pod.CreationTimestamp.Time) {
		changed = pod.CreationTimestamp.Time
	}
	// Trap: a pod that something else ended, such as the pod garbage collector, can keep a Ready condition that is
	// True.
	over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if ready.Status == corev1.ConditionTrue && !over {
		r.Ready, r.ReadySince = true, changed
		return r
	}
	r.Since = changed
	// The kubelet sets both at once when it first sees the pod.
	r.NeverReady = ready.Status != corev1.ConditionTrue && pod.Status.StartTime != nil &&
		ready.LastTransitionTime.Equal(pod.Status.StartTime)
	return r
}

// deletionBegan returns when the deletion of a pod began: its deletionTimestamp is when the deletion must end.
func deletionBegan(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	began := pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
	if began.Before(pod.CreationTimestamp.Time) {
		return pod.CreationTimestamp.Time
	}
	return began
}

func conditionOf(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// setUnschedulable copies the message of the scheduler if it finds no node for a pod. A pod that waits for its
// scheduling gates, or that the scheduler has not tried yet, does not count, because nothing shows that no node fits.
func setUnschedulable(r *adapters.Replica, pod *corev1.Pod) {
	scheduled := conditionOf(pod, corev1.PodScheduled)
	if scheduled == nil || scheduled.Status != corev1.ConditionFalse || scheduled.Reason != corev1.PodReasonUnschedulable {
		return
	}
	r.Unschedulable = cmp.Or(strings.TrimSuffix(strings.TrimSpace(scheduled.Message), "."), "no node fits")
	r.UnschedulableSince = pod.CreationTimestamp.Time
	if since := scheduled.LastTransitionTime.Time; since.After(r.UnschedulableSince) {
		r.UnschedulableSince = since
	}
}

// failureOf returns why a pod failed; "" if it did not. A container that waits for another reason, such as
// ContainerCreating, is only starting.
func failureOf(pod *corev1.Pod) string {
	if pod.Status.Phase == corev1.PodFailed {
		return cmp.Or(pod.Status.Reason, "Failed")
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && isFailure(waiting.Reason) {
				return waiting.Reason
			}
		}
	}
	return ""
}

// hasCrashed reports whether a container ended with an error and has not been ready since. A container that has come
// up again since, and became unready while it ran, has not crashed: then the pod became unready after the container
// started.
func hasCrashed(pod *corev1.Pod) bool {
	ready := conditionOf(pod, corev1.PodReady)
	cameUp := func(s *corev1.ContainerStatus) bool {
		return s.State.Running != nil && ready != nil && ready.LastTransitionTime.After(s.State.Running.StartedAt.Time)
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
				if ended != nil && ended.ExitCode != 0 && !s.Ready && !cameUp(s) {
					return true
				}
			}
		}
	}
	return false
}

// isFailure reports whether a reason of a waiting container, as the kubelet sets it, is one that does not pass by
// waiting.
func isFailure(reason string) bool {
	switch reason {
	case "CrashLoopBackOff",
		"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return true
	default:
		return false
	}
}

// finalizersOf returns the finalizers of a pod that is being deleted; none of any other.
func finalizersOf(pod *corev1.Pod) []string {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	return pod.Finalizers
}
