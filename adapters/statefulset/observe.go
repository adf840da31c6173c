// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
)

// Observe reads a StatefulSet and those of the pods that it controls. A pod whose
// name is not "<name>-<ordinal>" is passed over, as the StatefulSet does.
//
// Of a pod it reads, and a cache must keep:
//
//	metadata.name, .namespace, .uid, .labels, .ownerReferences
//	metadata.creationTimestamp, .deletionTimestamp, .deletionGracePeriodSeconds
//	status.phase, .reason, .startTime
//	status.conditions
//	status.initContainerStatuses[].state.waiting.reason
//	status.containerStatuses[].state.waiting.reason
//	the same two .ready, .state.running.startedAt, .state.terminated.exitCode, .lastState.terminated.exitCode
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	set, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:            set.ObjectMeta,
		Replicas:        1, // what the API server makes of an absent one
		NoPartition:     set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		MinReadySeconds: set.Spec.MinReadySeconds,
		Ordered:         set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
		CaughtUp:        set.Status.ObservedGeneration == set.Generation,
		CurrentHash:     set.Status.CurrentRevision,
		UpdateHash:      set.Status.UpdateRevision,
	}
	if set.Spec.Replicas != nil {
		o.Replicas = *set.Spec.Replicas
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
		o.Partition = *rolling.Partition
	}
	for _, pod := range have.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.UID != set.UID || pod.Namespace != set.Namespace {
			continue
		}
		if position, ok := positionOf(set, pod.Name); ok {
			r := replicaOf(pod, position)
			if began := deletionBegan(pod); r.Terminating && (r.Ready || began.Before(r.Since)) {
				r.Since = began
			}
			o.Members = append(o.Members, r)
		}
	}
	slices.SortFunc(o.Members, func(a, b adapters.Replica) int { return cmp.Compare(a.Position, b.Position) })
	o.Trailing = trailing(&set.Status, o.Members)
	if missing := o.Missing(); missing >= 0 {
		o.Vacant = fmt.Sprintf("%s-%d", set.Name, firstOrdinal(set)+missing)
	}
	return o, nil
}

// trailing tells whether the status counts other replicas than there are, the way
// the StatefulSet controller counts: a replica that is being deleted is not an
// updated one, but may be ready.
func trailing(status *appsv1.StatefulSetStatus, members []adapters.Replica) bool {
	var ready, updated int32
	for _, m := range members {
		if m.Ready {
			ready++
		}
		if !m.Terminating && m.Hash == status.UpdateRevision {
			updated++
		}
	}
	return int(status.Replicas) != len(members) || status.ReadyReplicas != ready || status.UpdatedReplicas != updated
}

// Orphans counts as the StatefulSet adopts: pods that nobody controls and that
// are not being deleted, by name and by the selector. A pod below the first
// ordinal is not counted, since no number of replicas keeps it. A child whose
// selector cannot be read has none: the API server refuses it.
func (a adapter) Orphans(child *unstructured.Unstructured, pods []corev1.Pod) int32 {
	set, err := a.typed(child)
	if err != nil {
		return 0
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return 0
	}
	var needed int32
	for i := range pods {
		pod := &pods[i]
		if metav1.GetControllerOfNoCopy(pod) != nil || pod.DeletionTimestamp != nil ||
			pod.Namespace != set.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if position, ok := positionOf(set, pod.Name); ok && position < math.MaxInt32 {
			needed = max(needed, position+1)
		}
	}
	return needed
}

// typed reads a child less the templates in it, and who owns its fields: nothing here
// needs them, they are most of the work, and a field in a template that is of another
// type than ours must not make a living child unreadable.
func (a adapter) typed(child *unstructured.Unstructured) (*appsv1.StatefulSet, error) {
	if child == nil || child.GroupVersionKind() != a.GroupVersionKind() {
		return nil, fmt.Errorf("statefulset adapter: not a StatefulSet of %s", appsv1.SchemeGroupVersion)
	}
	object := maps.Clone(child.Object)
	if spec, ok := object["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		delete(spec, "template")
		delete(spec, "volumeClaimTemplates")
		object["spec"] = spec
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		object["metadata"] = metadata
	}
	set := &appsv1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, set); err != nil {
		return nil, fmt.Errorf("StatefulSet %s/%s: %w", child.GetNamespace(), child.GetName(), err)
	}
	return set, nil
}

// positionOf is the ordinal in a pod's name less the first ordinal of the set.
// It is a number, also for sorting: as text -10 comes before -2.
func positionOf(set *appsv1.StatefulSet, pod string) (position int32, ok bool) {
	text, ok := strings.CutPrefix(pod, set.Name+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.ParseUint(text, 10, 31) // 31 bits: an int32 that is not negative
	if err != nil || strconv.FormatUint(ordinal, 10) != text {
		return 0, false
	}
	return int32(ordinal) - firstOrdinal(set), true
}

func firstOrdinal(set *appsv1.StatefulSet) int32 {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return set.Spec.Ordinals.Start
}

func replicaOf(pod *corev1.Pod, position int32) adapters.Replica {
	r := adapters.Replica{
		Name:        pod.Name,
		UID:         pod.UID,
		Position:    position,
		Hash:        pod.Labels[appsv1.ControllerRevisionHashLabelKey],
		Created:     pod.CreationTimestamp.Time,
		Since:       pod.CreationTimestamp.Time,
		Terminating: pod.DeletionTimestamp != nil,
		Failure:     failureOf(pod),
		Crashed:     hasCrashed(pod),
	}
	ready := readyCondition(pod)
	if ready == nil {
		r.NeverReady = true
		return r
	}
	changed := ready.LastTransitionTime.Time
	if changed.Before(pod.CreationTimestamp.Time) {
		changed = pod.CreationTimestamp.Time
	}
	// Trap: a pod that was ended from outside, by the pod garbage collector for
	// one, can keep a Ready condition that is True.
	over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if ready.Status == corev1.ConditionTrue && !over {
		r.Ready, r.ReadySince = true, changed
		return r
	}
	r.Since = changed
	// The kubelet sets both in one go when it first sees the pod.
	r.NeverReady = ready.Status != corev1.ConditionTrue && pod.Status.StartTime != nil &&
		ready.LastTransitionTime.Equal(pod.Status.StartTime)
	return r
}

// deletionBegan is when a pod was deleted: its deletionTimestamp is when it is to be gone.
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

func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// failureOf says why a pod failed; "" when it did not. A container that waits
// for anything else, such as ContainerCreating, is only starting.
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

// hasCrashed tells whether a container has ended with an error, and was not ready since.
// One that has come up again since, and ceased to be ready while it ran, has not crashed:
// the pod ceased to be ready later than the container started.
func hasCrashed(pod *corev1.Pod) bool {
	ready := readyCondition(pod)
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

// isFailure tells the reasons of a waiting container, as the kubelet gives them,
// that do not go away by waiting.
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
