// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// waitingRoom gives workers to namespaces: one that has some gets another while more are free than it has. It is the dynamic
// threshold by which switches share their memory among ports (Choudhury and Hahne, 1998): one namespace gets half of
// the workers, the next one half of the rest, and nobody has to know how many there are.
type waitingRoom struct {
	free int
	// busy are the workers of each namespace that has any.
	busy map[string]int
	// waiting are the parents that found none, by their namespace, the first to come first.
	waiting map[string][]types.NamespacedName
	// waits has all of them.
	waits map[types.NamespacedName]bool
}

func newWaitingRoom(workers int) waitingRoom {
	return waitingRoom{free: workers, busy: map[string]int{}, waiting: map[string][]types.NamespacedName{}, waits: map[types.NamespacedName]bool{}}
}

// mayEnter reports whether there is a worker for a parent, once those of its namespace that came before have theirs; else it
// waits.
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

// roomFor is how many more workers a namespace may take, if no other does.
func (r *waitingRoom) roomFor(namespace string) int {
	return max(0, (r.free-r.busy[namespace]+1)/2)
}

// enter takes a worker for a parent.
func (r *waitingRoom) enter(parent types.NamespacedName) {
	r.leaveQueue(parent)
	r.free--
	r.busy[parent.Namespace]++
}

// leave gives a worker back.
func (r *waitingRoom) leave(parent types.NamespacedName) {
	r.free++
	if r.busy[parent.Namespace]--; r.busy[parent.Namespace] == 0 {
		delete(r.busy, parent.Namespace)
	}
}

// leaveQueue lets a parent wait no longer, and reports whether it did.
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

// next are the parents that wait and may enter now. There may be more than workers: those that come last wait again.
func (r *waitingRoom) next() (list []types.NamespacedName) {
	for _, namespace := range slices.Sorted(maps.Keys(r.waiting)) {
		waiting := r.waiting[namespace]
		list = append(list, waiting[:min(r.roomFor(namespace), len(waiting))]...)
	}
	return list
}
