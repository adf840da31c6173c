// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// waitingRoom assigns workers to namespaces: a namespace gets another worker while more are free than it has. This is
// the dynamic threshold with which switches share their memory among ports (Choudhury and Hahne, 1998): one namespace
// gets half of the workers, the next one half of the rest, and the number of namespaces need not be known.
type waitingRoom struct {
	free int
	// busy is the number of workers of each namespace that has any.
	busy map[string]int
	// waiting are the parents that did not get a worker, by namespace, in the order of their arrival.
	waiting map[string][]types.NamespacedName
	// waits has all of them.
	waits map[types.NamespacedName]bool
}

func newWaitingRoom(workers int) waitingRoom {
	return waitingRoom{free: workers, busy: map[string]int{}, waiting: map[string][]types.NamespacedName{}, waits: map[types.NamespacedName]bool{}}
}

// mayEnter reports whether there is a worker for a parent after the earlier ones of its namespace have theirs;
// otherwise the parent waits.
func (r *waitingRoom) mayEnter(parent types.NamespacedName) bool {
	room, waiting := r.roomFor(parent.Namespace), r.waiting[parent.Namespace]
	switch {
	case r.waits[parent]:
		return slices.Contains(waiting[:min(room, len(waiting))], parent)
	case len(waiting) < room:
		return true
	}
	r.waiting[parent.Namespace], r.waits[parent] = append(waiting, parent), true
	return false
}

// roomFor returns how many more workers a namespace may use, if no other namespace takes one.
func (r *waitingRoom) roomFor(namespace string) int {
	return max(0, (r.free-r.busy[namespace]+1)/2)
}

// enter takes a worker for a parent.
func (r *waitingRoom) enter(parent types.NamespacedName) {
	r.leaveQueue(parent)
	r.free--
	r.busy[parent.Namespace]++
}

// leave returns a worker.
func (r *waitingRoom) leave(parent types.NamespacedName) {
	r.free++
	if r.busy[parent.Namespace]--; r.busy[parent.Namespace] == 0 {
		delete(r.busy, parent.Namespace)
	}
}

// leaveQueue removes a parent from the waiting ones, and reports whether it was one of them.
func (r *waitingRoom) leaveQueue(parent types.NamespacedName) bool {
	if !r.waits[parent] {
		return false
	}
	delete(r.waits, parent)
	waiting := r.waiting[parent.Namespace]
	at := slices.Index(waiting, parent)
	if waiting = slices.Delete(waiting, at, at+1); len(waiting) == 0 {
		delete(r.waiting, parent.Namespace)
		return true
	}
	r.waiting[parent.Namespace] = waiting
	return true
}

// next returns the waiting parents that may enter now. There may be more of them than workers: then the last ones wait
// again.
func (r *waitingRoom) next() (list []types.NamespacedName) {
	for _, namespace := range slices.Sorted(maps.Keys(r.waiting)) {
		waiting := r.waiting[namespace]
		list = append(list, waiting[:min(r.roomFor(namespace), len(waiting))]...)
	}
	return list
}
