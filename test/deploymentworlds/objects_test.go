// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

var epoch = worlds.At(0)

func (c *child) uid(k int) string { return fmt.Sprintf("%s-%d", worlds.SubsetName(k), c.Incarnation) }

// generation differs for each content of the spec and of the annotations, which count for a Deployment.
func (c *child) generation() int64 {
	g := int64(2) + 1<<16*int64(c.Record) + 1<<40*int64(c.ParentGeneration) + int64(c.Replicas) + 1<<48*int64(c.MaxSurge) + 16*int64(c.MaxUnavailable) + 16*128*int64(c.Template)
	if c.Paused {
		g += 16 * 128 * 8
	}
	return g
}

func hashOf(version uint8) string { return fmt.Sprintf("h%d", version) }

func replicaSetName(k int, version uint8) string {
	return fmt.Sprintf("web-%s-%s", worlds.SubsetName(k), hashOf(version))
}

func (c *child) replicaSetUID(k int, version uint8) string {
	return fmt.Sprintf("%s-%s-%d", worlds.SubsetName(k), hashOf(version), c.Incarnation)
}

func labels(k int) map[string]any {
	return map[string]any{"app": "web", v1alpha1.LabelName: "web", v1alpha1.LabelSubset: worlds.SubsetName(k)}
}

// object returns the Deployment of a subset.
func (w *game) object(s *state, k int) *unstructured.Unstructured {
	c := &s.Children[k]
	annotations := w.Annotations(c.Record, c.ParentGeneration)
	annotations["deployment.kubernetes.io/revision"] = "1"
	spec := map[string]any{
		"replicas": int64(c.Replicas), "progressDeadlineSeconds": int64(600), "revisionHistoryLimit": int64(10),
		"selector": map[string]any{"matchLabels": labels(k)},
		"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(c.maxSurge()), "maxUnavailable": int64(w.maxUnavailable(c))}},
		"template": w.templates[[2]uint8{uint8(k), c.Template}],
	}
	if w.MinReady {
		spec["minReadySeconds"] = int64(60)
	}
	if c.Paused {
		spec["paused"] = true
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"namespace": "shop", "name": "web-" + worlds.SubsetName(k), "uid": c.uid(k), "generation": c.generation(),
			"annotations": annotations, "labels": labels(k), "creationTimestamp": "2025-12-01T00:00:00Z",
			"ownerReferences": []any{map[string]any{"apiVersion": "apps.united.dev/v1alpha1", "kind": "UnitedDeployment",
				"name": "web", "uid": "web", "controller": true, "blockOwnerDeletion": true}},
		},
		"spec": spec, "status": c.status(),
	}}
}

// status returns the status of the Deployment.
func (c *child) status() map[string]any {
	observed := int64(1)
	if c.Observed {
		observed = c.generation()
	}
	status := map[string]any{
		"observedGeneration": observed, "replicas": int64(c.StatusReplicas), "updatedReplicas": int64(c.StatusUpdated),
		"availableReplicas": int64(c.StatusAvailable), "readyReplicas": int64(c.StatusAvailable),
		"unavailableReplicas": max(0, int64(c.StatusReplicas)-int64(c.StatusAvailable)),
	}
	if c.Progress != noProgress {
		reason := map[progress]string{progressDone: "NewReplicaSetAvailable", progressing: "ReplicaSetUpdated", deadlineExceeded: "ProgressDeadlineExceeded"}
		value := "True"
		if c.Progress == deadlineExceeded {
			value = "False"
		}
		status["conditions"] = []any{map[string]any{"type": "Progressing", "status": value, "reason": reason[c.Progress]}}
	}
	return status
}

// dependents returns the ReplicaSets and pods of a Deployment.
func (w *game) dependents(s *state, k int) (have adapters.Dependents) {
	c := &s.Children[k]
	for v := uint8(1); v <= worlds.MaxVersion; v++ {
		if c.ReplicaSets[v].Exists {
			have.Related = append(have.Related, w.replicaSet(c, k, v))
		}
	}
	for n := range c.Pods {
		if c.Pods[n].Version != 0 {
			have.Pods = append(have.Pods, c.pod(k, n, worlds.At(s.Now)))
		}
	}
	return have
}

func (w *game) replicaSet(c *child, k int, version uint8) *unstructured.Unstructured {
	r := &c.ReplicaSets[version]
	template := runtime.DeepCopyJSON(w.templates[[2]uint8{uint8(k), version}])
	if err := unstructured.SetNestedField(template, hashOf(version), "metadata", "labels", "pod-template-hash"); err != nil {
		panic(err)
	}
	own := labels(k)
	own["pod-template-hash"] = hashOf(version)
	have, available := int64(c.count(of(version))), int64(c.count(of(version), w.available))
	meta := map[string]any{
		"namespace": "shop", "name": replicaSetName(k, version), "uid": c.replicaSetUID(k, version),
		"labels": own, "creationTimestamp": epoch.Add(-time.Hour + time.Duration(r.Age)*time.Second).Format(time.RFC3339),
		"annotations": map[string]any{"deployment.kubernetes.io/desired-replicas": strconv.Itoa(int(r.Desired)), "deployment.kubernetes.io/revision": strconv.Itoa(int(r.Age))},
	}
	if !c.Orphaned {
		meta["ownerReferences"] = []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web-" + worlds.SubsetName(k),
			"uid": c.uid(k), "controller": true, "blockOwnerDeletion": true}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta,
		"spec":   map[string]any{"replicas": int64(r.Replicas), "selector": map[string]any{"matchLabels": own}, "template": template},
		"status": map[string]any{"replicas": have, "readyReplicas": available, "availableReplicas": available, "observedGeneration": int64(1)},
	}}
}

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
	changed := now
	if p.Aged {
		changed = now.Add(-worlds.Tick)
	}
	created := changed
	if p.WasReady {
		created = changed.Add(-time.Minute)
	}
	own := map[string]string{"pod-template-hash": hashOf(p.Version)}
	for key, v := range labels(k) {
		own[key] = v.(string)
	}
	name := fmt.Sprintf("%s-%d", replicaSetName(k, p.Version), n)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), Labels: own, CreationTimestamp: metav1.NewTime(created),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSetName(k, p.Version),
				UID: types.UID(c.replicaSetUID(k, p.Version)), Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: ptr.To(metav1.NewTime(created)),
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: state, LastTransitionTime: metav1.NewTime(changed)},
				{Type: corev1.ContainersReady, Status: state, LastTransitionTime: metav1.NewTime(changed)},
			},
			ContainerStatuses: []corev1.ContainerStatus{container},
		},
	}
}
