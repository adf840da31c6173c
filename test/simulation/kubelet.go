// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// broken reports whether pods of the content never become ready: "broken" ones without a failure, "pull" ones because
// their image does not exist, "crash" ones because they exit.
func broken(content string) bool {
	return slices.ContainsFunc([]string{"broken", "pull", "crash"}, func(word string) bool { return strings.HasPrefix(content, word) })
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	_, ready := readySince(pod)
	return ready
}

func readySince(pod *corev1.Pod) (since time.Time, ready bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.Status.Phase == corev1.PodRunning {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// Kubelet lets the kubelet of a pod act: the pod is gone if it is terminating, and otherwise becomes ready if it can.
func (s *Sets) Kubelet(name string) {
	pod := s.api.Live.Pods[name]
	switch {
	case pod == nil || s.Down[setOf(name)]:
	case pod.DeletionTimestamp != nil:
		delete(s.api.Live.Pods, name)
		s.api.Last++
	case strings.HasPrefix(PodContent(pod), "pull"):
		if len(pod.Status.ContainerStatuses) == 0 {
			s.SetFailure(pod, "ImagePullBackOff")
		}
	case strings.HasPrefix(PodContent(pod), "crash"):
		switch {
		case len(pod.Status.ContainerStatuses) == 0:
			s.SetFailure(pod, "")
		case pod.Status.ContainerStatuses[0].State.Waiting == nil:
			s.SetFailure(pod, "CrashLoopBackOff")
		}
	case broken(PodContent(pod)):
		if pod.Status.Phase != corev1.PodRunning {
			s.SetReady(pod, false)
		}
	case !IsReady(pod) && !s.flapping(pod):
		s.SetReady(pod, true)
	}
}

// SetFailure makes the container of a pod end with an error, and wait for the given reason, if any; a container whose
// image cannot be pulled has not even started.
func (s *Sets) SetFailure(pod *corev1.Pod, reason string) {
	pod = pod.DeepCopy()
	s.setCondition(pod, corev1.ConditionFalse)
	ended := &corev1.ContainerStateTerminated{ExitCode: 1}
	status := corev1.ContainerStatus{Name: "web"}
	switch reason {
	case "":
		status.State.Terminated = ended
	case "ImagePullBackOff":
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	default:
		status.State.Waiting, status.LastTerminationState.Terminated = &corev1.ContainerStateWaiting{Reason: reason}, ended
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	s.api.PutPod(pod)
}

// setOf returns the name of the set of a pod.
func setOf(pod string) string { return pod[:strings.LastIndex(pod, "-")] }

// SetReady sets whether a pod is ready.
func (s *Sets) SetReady(pod *corev1.Pod, ready bool) {
	pod = pod.DeepCopy()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = nil
	s.setCondition(pod, status)
	s.api.PutPod(pod)
}

// setCondition sets the Ready condition. When a kubelet first sees a pod, it sets the start time at once with that.
func (s *Sets) setCondition(pod *corev1.Pod, status corev1.ConditionStatus) {
	now := s.api.Now()
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = &now
		pod.Spec.NodeName = "node"
	}
	if c := pod.Status.Conditions; len(c) == 0 || c[0].Status != status || status == corev1.ConditionTrue {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: now}}
	}
}

// Collect starts to delete the pods whose set is gone, and deletes its revisions.
func (s *Sets) Collect() {
	alive := map[types.UID]bool{}
	for _, u := range s.api.Live.Sets {
		alive[u.GetUID()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.api.Live.Pods)) {
		pod := s.api.Live.Pods[name]
		if owner := metav1.GetControllerOf(pod); owner != nil && !alive[owner.UID] {
			s.api.DeletePod(pod)
		}
	}
	for _, revisions := range s.api.own {
		maps.DeleteFunc(revisions, func(_ string, r *ownRevision) bool { return r.owner != "" && !alive[r.owner] })
	}
}

// DeleteSet deletes a set like kubectl; orphan is --cascade=orphan.
func (s *Sets) DeleteSet(name string, orphan bool) {
	u := s.api.Live.Sets[name]
	delete(s.api.Live.Sets, name)
	s.api.Last++
	for _, pod := range s.api.Live.Pods {
		if owner := metav1.GetControllerOf(pod); orphan && owner != nil && owner.UID == u.GetUID() {
			pod = pod.DeepCopy()
			pod.OwnerReferences = nil
			s.api.PutPod(pod)
		}
	}
	for _, r := range s.api.own[name] {
		if orphan && r.owner == u.GetUID() {
			r.owner = ""
		}
	}
}
