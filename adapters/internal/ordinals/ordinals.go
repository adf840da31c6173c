// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ordinals has what kinds share whose pods are named "<name>-<ordinal>": the position of a pod, and the pods
// of a child.
package ordinals

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
	"k8s.io/apimachinery/pkg/labels"

	"github.com/unitedworkloads/united/adapters"
)

// Set is a child whose pods have ordinals.
type Set struct {
	metav1.ObjectMeta
	// First is the ordinal of the replica at position 0, unless it is reserved.
	First int32
	// Reserved are ranges of ordinals without a replica, both ends included, in any order.
	Reserved [][2]int32
}

// Position returns the position of the named pod; false if it is not a pod of the set. A pod below the first ordinal,
// or at a reserved one, is surplus and has a negative position.
//
// An ordinal is a number, also for sorting: as text, -10 would come before -2.
func (s *Set) Position(pod string) (position int32, ok bool) {
	text, ok := strings.CutPrefix(pod, s.Name+"-")
	if !ok {
		return 0, false
	}
	parsed, err := strconv.ParseUint(text, 10, 31) // 31 bits: an int32 that is not negative
	if err != nil || strconv.FormatUint(parsed, 10) != text {
		return 0, false
	}
	ordinal := int32(parsed)
	if ordinal < s.First {
		return ordinal - s.First, true
	}
	below := int32(0)
	for _, r := range s.reserved() {
		switch {
		case r[0] > ordinal:
		case r[1] >= ordinal:
			return -1 - ordinal, true
		default:
			below += r[1] - r[0] + 1
		}
	}
	return ordinal - s.First - below, true
}

// reserved returns the reserved ordinals from the first ordinal on, in order and without duplicates.
func (s *Set) reserved() [][2]int32 {
	list := slices.Clone(s.Reserved)
	slices.SortFunc(list, func(a, b [2]int32) int { return cmp.Compare(a[0], b[0]) })
	next := s.First
	merged := list[:0]
	for _, r := range list {
		if from := max(r[0], next); from <= r[1] {
			merged = append(merged, [2]int32{from, r[1]})
			next = r[1] + 1
		}
	}
	return merged
}

// PodName returns the name of the replica at a position.
func (s *Set) PodName(position int32) string {
	ordinal := s.First + position
	for _, r := range s.reserved() {
		if r[0] <= ordinal {
			ordinal += r[1] - r[0] + 1
		}
	}
	return fmt.Sprintf("%s-%d", s.Name, ordinal)
}

// Observe adds to o the pods that the set controls, converted by read, and what follows from them. It ignores a pod
// whose name is not "<name>-<ordinal>", as the controller does.
func (s *Set) Observe(o *adapters.Observed, status *appsv1.StatefulSetStatus, pods []*corev1.Pod, read func(*corev1.Pod, int32) adapters.Replica) {
	for _, pod := range pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.UID != s.UID || pod.Namespace != s.Namespace {
			continue
		}
		if position, ok := s.Position(pod.Name); ok {
			o.Pods = append(o.Pods, read(pod, position))
		}
	}
	slices.SortFunc(o.Pods, func(a, b adapters.Replica) int { return cmp.Compare(a.Position, b.Position) })
	o.StatusOutdated = trailing(status, o.Pods)
	if missing := o.Missing(); missing >= 0 {
		o.MissingName = s.PodName(missing)
	}
}

// trailing reports whether the status counts other replicas than exist. Like the StatefulSet controller, it does not
// count a terminating replica as updated, but perhaps as ready.
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

// Orphans counts the pods that a StatefulSet would adopt: those without a controller that are not terminating and
// that match by name and selector. It does not count a surplus pod below the first ordinal, because no number of
// replicas keeps it. If the selector cannot be parsed, the result is 0: the API server rejects such a child.
func (s *Set) Orphans(selects *metav1.LabelSelector, pods []corev1.Pod) int32 {
	selector, err := metav1.LabelSelectorAsSelector(selects)
	if err != nil {
		return 0
	}
	var needed int32
	for i := range pods {
		pod := &pods[i]
		if metav1.GetControllerOfNoCopy(pod) != nil || pod.DeletionTimestamp != nil ||
			pod.Namespace != s.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if position, ok := s.Position(pod.Name); ok && position < math.MaxInt32 {
			needed = max(needed, position+1)
		}
	}
	return needed
}
