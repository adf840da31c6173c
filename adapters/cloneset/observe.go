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

// Observe reads a CloneSet and those of the pods that it controls. Their positions are
// ranks, see rank. Pods that have ended are passed over, as the CloneSet does: it has made
// others in their place.
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	set, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:            set.ObjectMeta,
		Traits:          a.Traits(),
		Replicas:        ptr.Deref(set.Spec.Replicas, 1), // what its webhook makes of an absent one
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

// replica is what a pod tells.
func replica(set *kruisev1alpha1.CloneSet, pod *corev1.Pod) ranked {
	r := ranked{podReady: pods.Replica(pod, 0, "").Ready, pending: pod.Status.Phase == corev1.PodPending || pod.Status.Phase == ""}
	r.Replica, r.marked = kruise.Replica(set.Name, pod, 0)
	return r
}

// partitionOf is the partition as its controller reads it. United writes numbers; what
// somebody else wrote may be a percentage, of which at least one pod is updated.
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
		return 0 // its controller takes it for that
	case replicas > 1 && n >= int(replicas) && partition.StrVal != "100%":
		return replicas - 1
	}
	return int32(max(0, min(n, int(replicas))))
}

// trailing reports whether the status counts other pods than there are, the way the CloneSet
// counts: one that is being deleted is none.
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

// typed reads a child less what is not looked at.
func (a adapter) typed(child *unstructured.Unstructured) (*kruisev1alpha1.CloneSet, error) {
	set := &kruisev1alpha1.CloneSet{}
	return set, owned.Read(child, a.GroupVersionKind(), set, "template", "volumeClaimTemplates", "lifecycle", "scaleStrategy")
}
