// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	kruisev1alpha1 "github.com/openkruise/kruise-api/apps/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/kruise"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/pods"
)

// Observe reads a CloneSet and the pods that it controls. Their positions are ranks, see rank. Observe ignores pods
// that have ended, as the CloneSet does: it has created others instead.
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	set, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:            set.ObjectMeta,
		Traits:          a.Traits(),
		Replicas:        ptr.Deref(set.Spec.Replicas, 1), // the webhook of the kind sets this default
		MinReadySeconds: set.Spec.MinReadySeconds,
		SpecObserved:    set.Status.ObservedGeneration == set.Generation,
		CurrentHash:     set.Status.CurrentRevision,
		UpdateHash:      set.Status.UpdateRevision,
	}
	o.Partition = partitionOf(set.Spec.UpdateStrategy.Partition, o.Replicas)
	var found []ranked
	for _, pod := range have.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.UID != set.UID || pod.Namespace != set.Namespace || over(pod) {
			continue
		}
		found = append(found, replica(set, pod))
	}
	o.StatusOutdated = trailing(&set.Status, found)
	rank(o, found)
	return o, nil
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// replica reads a pod.
func replica(set *kruisev1alpha1.CloneSet, pod *corev1.Pod) ranked {
	r := ranked{podReady: pods.Replica(pod, 0, "").Ready, pending: pod.Status.Phase == corev1.PodPending || pod.Status.Phase == ""}
	r.Replica, r.marked = kruise.Replica(set.Name, pod, 0)
	return r
}

// partitionOf returns the partition as the controller of the kind interprets it. United writes numbers; somebody else
// may have written a percentage, which always updates at least one pod.
func partitionOf(partition *intstr.IntOrString, replicas int32) int32 {
	if partition == nil {
		return 0
	}
	if partition.Type == intstr.Int {
		return max(0, partition.IntVal)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(partition, int(replicas), true)
	switch {
	case err != nil:
		return 0 // like the controller of the kind
	case replicas > 1 && n >= int(replicas) && partition.StrVal != "100%":
		return replicas - 1
	}
	return int32(max(0, min(n, int(replicas))))
}

// trailing reports whether the status counts other pods than exist. Like the CloneSet, it does not count terminating
// ones.
func trailing(status *kruisev1alpha1.CloneSetStatus, found []ranked) bool {
	var all, ready, updated int32
	for i := range found {
		if found[i].Terminating {
			continue
		}
		all++
		if found[i].podReady {
			ready++
		}
		if found[i].Hash == status.UpdateRevision {
			updated++
		}
	}
	return status.Replicas != all || status.ReadyReplicas != ready || status.UpdatedReplicas != updated
}

// typed converts a child without the fields that nobody reads.
func (a adapter) typed(child *unstructured.Unstructured) (*kruisev1alpha1.CloneSet, error) {
	set := &kruisev1alpha1.CloneSet{}
	return set, owned.Read(child, a.GroupVersionKind(), set, "template", "volumeClaimTemplates", "lifecycle", "scaleStrategy")
}
