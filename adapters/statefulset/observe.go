// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/pods"
)

// Observe reads a StatefulSet and those of the pods that it controls. A pod whose
// name is not "<name>-<ordinal>" is passed over, as the StatefulSet does.
//
// Of a pod it reads what package pods says.
func (a adapter) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	set, err := a.typed(child)
	if err != nil {
		return nil, err
	}
	o := &adapters.Observed{
		Meta:            set.ObjectMeta,
		Traits:          a.Traits(),
		Replicas:        1, // what the API server makes of an absent one
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
	for _, pod := range have.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.UID != set.UID || pod.Namespace != set.Namespace {
			continue
		}
		if position, ok := positionOf(set, pod.Name); ok {
			o.Pods = append(o.Pods, pods.Replica(pod, position, appsv1.ControllerRevisionHashLabelKey))
		}
	}
	slices.SortFunc(o.Pods, func(a, b adapters.Replica) int { return cmp.Compare(a.Position, b.Position) })
	o.StatusOutdated = trailing(&set.Status, o.Pods)
	if missing := o.Missing(); missing >= 0 {
		o.MissingName = fmt.Sprintf("%s-%d", set.Name, firstOrdinal(set)+missing)
	}
	return o, nil
}

// trailing reports whether the status counts other replicas than there are, the way
// the StatefulSet controller counts: a replica that is being deleted is not an
// updated one, but may be ready.
func trailing(status *appsv1.StatefulSetStatus, members []adapters.Replica) bool {
	var ready, updated int32
	for _, m := range members {
		if m.Ready {
			ready++
		}
		if !m.Terminating && m.Hash == status.UpdateRevision {
			updated++
		}
	}
	return int(status.Replicas) != len(members) || status.ReadyReplicas != ready || status.UpdatedReplicas != updated
}

// Orphans counts as the StatefulSet adopts: pods that nobody controls and that
// are not being deleted, by name and by the selector. A pod below the first
// ordinal is not counted, since no number of replicas keeps it. A child whose
// selector cannot be read has none: the API server refuses it.
func (a adapter) Orphans(child *unstructured.Unstructured, pods []corev1.Pod) int32 {
	set, err := a.typed(child)
	if err != nil {
		return 0
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return 0
	}
	var needed int32
	for i := range pods {
		pod := &pods[i]
		if metav1.GetControllerOfNoCopy(pod) != nil || pod.DeletionTimestamp != nil ||
			pod.Namespace != set.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if position, ok := positionOf(set, pod.Name); ok && position < math.MaxInt32 {
			needed = max(needed, position+1)
		}
	}
	return needed
}

// typed reads a child less the templates in it.
func (a adapter) typed(child *unstructured.Unstructured) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	return set, owned.Read(child, a.GroupVersionKind(), set, "template", "volumeClaimTemplates")
}

// positionOf is the ordinal in a pod's name less the first ordinal of the set.
// It is a number, also for sorting: as text -10 comes before -2.
func positionOf(set *appsv1.StatefulSet, pod string) (position int32, ok bool) {
	text, ok := strings.CutPrefix(pod, set.Name+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.ParseUint(text, 10, 31) // 31 bits: an int32 that is not negative
	if err != nil || strconv.FormatUint(ordinal, 10) != text {
		return 0, false
	}
	return int32(ordinal) - firstOrdinal(set), true
}

func firstOrdinal(set *appsv1.StatefulSet) int32 {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return set.Spec.Ordinals.Start
}
