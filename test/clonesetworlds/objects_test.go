// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

var epoch = worlds.At(0)

func (c *child) uid(k int) string { return fmt.Sprintf("%s-%d", worlds.SubsetName(k), c.Incarnation) }

// generation differs for each content of the spec.
func (c *child) generation() int64 {
	return int64(2) + int64(c.Replicas) + 16*int64(c.Partition) + 4096*int64(c.MaxUnavailable) + 4096*128*int64(c.Template)
}

// partitionField returns its partition as in the object.
func (c *child) partitionField() int64 {
	if c.Partition == worlds.All {
		return math.MaxInt32
	}
	return int64(c.Partition)
}

// revisionName returns the name of a CloneSet's own revision of a version; "" if there is none.
func revisionName(k int, version uint8) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf("web-%s-h%d", worlds.SubsetName(k), version)
}

func labels(k int) map[string]any {
	return map[string]any{"app": "web", v1alpha1.LabelName: "web", v1alpha1.LabelSubset: worlds.SubsetName(k)}
}

// object returns the CloneSet of a subset.
func (w *game) object(s *state, k int) *unstructured.Unstructured {
	c := &s.Children[k]
	strategy := map[string]any{"type": "ReCreate", "partition": c.partitionField(), "maxUnavailable": any(int64(c.MaxUnavailable)), "maxSurge": int64(w.surge)}
	if c.MaxUnavailable == unbounded {
		strategy["maxUnavailable"] = "100%"
	}
	spec := map[string]any{
		"replicas": int64(c.Replicas), "selector": map[string]any{"matchLabels": labels(k)}, "revisionHistoryLimit": int64(10),
		"updateStrategy": strategy, "template": w.templates[[2]uint8{uint8(k), c.Template}],
	}
	if w.MinReady {
		spec["minReadySeconds"] = int64(60)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
		"metadata": map[string]any{
			"namespace": "shop", "name": "web-" + worlds.SubsetName(k), "uid": c.uid(k), "generation": c.generation(),
			"annotations": w.Annotations(c.Record, c.ParentGeneration), "labels": labels(k), "creationTimestamp": "2025-12-01T00:00:00Z",
			"ownerReferences": []any{map[string]any{"apiVersion": "apps.united.dev/v1alpha1", "kind": "UnitedDeployment",
				"name": "web", "uid": "web", "controller": true, "blockOwnerDeletion": true}},
		},
		"spec": spec, "status": c.status(k),
	}}
}

// status returns the status of the CloneSet.
func (c *child) status(k int) map[string]any {
	observed := int64(1)
	if c.Observed {
		observed = c.generation()
	}
	return map[string]any{
		"observedGeneration": observed, "replicas": int64(c.StatusReplicas), "readyReplicas": int64(c.StatusReady),
		"updatedReplicas": int64(c.StatusUpdated), "currentRevision": revisionName(k, c.Current), "updateRevision": revisionName(k, c.Update),
	}
}

// dependents returns the pods of a CloneSet.
func (w *game) dependents(s *state, k int) (have adapters.Dependents) {
	c := &s.Children[k]
	for n := range c.Pods {
		if c.Pods[n].Version != 0 {
			have.Pods = append(have.Pods, c.pod(k, n, worlds.At(s.Now)))
		}
	}
	return have
}

// changed returns when the condition Ready of a pod changed last, before now: of two pods of the same age, the one with
// the higher number changed later.
func (p *pod) changed(n int) time.Time {
	changed := epoch.Add(time.Duration(n-maxPods) * time.Second)
	if p.Aged {
		changed = changed.Add(-worlds.Tick)
	}
	return changed
}

// created returns when a pod was created. Both times are relative to epoch, and shifted when they are used.
func (p *pod) created(n int) time.Time {
	if p.WasReady {
		return p.changed(n).Add(-time.Minute)
	}
	return p.changed(n)
}

func podName(k, n int) string { return fmt.Sprintf("web-%s-%d", worlds.SubsetName(k), n) }

func (c *child) pod(k, n int, now time.Time) *corev1.Pod {
	p := &c.Pods[n]
	state, container := corev1.ConditionFalse, corev1.ContainerStatus{Name: "web"}
	switch p.Phase {
	case ready:
		state, container.Ready = corev1.ConditionTrue, true
	case crashed:
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		container.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	case starting, unready:
	}
	passed := now.Sub(epoch)
	created, changed := metav1.NewTime(p.created(n).Add(passed)), metav1.NewTime(p.changed(n).Add(passed))
	own := map[string]string{"controller-revision-hash": revisionName(k, p.Version), "lifecycle.apps.kruise.io/state": "Normal"}
	for key, v := range labels(k) {
		own[key] = v.(string)
	}
	if p.Marked {
		own["apps.kruise.io/specified-delete"] = "true"
	}
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: podName(k, n), UID: types.UID(podName(k, n)), Labels: own, CreationTimestamp: created,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web-" + worlds.SubsetName(k),
				UID: types.UID(c.uid(k)), Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: ptr.To(created),
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: state, LastTransitionTime: changed},
				{Type: corev1.ContainersReady, Status: state, LastTransitionTime: changed},
			},
			ContainerStatuses: []corev1.ContainerStatus{container},
		},
	}
	if p.Terminating {
		made.DeletionTimestamp, made.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now.Add(30*time.Second))), ptr.To(int64(30))
		made.Finalizers = nil
	}
	return made
}
