// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Sets simulates the StatefulSet controller, the kubelets and the garbage collector on the server of API, one action at a
// time. The StatefulSet controller follows pkg/controller/statefulset/stateful_set_control.go of Kubernetes, without
// volumes.
type Sets struct {
	api *API
	// Version is that of the StatefulSet controller.
	Version Version
	// Down are the sets whose nodes are lost: no pod starts there, and terminating ones stay.
	Down map[string]bool
	// flaps are pods that are unready until the given time.
	flaps map[types.UID]time.Time
	// shown, if set, are the revisions that the StatefulSet controller's cache shows until lags, by set: it has received
	// none since the API server restarted.
	shown map[string]map[string]ownRevision
	lags  time.Time
	// creates and deletes are called for each replica of a set that is created or deleted, of any parent.
	creates func(set *appsv1.StatefulSet, position int32, pod *corev1.Pod)
	deletes func(set *appsv1.StatefulSet, position int32, pod *corev1.Pod, why string)
	// finishes is called when all replicas of a set are updated and ready.
	finishes func(set *unstructured.Unstructured)
}

// typed converts a set. The result is cached, because stored objects are immutable.
func (a *API) typed(u *unstructured.Unstructured) *appsv1.StatefulSet {
	set := a.read[u]
	if set == nil {
		set = typedSet(u)
		a.read[u] = set
	}
	return set
}

func typedSet(u *unstructured.Unstructured) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, set); err != nil {
		panic(err)
	}
	return set
}

// hashOf returns the name of the set's own revision of a template. It depends only on the template, and not on the set's
// UID. The result is cached for each stored set.
func (a *API) hashOf(u *unstructured.Unstructured) string {
	hash, known := a.hashes[u]
	if !known {
		hash = reckonHash(u)
		a.hashes[u] = hash
	}
	return hash
}

func reckonHash(u *unstructured.Unstructured) string {
	spec, _ := u.Object["spec"].(map[string]any)
	raw, err := json.Marshal(spec["template"])
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s-%x", u.GetName(), sha256.Sum256(raw))[:len(u.GetName())+6]
}

// ownRevision is a revision that the StatefulSet controller stores for a set.
type ownRevision struct {
	template *corev1.PodTemplateSpec
	// owner is the UID of the set, "" after the set was deleted with orphaning.
	owner types.UID
}

// pass is one sync of one set.
type pass struct {
	sim             *Sets
	set             *appsv1.StatefulSet
	current, update string
	revisions       map[string]*ownRevision // by hash
	replicas        []*corev1.Pod
	// created are replicas that this sync has created, which are not counted yet.
	created   map[int]bool
	condemned []*corev1.Pod
}

// Sync is one sync of a set by the StatefulSet controller.
func (s *Sets) Sync(name string) {
	u := s.api.Live.Sets[name]
	if u == nil {
		return
	}
	p := &pass{sim: s, set: s.api.typed(u), created: map[int]bool{}}
	p.name(s.api.hashOf(u))
	p.sort(s.claim(p.set))
	p.run()
	p.writeStatus(u)
}

// name finds the current and the update revision, like getStatefulSetRevisions: among those that its cache shows. A
// create finds revisions that the cache does not show yet. Trap: if an earlier set of the same name has left a revision
// with the same name and content, it becomes the update revision, but is not found as the current one. And a current
// revision that the cache does not show is forgotten.
func (p *pass) name(update string) {
	if p.sim.api.own[p.set.Name] == nil {
		p.sim.api.own[p.set.Name] = map[string]*ownRevision{}
	}
	own := p.sim.api.own[p.set.Name]
	p.revisions, p.update, p.current = map[string]*ownRevision{}, update, update
	for hash, r := range p.sim.revisionsOf(p.set.Name) {
		if live := own[hash]; r.owner == "" && live != nil && live.owner == "" {
			live.owner = p.set.UID
		}
		if r.owner == "" || r.owner == p.set.UID {
			p.revisions[hash] = &r
		}
	}
	if own[update] == nil && p.revisions[update] == nil {
		own[update] = &ownRevision{p.set.Spec.Template.DeepCopy(), p.set.UID}
	}
	was := p.set.Status.CurrentRevision
	switch live := own[was]; {
	case p.revisions[was] != nil:
		p.current = was
	case was != update && live != nil && (live.owner == p.set.UID || live.owner == ""):
		p.sim.api.forgot[p.set.UID] = was
	}
	if p.current != update || p.sim.api.forgot[p.set.UID] == update {
		delete(p.sim.api.forgot, p.set.UID)
	}
	if p.revisions[update] == nil {
		p.revisions[update] = own[update]
	}
}

// claim returns the pods of a set, and adopts orphans.
func (s *Sets) claim(set *appsv1.StatefulSet) []*corev1.Pod {
	var pods []*corev1.Pod
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		panic(err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.api.Live.Pods)) {
		pod := s.api.Live.Pods[name]
		owner := metav1.GetControllerOf(pod)
		if OrdinalOf(set.Name, name) < 0 {
			continue
		}
		if owner == nil && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
			pod = pod.DeepCopy()
			pod.OwnerReferences = controlledBy(set.UID)
			s.api.PutPod(pod)
			owner = metav1.GetControllerOf(pod)
		}
		if owner != nil && owner.UID == set.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

func controlledBy(uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: "StatefulSet", UID: uid, Controller: ptr.To(true)}}
}

// OrdinalOf returns the ordinal of a pod of a set, or -1 if it is not one.
func OrdinalOf(set, pod string) int32 {
	text, ok := strings.CutPrefix(pod, set)
	if !ok || !strings.HasPrefix(text, "-") {
		return -1
	}
	n, err := strconv.Atoi(text[1:])
	if err != nil {
		return -1
	}
	return int32(n)
}

func (p *pass) sort(pods []*corev1.Pod) {
	p.replicas = make([]*corev1.Pod, *p.set.Spec.Replicas)
	for _, pod := range pods {
		if ordinal := int(OrdinalOf(p.set.Name, pod.Name)); ordinal < len(p.replicas) {
			p.replicas[ordinal] = pod
		} else {
			p.condemned = append(p.condemned, pod)
		}
	}
	slices.SortFunc(p.condemned, func(a, b *corev1.Pod) int {
		return int(OrdinalOf(p.set.Name, b.Name) - OrdinalOf(p.set.Name, a.Name))
	})
}

// run is updateStatefulSet.
func (p *pass) run() {
	ordered := p.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	failed := false
	for i, pod := range p.replicas {
		// Parallel sets create pods in batches of 1, 2, 4 and so on, and a batch with a failure is the last one.
		if failed && i&(i+1) == 0 {
			return
		}
		if pod == nil {
			failed = !p.create(i) || failed
			if ordered {
				return
			}
			continue
		}
		if ordered && p.unavailable(pod) {
			return
		}
	}
	if failed {
		return
	}
	firstUnhealthy := p.firstUnhealthy()
	for _, pod := range p.condemned {
		switch {
		case pod.DeletionTimestamp != nil:
			if ordered {
				return
			}
			continue
		case ordered && p.unavailable(pod) && pod != firstUnhealthy:
			return
		}
		p.delete(pod, "scale down")
		if ordered {
			return
		}
	}
	if p.sim.Version.maxUnavailable() {
		p.replaceWithin(p.maxUnavailable())
	} else {
		p.replaceOne()
	}
}

// unavailable is isUnavailable: a pod that has to be ready for minReadySeconds is not available in the last of these
// seconds.
func (p *pass) unavailable(pod *corev1.Pod) bool {
	since, ready := readySince(pod)
	if !ready || pod.DeletionTimestamp != nil {
		return true
	}
	wait := time.Duration(p.set.Spec.MinReadySeconds) * time.Second
	return wait > 0 && !since.Add(wait).Before(p.sim.api.Now().Time)
}

func (p *pass) firstUnhealthy() *corev1.Pod {
	for _, pod := range p.replicas {
		if p.unavailable(pod) {
			return pod
		}
	}
	for _, pod := range slices.Backward(p.condemned) {
		if p.unavailable(pod) {
			return pod
		}
	}
	return nil
}

// old reports whether a pod must be replaced when it is released.
func (p *pass) old(pod *corev1.Pod) bool {
	return pod.Labels[appsv1.ControllerRevisionHashLabelKey] != p.update && pod.DeletionTimestamp == nil
}

func (p *pass) partition() int32 {
	return ptr.Deref(p.set.Spec.UpdateStrategy.RollingUpdate.Partition, 0)
}

// create creates a replica; it fails if a pod of that name still exists.
func (p *pass) create(i int) bool {
	hash := p.update
	if i < int(p.partition()) {
		hash = p.current
	}
	template := p.revisions[hash].template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.set.Namespace, Name: fmt.Sprintf("%s-%d", p.set.Name, i),
			Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			OwnerReferences: controlledBy(p.set.UID), CreationTimestamp: p.sim.api.Now(),
		},
		Spec:   *template.Spec.DeepCopy(),
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	p.replicas[i], p.created[i] = pod, true
	if p.sim.api.Live.Pods[pod.Name] != nil {
		return false
	}
	pod.UID = types.UID(p.sim.api.Next())
	p.sim.creates(p.set, int32(i), pod)
	p.sim.api.PutPod(pod)
	return true
}

func (p *pass) delete(pod *corev1.Pod, why string) {
	p.sim.deletes(p.set, OrdinalOf(p.set.Name, pod.Name), pod, why)
	p.sim.api.DeletePod(pod)
}

// writeStatus counts like computeReplicaStatus, on the pods as they were read, and completes a rolling update.
func (p *pass) writeStatus(u *unstructured.Unstructured) {
	var replicas, ready, updated int32
	for i, pod := range append(slices.Clone(p.replicas), p.condemned...) {
		if pod == nil || p.created[i] {
			continue
		}
		// This does not see yet that a pod which the sync has deleted is terminating.
		replicas++
		if IsReady(pod) {
			ready++
		}
		if pod.DeletionTimestamp == nil && pod.Labels[appsv1.ControllerRevisionHashLabelKey] == p.update {
			updated++
		}
	}
	if want := *p.set.Spec.Replicas; updated == want && ready == want && replicas == want {
		p.current = p.update
		if want > 0 {
			p.sim.finishes(u)
		}
	}
	status := map[string]any{
		"observedGeneration": p.set.Generation, "currentRevision": p.current, "updateRevision": p.update,
		"replicas": int64(replicas), "readyReplicas": int64(ready), "updatedReplicas": int64(updated),
	}
	if !equalJSON(u.Object["status"], status) {
		u = u.DeepCopy()
		u.Object["status"] = status
		p.sim.api.PutSet(u)
	}
}
