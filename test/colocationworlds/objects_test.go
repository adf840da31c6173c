// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// all is a partition of a child that protects all replicas. On the object it is the highest number.
const all = 255

// childKey is everything of a state that the object of a child, and its pods, show.
type childKey struct {
	k          int
	set        statefulset.Set
	pods       [statefulset.MaxPods]statefulset.Pod
	record     uint32
	generation uint8
}

// read reads the children, and their pods from theirs, which may be an earlier state.
func (w *game) read(in *planner.Input, s, theirs *state) {
	in.Pods = map[string][]*corev1.Pod{}
	for k := range s.Kids {
		name := subsetName(k)
		in.Pods[name] = w.podsOf(k, &theirs.Kids[k].Set)
		if s.Kids[k].Set.Exists {
			in.Children[name] = w.observe(s, theirs, k)
		}
	}
}

// observe reads a child through the adapter.
func (w *game) observe(s, theirs *state, k int) *world.Child {
	c := &s.Kids[k]
	key := childKey{k, c.Set, theirs.Kids[k].Set.Pods, c.Record, c.Generation}
	key.set.Pods = [statefulset.MaxPods]statefulset.Pod{}
	child := w.children[key]
	if child == nil {
		u := w.object(c, k)
		o, err := w.adapter.Observe(u, adapters.Dependents{Pods: w.podsOf(k, &theirs.Kids[k].Set)})
		if err != nil {
			panic(err)
		}
		child = &world.Child{Object: u, Observed: o}
		w.children[key] = child
	}
	o := *child.Observed
	o.StatusOutdated = false // how long a step may take does not matter here
	return &world.Child{Object: child.Object, Observed: &o}
}

func (w *game) object(c *kid, k int) *unstructured.Unstructured {
	hash := func(v statefulset.Version) string {
		if v == 0 {
			return ""
		}
		return hashOf(k, v)
	}
	partition := int64(c.Set.Partition)
	if partition == all {
		partition = math.MaxInt32
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"namespace": "shop", "name": "web-" + subsetName(k), "uid": subsetName(k)},
	}}
	annotations := maps.Clone(w.records.values[c.Record])
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationParentGeneration] = strconv.Itoa(int(c.Generation))
	u.SetAnnotations(annotations)
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

func hashOf(k int, v statefulset.Version) string { return fmt.Sprintf("web-%s-%d", subsetName(k), v) }

func (w *game) podsOf(k int, set *statefulset.Set) (pods []*corev1.Pod) {
	for i := range set.Pods {
		if p := &set.Pods[i]; p.Exists() {
			pods = append(pods, w.podOf(k, i, p))
		}
	}
	return pods
}

// podOf returns a pod as the API server has it.
func (w *game) podOf(k, ordinal int, p *statefulset.Pod) *corev1.Pod {
	changed := now.Add(-time.Second)
	if p.Aged {
		changed = ago(oldAge)
	}
	created := changed
	if p.WasReady {
		created = changed.Add(-time.Minute)
	}
	uid := subsetName(k)
	if p.Owner == statefulset.Former {
		uid = "former-" + uid
	}
	name := fmt.Sprintf("web-%s-%d", subsetName(k), ordinal)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created),
			Labels: map[string]string{
				"app": "web", v1alpha1.LabelName: "web", v1alpha1.LabelSubset: subsetName(k),
				appsv1.ControllerRevisionHashLabelKey: hashOf(k, p.Version),
			},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: types.UID(uid), Controller: ptr.To(true)}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	v := w.versions[p.Version-1]
	if ratio := v.ratio(k); ratio > 0 {
		pod.Labels[v1alpha1.LabelColocation], pod.Labels[v1alpha1.LabelColocationRatio] = v.id, strconv.Itoa(ratio)
		pod.Labels[v1alpha1.LabelColocationGroup] = strconv.Itoa(ordinal / ratio)
	}
	if p.Terminating {
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(now))
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
	pod.Spec.NodeName = fmt.Sprint("node-", domainOf(p))
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
