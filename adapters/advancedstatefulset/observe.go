// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package advancedstatefulset

import (
	"strconv"
	"strings"

	kruisev1beta1 "github.com/openkruise/kruise-api/apps/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/kruise"
	"github.com/unitedworkloads/united/adapters/internal/ordinals"
	"github.com/unitedworkloads/united/adapters/internal/owned"
)

// Observe reads an Advanced StatefulSet and the pods that it controls.
//
// Its partition counts replicas, and so do positions: a reserved ordinal has none.
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	set, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:         set.ObjectMeta,
		Traits:       a.Traits(),
		Replicas:     ptr.Deref(set.Spec.Replicas, 1), // the webhook of the kind sets this default
		NoPartition:  set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		Ordered:      set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
		SpecObserved: set.Status.ObservedGeneration == set.Generation,
		CurrentHash:  set.Status.CurrentRevision,
		UpdateHash:   set.Status.UpdateRevision,
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		o.Partition, o.MinReadySeconds = ptr.Deref(rolling.Partition, 0), ptr.Deref(rolling.MinReadySeconds, 0)
	}
	status := &appsv1.StatefulSetStatus{
		Replicas: set.Status.Replicas, ReadyReplicas: set.Status.ReadyReplicas, UpdatedReplicas: set.Status.UpdatedReplicas, UpdateRevision: set.Status.UpdateRevision,
	}
	numbered(set).Observe(o, status, have.Pods, func(pod *corev1.Pod, position int32) adapters.Replica {
		r, _ := kruise.Replica(set.Name, pod, position)
		return r
	})
	return o, nil
}

// Orphans counts the pods that the controller of the kind adopts, in the same way as for a StatefulSet.
func (a adapter) Orphans(child *unstructured.Unstructured, pods []corev1.Pod) int32 {
	set, err := a.typed(child)
	if err != nil {
		return 0
	}
	return numbered(set).Orphans(set.Spec.Selector, pods)
}

// typed converts a child without the fields that nobody reads.
func (a adapter) typed(child *unstructured.Unstructured) (*kruisev1beta1.StatefulSet, error) {
	set := &kruisev1beta1.StatefulSet{}
	return set, owned.Read(child, a.GroupVersionKind(), set, "template", "volumeClaimTemplates", "lifecycle")
}

func numbered(set *kruisev1beta1.StatefulSet) *ordinals.Set {
	n := &ordinals.Set{ObjectMeta: set.ObjectMeta, Reserved: reserved(set.Spec.ReserveOrdinals)}
	if set.Spec.Ordinals != nil {
		n.First = set.Spec.Ordinals.Start
	}
	return n
}

// reserved parses numbers and ranges, such as "3-5". If one is invalid, the controller of the kind reserves nothing.
func reserved(list []intstr.IntOrString) [][2]int32 {
	var ranges [][2]int32
	for _, item := range list {
		if item.Type == intstr.Int {
			ranges = append(ranges, [2]int32{item.IntVal, item.IntVal})
			continue
		}
		first, last, found := strings.Cut(item.StrVal, "-")
		if !found {
			last = first
		}
		from, errFrom := strconv.ParseInt(strings.TrimSpace(first), 10, 32)
		to, errTo := strconv.ParseInt(strings.TrimSpace(last), 10, 32)
		if errFrom != nil || errTo != nil {
			return nil
		}
		ranges = append(ranges, [2]int32{int32(from), int32(to)})
	}
	return ranges
}
