// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/ordinals"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/pods"
)

// Observe reads a StatefulSet and the pods that it controls. It ignores a pod whose name is not "<name>-<ordinal>",
// as the StatefulSet does.
//
// Package pods has the fields that it reads of a pod.
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	set, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:            set.ObjectMeta,
		Traits:          a.Traits(),
		Replicas:        1, // the API server sets this default
		NoPartition:     set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		MinReadySeconds: set.Spec.MinReadySeconds,
		Ordered:         set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
		SpecObserved:    set.Status.ObservedGeneration == set.Generation,
		CurrentHash:     set.Status.CurrentRevision,
		UpdateHash:      set.Status.UpdateRevision,
	}
	if set.Spec.Replicas != nil {
		o.Replicas = *set.Spec.Replicas
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
		o.Partition = *rolling.Partition
	}
	numbered(set).Observe(o, &set.Status, have.Pods, func(pod *corev1.Pod, position int32) adapters.Replica {
		return pods.Replica(pod, position, appsv1.ControllerRevisionHashLabelKey)
	})
	return o, nil
}

// Orphans counts the pods that the StatefulSet adopts.
func (a adapter) Orphans(child *unstructured.Unstructured, pods []corev1.Pod) int32 {
	set, err := a.typed(child)
	if err != nil {
		return 0
	}
	return numbered(set).Orphans(set.Spec.Selector, pods)
}

// typed converts a child without its templates.
func (a adapter) typed(child *unstructured.Unstructured) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	return set, owned.Read(child, a.GroupVersionKind(), set, "template", "volumeClaimTemplates")
}

func numbered(set *appsv1.StatefulSet) *ordinals.Set {
	n := &ordinals.Set{ObjectMeta: set.ObjectMeta}
	if set.Spec.Ordinals != nil {
		n.First = set.Spec.Ordinals.Start
	}
	return n
}
