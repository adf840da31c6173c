// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

// object returns the StatefulSet of a subset.
func (w *World) object(c *Kid, k int) *unstructured.Unstructured {
	hash := func(v statefulset.Version) string {
		if v == 0 {
			return ""
		}
		return hashOf(k, v)
	}
	partition := int64(c.Set.Partition)
	if partition == worlds.All {
		partition = math.MaxInt32
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"namespace": "shop", "name": "web-" + worlds.SubsetName(k), "uid": worlds.SubsetName(k),
			"annotations": w.Annotations(c.Record, c.Generation)},
	}}
	// One for each content of the spec is as good as a counter.
	u.SetGeneration(2 + int64(c.Set.Partition) + 256*int64(c.Set.Replicas) + 256*256*int64(c.Set.Template))
	observed := int64(1)
	if c.Set.Observed {
		observed = u.GetGeneration()
	}
	u.Object["spec"] = map[string]any{
		"replicas": int64(c.Set.Replicas), "podManagementPolicy": w.policy(),
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": partition}},
	}
	u.Object["status"] = map[string]any{
		"observedGeneration": observed, "currentRevision": hash(c.Set.Current), "updateRevision": hash(c.Set.Update),
	}
	return u
}

func hashOf(k int, v statefulset.Version) string {
	return fmt.Sprintf("web-%s-%d", worlds.SubsetName(k), v)
}

func (w *World) podsOf(k int, set *statefulset.Set) (pods []*corev1.Pod) {
	for i := range set.Pods {
		if p := &set.Pods[i]; p.Exists() {
			pods = append(pods, w.podOf(k, i, p))
		}
	}
	return pods
}

// podOf returns a pod as the API server has it.
func (w *World) podOf(k, ordinal int, p *statefulset.Pod) *corev1.Pod {
	changed := Now.Add(-time.Second)
	if p.Aged {
		changed = ago(oldAge)
	}
	created := changed
	if p.WasReady {
		created = changed.Add(-time.Minute)
	}
	uid := worlds.SubsetName(k)
	if p.Owner == statefulset.Former {
		uid = "former-" + uid
	}
	name := fmt.Sprintf("web-%s-%d", worlds.SubsetName(k), ordinal)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created),
			Labels: map[string]string{
				"app": "web", v1alpha1.LabelName: "web", v1alpha1.LabelSubset: worlds.SubsetName(k),
				appsv1.ControllerRevisionHashLabelKey: hashOf(k, p.Version),
			},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: types.UID(uid), Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	w.Label(pod, k, ordinal, p)
	if p.Terminating {
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(Now))
	}
	switch {
	case p.Marks&placed != 0:
		runs(pod, p, created, changed)
	case p.Marks > 0:
		age := int(p.Marks) - 1
		pod.CreationTimestamp = metav1.NewTime(ago(age).Add(-time.Second))
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/3 nodes are available", LastTransitionTime: metav1.NewTime(ago(age)),
		}}
	}
	return pod
}

// runs adds what a pod with a node has.
func runs(pod *corev1.Pod, p *statefulset.Pod, created, changed time.Time) {
	ready := corev1.ConditionFalse
	container := corev1.ContainerStatus{Name: "web"}
	if p.Phase == statefulset.Ready {
		ready, container.Ready = corev1.ConditionTrue, true
	}
	pod.Spec.NodeName = fmt.Sprint("node-", RoomOf(p))
	pod.Status.StartTime = ptr.To(metav1.NewTime(created))
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(created)},
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(changed)},
		{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: metav1.NewTime(changed)},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{container}
	if p.Phase == statefulset.Crashed {
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{container}
	}
	if p.Phase != statefulset.Starting {
		pod.Status.Phase = corev1.PodRunning
	}
}
