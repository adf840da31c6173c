// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

func childName(k int) string { return "web-" + worlds.SubsetName(k) }

func leaderName(k, i int) string { return fmt.Sprintf("%s-%d", childName(k), i) }

func (c *child) uid(k int) string { return fmt.Sprintf("%s-%d", worlds.SubsetName(k), c.Incarnation) }

func (c *child) setUID(k int) string {
	return fmt.Sprintf("%s-leaders-%d", worlds.SubsetName(k), c.LeadersAre)
}

func (c *child) podUID(k, i int) string {
	return fmt.Sprintf("%s-%d-v%d", worlds.SubsetName(k), i, c.version(i))
}

func keyOf(version uint8) string { return fmt.Sprintf("key%d", version) }

// setRevision returns the name of the StatefulSet's own revision of a version; "" if there is none.
func setRevision(k int, version statefulset.Version) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf("%s-h%d", childName(k), version)
}

// generation differs for each content of the spec; setGeneration does the same for the StatefulSet of the leaders.
func (c *child) generation() int64 {
	return int64(2) + int64(c.Replicas) + 16*int64(c.Partition) + 4096*int64(c.MaxUnavailable) + 4096*128*int64(c.Template)
}

func (c *child) setGeneration() int64 {
	set := &c.Leaders
	return int64(2) + int64(set.Replicas) + 16*int64(set.Partition) + 4096*int64(c.Pace) + 4096*128*int64(set.Template)
}

func observed(generation int64, is bool) int64 {
	if is {
		return generation
	}
	return 1
}

// partitionField returns a partition as in an object.
func partitionField(partition uint8) int64 {
	if partition == worlds.All {
		return math.MaxInt32
	}
	return int64(partition)
}

func labels(k int) map[string]string {
	return map[string]string{"app": "web", v1alpha1.LabelName: "web", v1alpha1.LabelSubset: worlds.SubsetName(k)}
}

// asJSON converts an object to the form in which the API server has it.
func asJSON(v any) map[string]any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		panic(err)
	}
	return object
}

// object returns the LeaderWorkerSet of a subset, with what its webhook and its CustomResourceDefinition add.
func (w *game) object(s *state, k int) *unstructured.Unstructured {
	c := &s.Children[k]
	pace := any(int64(c.MaxUnavailable))
	if c.MaxUnavailable == unbounded {
		pace = "100%"
	}
	own := map[string]any{}
	for key, v := range labels(k) {
		own[key] = v
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
		"metadata": map[string]any{
			"namespace": "shop", "name": childName(k), "uid": c.uid(k), "generation": c.generation(),
			"annotations": w.Annotations(c.Record, c.ParentGeneration), "labels": own, "creationTimestamp": "2025-12-01T00:00:00Z",
			"ownerReferences": []any{map[string]any{"apiVersion": "apps.united.dev/v1alpha1", "kind": "UnitedDeployment",
				"name": "web", "uid": "web", "controller": true, "blockOwnerDeletion": true}},
		},
		"spec": map[string]any{
			"replicas": int64(c.Replicas), "startupPolicy": "LeaderCreated", "networkConfig": map[string]any{"subdomainPolicy": "Shared"},
			"leaderWorkerTemplate": w.group(k, c.Template),
			"rolloutStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdateConfiguration": map[string]any{
				"partition": partitionField(c.Partition), "maxUnavailable": pace, "maxSurge": int64(0)}},
		},
		"status": map[string]any{"observedGeneration": observed(c.generation(), c.Observed), "replicas": int64(c.count())},
	}}
}

// group returns a copy of spec.leaderWorkerTemplate of a version.
func (w *game) group(k int, version uint8) map[string]any {
	key := fmt.Sprint(k, version)
	if w.rendered[key] == nil {
		template := asJSON(w.templates[[2]uint8{uint8(k), version}])
		template["size"] = int64(template["size"].(float64))
		w.rendered[key] = template
	}
	return runtime.DeepCopyJSON(w.rendered[key])
}

// theirs returns the objects that belong to a child, as the cache has them.
func (w *game) theirs(s *state, k int) (have adapters.Dependents) {
	c := &s.Children[k]
	for v := uint8(1); v <= worlds.MaxVersion; v++ {
		if c.Numbers[v] != 0 {
			have.Related = append(have.Related, w.revision(c, k, v))
		}
	}
	if c.Leaders.Exists {
		have.Related = append(have.Related, w.leaders(c, k))
	}
	for i := range maxGroups {
		if c.Leaders.Pods[i].Exists() {
			have.Pods = append(have.Pods, w.leader(c, k, i, worlds.At(s.Now)))
		}
		if wk := &c.Workers[i]; wk.Version != 0 {
			have.Related = append(have.Related, w.workerSet(c, k, i))
			have.Pods = append(have.Pods, w.workerPod(c, k, i, worlds.At(s.Now)))
		}
	}
	for _, related := range have.Related {
		w.Adapter.(adapters.Delegating).Reduce(related)
	}
	return have
}

// revision returns a ControllerRevision of the LeaderWorkerSet (pkg/utils/revision, NewRevision and getPatch).
func (w *game) revision(c *child, k int, version uint8) *unstructured.Unstructured {
	group := w.group(k, version)
	group["$patch"] = "replace"
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": int64(c.Numbers[version]),
		"metadata": map[string]any{"namespace": "shop", "name": fmt.Sprintf("%s-%s-%d", childName(k), keyOf(version), c.Numbers[version]),
			"labels": map[string]any{lwsv1.SetNameLabelKey: childName(k), lwsv1.RevisionKey: keyOf(version)}},
		"data": map[string]any{"spec": map[string]any{
			"leaderWorkerTemplate": group, "networkConfig": map[string]any{"subdomainPolicy": "Shared", "$patch": "replace"}}},
	}}
	if c.Orphans&worlds.Bit(version) == 0 {
		u.SetOwnerReferences(controlledBy("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", childName(k), c.uid(k)))
	}
	return u
}

func controlledBy(apiVersion, kind, name, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
}

// leaders returns the StatefulSet of the leaders.
func (w *game) leaders(c *child, k int) *unstructured.Unstructured {
	set := &c.Leaders
	template := w.group(k, uint8(set.Template))["workerTemplate"].(map[string]any)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{
			"namespace": "shop", "name": childName(k), "uid": c.setUID(k), "generation": c.setGeneration(),
			"labels":      map[string]any{lwsv1.SetNameLabelKey: childName(k), lwsv1.RevisionKey: keyOf(c.Key)},
			"annotations": map[string]any{lwsv1.ReplicasAnnotationKey: strconv.Itoa(int(c.Asked))},
		},
		"spec": map[string]any{
			"replicas": int64(set.Replicas), "podManagementPolicy": "Parallel", "template": template,
			"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
				"partition": partitionField(set.Partition), "maxUnavailable": int64(c.Pace)}},
		},
		"status": map[string]any{
			"observedGeneration": observed(c.setGeneration(), set.Observed), "replicas": int64(c.count()),
			"currentRevision": setRevision(k, set.Current), "updateRevision": setRevision(k, set.Update),
		},
	}}
	if c.Owned {
		u.SetOwnerReferences(controlledBy("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", childName(k), c.uid(k)))
	}
	return u
}

// workerSet returns the StatefulSet of the workers of a group.
func (w *game) workerSet(c *child, k, i int) *unstructured.Unstructured {
	wk := &c.Workers[i]
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{
			"namespace": "shop", "name": leaderName(k, i), "uid": c.workerSetUID(k, i), "generation": int64(1),
			"labels": map[string]any{lwsv1.SetNameLabelKey: childName(k), lwsv1.RevisionKey: keyOf(wk.Version), lwsv1.GroupIndexLabelKey: strconv.Itoa(i)},
		},
		"spec": map[string]any{"replicas": int64(1), "podManagementPolicy": "Parallel", "template": w.group(k, wk.Version)["workerTemplate"]},
		"status": map[string]any{"observedGeneration": int64(1), "replicas": int64(1), "currentRevision": "w", "updateRevision": "w",
			"availableReplicas": int64(worlds.Int(wk.Phase == statefulset.Ready))},
	}}
	u.SetOwnerReferences(controlledBy("v1", "Pod", leaderName(k, i), c.leaderUIDOf(k, i)))
	return u
}

func (c *child) workerSetUID(k, i int) string { return "workers-of-" + c.leaderUIDOf(k, i) }

// leaderUIDOf returns the UID of the leader to which the workers of a group belong.
func (c *child) leaderUIDOf(k, i int) string {
	if c.Workers[i].Stale {
		return fmt.Sprintf("%s-%d-gone", worlds.SubsetName(k), i)
	}
	return c.podUID(k, i)
}

func (w *game) podLabels(k, i int, version uint8, index string) map[string]string {
	own := labels(k)
	maps.Copy(own, map[string]string{
		lwsv1.SetNameLabelKey: childName(k), lwsv1.GroupIndexLabelKey: strconv.Itoa(i), lwsv1.WorkerIndexLabelKey: index,
		lwsv1.RevisionKey: keyOf(version), lwsv1.GroupUniqueHashLabelKey: "group-" + leaderName(k, i),
	})
	return own
}

func (w *game) leader(c *child, k, i int, now time.Time) *corev1.Pod {
	p := &c.Leaders.Pods[i]
	made := podOf(p.Phase, p.Aged, p.WasReady, p.Terminating, now)
	made.Name, made.UID = leaderName(k, i), types.UID(c.podUID(k, i))
	made.Labels = w.podLabels(k, i, c.version(i), "0")
	made.Labels["controller-revision-hash"] = setRevision(k, p.Version)
	made.Annotations = map[string]string{lwsv1.SizeAnnotationKey: strconv.Itoa(1 + worlds.Int(w.workers))}
	if p.Owner == statefulset.Mine {
		made.OwnerReferences = controlledBy("apps/v1", "StatefulSet", childName(k), c.setUID(k))
	}
	return made
}

func (w *game) workerPod(c *child, k, i int, now time.Time) *corev1.Pod {
	wk := &c.Workers[i]
	made := podOf(wk.Phase, wk.Aged, wk.WasReady, false, now)
	made.Name = leaderName(k, i) + "-1"
	made.UID = types.UID("worker-of-" + c.leaderUIDOf(k, i))
	made.Labels = w.podLabels(k, i, wk.Version, "1")
	made.Labels["controller-revision-hash"] = leaderName(k, i) + "-w"
	made.Annotations = map[string]string{lwsv1.SizeAnnotationKey: "2", lwsv1.LeaderPodNameAnnotationKey: leaderName(k, i)}
	made.OwnerReferences = controlledBy("apps/v1", "StatefulSet", leaderName(k, i), c.workerSetUID(k, i))
	return made
}

// podOf returns a pod in a phase.
func podOf(phase statefulset.Phase, aged, wasReady, terminating bool, now time.Time) *corev1.Pod {
	ready, container := corev1.ConditionFalse, corev1.ContainerStatus{Name: "web"}
	switch phase {
	case statefulset.Ready:
		ready, container.Ready = corev1.ConditionTrue, true
	case statefulset.Crashed:
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		container.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	case statefulset.Absent, statefulset.Starting, statefulset.Unready:
	}
	changed := now
	if aged {
		changed = now.Add(-worlds.Tick)
	}
	created := changed
	if wasReady {
		created = changed.Add(-time.Minute)
	}
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", CreationTimestamp: metav1.NewTime(created)},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: ptr.To(metav1.NewTime(created)),
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(changed)},
				{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: metav1.NewTime(changed)},
			},
			ContainerStatuses: []corev1.ContainerStatus{container},
		},
	}
	if terminating {
		made.DeletionTimestamp, made.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now.Add(30*time.Second))), ptr.To(int64(30))
	}
	return made
}
