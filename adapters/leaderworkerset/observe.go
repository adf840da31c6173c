// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkerset

import (
	"fmt"
	"math"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/ordinals"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/pods"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Observe reads a LeaderWorkerSet, its StatefulSets and ControllerRevisions, and its pods: one replica for each leader,
// which includes its workers.
//
// Its revisions are those of the leaders' StatefulSet.
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	set, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:            set.ObjectMeta,
		Traits:          a.Traits(),
		Replicas:        ptr.Deref(set.Spec.Replicas, 1), // the API server sets this default
		MinReadySeconds: minReadySeconds(set),
	}
	if rolling := set.Spec.RolloutStrategy.RollingUpdateConfiguration; rolling != nil {
		o.Partition = ptr.Deref(rolling.Partition, 0)
	}
	f, err := familyOf(set, have.Related)
	if err != nil {
		return nil, fmt.Errorf("what %s has others make: %w", set.Name, err)
	}
	leaders := &ordinals.Set{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	if f.leaders == nil {
		o.MissingName = leaders.PodName(0)
		return o, nil
	}
	leaders.UID, o.ReplicaOwner = f.leaders.UID, f.leaders.UID
	o.CurrentHash, o.UpdateHash = f.leaders.Status.CurrentRevision, f.leaders.Status.UpdateRevision
	o.Kept = partitionOf(f.leaders)
	spec, err := adapters.UnpackedSpec(child.Object)
	if err != nil {
		return nil, fmt.Errorf("spec of %s: %w", set.Name, err)
	}
	content := contentOf(spec)
	o.SpecObserved = f.reflects(set, o, content)
	o.Unmade = !o.SpecObserved && f.unmade(content)
	status := &appsv1.StatefulSetStatus{
		Replicas: set.Status.Replicas, ReadyReplicas: set.Status.ReadyReplicas, UpdatedReplicas: set.Status.UpdatedReplicas, UpdateRevision: o.UpdateHash,
	}
	workers := byOwner(have.Pods)
	leaders.Observe(o, status, have.Pods, func(pod *corev1.Pod, position int32) adapters.Replica {
		sole := ptr.Deref(set.Spec.LeaderWorkerTemplate.Size, 1) == 1
		own := f.workers[pod.UID]
		g := &group{Replica: pods.Replica(pod, position, appsv1.ControllerRevisionHashLabelKey)}
		if own != nil {
			g.add(own, workers[own.UID], set.Spec.LeaderWorkerTemplate.RestartPolicy)
		} else if !sole {
			g.lacks(f.whyNoWorkers(pod))
		}
		return g.Replica
	})
	return o, nil
}

// whyNoWorkers says why a leader has no workers. They are created from the revision that the leader's label names.
//
// Trap: the controller of the kind considers a terminating leader as ready. So it can decide that all groups are updated,
// and delete the previous revision, while the leaders' StatefulSet still remembers that: if the group is held at that
// moment, its leader comes back on it and waits forever.
func (f *family) whyNoWorkers(leader *corev1.Pod) string {
	key := leader.Labels[lwsv1.RevisionKey]
	if _, known := f.contents[key]; known || key == "" || len(f.contents) == 0 {
		return "has no workers yet"
	}
	return "gets no workers because the LeaderWorkerSet has deleted its revision; release it, or go back to its version"
}

// reflects reports whether the leaders' StatefulSet has the current spec, and its controller has observed it.
//
// Trap: the status of the child says that its controller has seen the spec, and so has written that StatefulSet. But the
// StatefulSet is another object, and the cached one may be older. Then everything would look updated although nothing is.
// So this compares each part of the spec that reaches the StatefulSet, and the templates through the revision that it
// names.
func (f *family) reflects(set *lwsv1.LeaderWorkerSet, o *adapters.Observed, content string) bool {
	has, known := f.contents[f.leaders.Labels[lwsv1.RevisionKey]]
	return set.Status.ObservedGeneration == set.Generation &&
		f.leaders.DeletionTimestamp == nil &&
		f.leaders.Status.ObservedGeneration == f.leaders.Generation &&
		f.leaders.Annotations[lwsv1.ReplicasAnnotationKey] == strconv.FormatInt(int64(o.Replicas), 10) &&
		partitionOf(f.leaders) >= o.Partition &&
		known && has == content
}

// unmade reports whether the content of the spec is the latest revision of the child's controller, but the leaders'
// StatefulSet has another one. After each change of the template this is true for milliseconds, between two writes; it
// stays true if the API server rejects the StatefulSet because no pod can be created from it.
func (f *family) unmade(content string) bool {
	return f.latest.content != "" && f.latest.content == content && f.latest.key != f.leaders.Labels[lwsv1.RevisionKey]
}

func partitionOf(set *appsv1.StatefulSet) int32 {
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		return ptr.Deref(rolling.Partition, 0)
	}
	return 0
}

// minReadySeconds returns what SetControllerFields has recorded.
func minReadySeconds(set *lwsv1.LeaderWorkerSet) int32 {
	seconds, err := strconv.ParseInt(set.Annotations[v1alpha1.AnnotationMinReadySeconds], 10, 32)
	if err != nil || seconds < 0 {
		return 0
	}
	return int32(seconds)
}

// byOwner returns pods by the UID of their controller.
func byOwner(all []*corev1.Pod) map[types.UID][]*corev1.Pod {
	owned := map[types.UID][]*corev1.Pod{}
	for _, pod := range all {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			owned[owner.UID] = append(owned[owner.UID], pod)
		}
	}
	return owned
}

// group is a replica; at first it has only its leader.
type group struct{ adapters.Replica }

// add adds the workers of the leader. The group is ready when all are, since the last of them became ready; and it has
// the failures of all of them.
func (g *group) add(set *appsv1.StatefulSet, members []*corev1.Pod, restarts lwsv1.RestartPolicyType) {
	living := int32(0)
	ready, readySince := g.Ready, g.ReadySince
	for _, pod := range members {
		m := pods.Replica(pod, 0, appsv1.ControllerRevisionHashLabelKey)
		if m.Terminating {
			continue
		}
		living++
		g.Placed, g.Gated = g.Placed && m.Placed, g.Gated || m.Gated
		if m.ReadySince.After(readySince) {
			readySince = m.ReadySince
		}
		if m.Ready {
			continue
		}
		if ready || m.Since.Before(g.Since) {
			g.Since = m.Since
		}
		ready = false
		// Unless the whole group is replaced, this worker may not be the first one.
		g.NeverReady = g.NeverReady || m.NeverReady && restarts == lwsv1.RecreateGroupOnPodRestart
		g.Crashed = g.Crashed || m.Crashed
		if g.Failure == "" {
			g.Failure = m.Failure
		}
		if g.Unschedulable == "" {
			g.Unschedulable, g.UnschedulableSince = m.Unschedulable, m.UnschedulableSince
		}
	}
	g.Ready, g.ReadySince = ready, readySince
	if !ready {
		g.ReadySince = time.Time{}
	}
	if wanted := ptr.Deref(set.Spec.Replicas, 1); living < wanted {
		g.lacks(fmt.Sprintf("has %d of %d workers", living, wanted))
	}
}

// lacks makes a group unready that would be ready with its missing workers.
func (g *group) lacks(what string) {
	if g.Ready {
		g.Ready, g.ReadySince, g.Lacks = false, time.Time{}, what
	}
}

// Orphans counts the leaders of a StatefulSet with the child's name. If it outlived its LeaderWorkerSet, the next one
// takes it over, and would delete leaders for which it has no replicas.
func (a adapter) Orphans(child *unstructured.Unstructured, all []corev1.Pod) int32 {
	set, err := a.typed(child)
	if err != nil {
		return 0
	}
	leaders := &ordinals.Set{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	var needed int32
	for i := range all {
		pod := &all[i]
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind != a.Delegate().Kind || owner.Name != set.Name || pod.DeletionTimestamp != nil || pod.Namespace != set.Namespace {
			continue
		}
		if position, ok := leaders.Position(pod.Name); ok && position < math.MaxInt32 {
			needed = max(needed, position+1)
		}
	}
	return needed
}

// typed converts a child without its templates.
func (a adapter) typed(child *unstructured.Unstructured) (*lwsv1.LeaderWorkerSet, error) {
	set := &lwsv1.LeaderWorkerSet{}
	if err := owned.Read(child, a.GroupVersionKind(), set, "leaderWorkerTemplate", "networkConfig"); err != nil {
		return nil, err
	}
	template := nested(child.Object, "spec", "leaderWorkerTemplate")
	if size, ok := template["size"].(int64); ok {
		set.Spec.LeaderWorkerTemplate.Size = ptr.To(int32(size))
	}
	restarts, _ := template["restartPolicy"].(string)
	set.Spec.LeaderWorkerTemplate.RestartPolicy = lwsv1.RestartPolicyType(restarts)
	return set, nil
}
