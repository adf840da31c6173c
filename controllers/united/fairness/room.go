// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// waitingRoom assigns workers to namespaces: a namespace gets another worker while more are free than it has. This is
// the dynamic threshold with which switches share their memory among ports (Choudhury and Hahne, 1998): one namespace
// gets half of the workers, the next one half of the rest, and the number of namespaces need not be known.
//
// With that alone, four namespaces whose webhooks are slow would have all of eight workers. So the last worker is only
// for namespaces whose passes are short: it is soon free again. A namespace has to show that first, with a pass.
type waitingRoom struct {
	free int
	// reserved is how many workers namespaces must leave unless their passes are short.
	reserved int
	// short are the parents whose last pass was short, by namespace. longUntil are the namespaces that had a long one,
	// with the time until when that counts.
	short     map[string]map[types.NamespacedName]bool
	longUntil map[string]time.Time
	// busy is the number of workers of each namespace that has any.
	busy map[string]int
	// waiting are the parents that did not get a worker, by namespace, in the order of their arrival.
	waiting map[string][]types.NamespacedName
	// waits has all of them.
	waits map[types.NamespacedName]bool
}

// longCounts is for how long a namespace with a long pass counts as one with long passes.
const longCounts = time.Minute

func newWaitingRoom(workers int) waitingRoom {
	return waitingRoom{
		free: workers, reserved: min(1, workers-1), short: map[string]map[types.NamespacedName]bool{}, longUntil: map[string]time.Time{},
		busy: map[string]int{}, waiting: map[string][]types.NamespacedName{}, waits: map[types.NamespacedName]bool{},
	}
}

// mayEnter reports whether there is a worker for a parent after the earlier ones of its namespace have theirs;
// otherwise the parent waits.
func (r *waitingRoom) mayEnter(parent types.NamespacedName, now time.Time) bool {
	reserved, waiting := r.reserved, r.waiting[parent.Namespace]
	if len(r.short[parent.Namespace]) > 0 && !now.Before(r.longUntil[parent.Namespace]) {
		reserved = 0
	}
	room := r.roomFor(parent.Namespace, reserved)
	switch {
	case r.waits[parent]:
		return slices.Contains(waiting[:min(room, len(waiting))], parent)
	case len(waiting) < room:
		return true
	}
	r.waiting[parent.Namespace], r.waits[parent] = append(waiting, parent), true
	return false
}

// roomFor returns how many more workers a namespace may use, if no other namespace takes one, and it leaves reserved.
func (r *waitingRoom) roomFor(namespace string, reserved int) int {
	return max(0, (r.free-reserved-r.busy[namespace]+1)/2)
}

// enter takes a worker for a parent.
func (r *waitingRoom) enter(parent types.NamespacedName) {
	r.leaveQueue(parent)
	r.free--
	r.busy[parent.Namespace]++
}

// leave returns a worker after a pass that was long or not.
func (r *waitingRoom) leave(parent types.NamespacedName, long bool, now time.Time) {
	switch {
	case long:
		maps.DeleteFunc(r.longUntil, func(_ string, until time.Time) bool { return !now.Before(until) })
		r.longUntil[parent.Namespace] = now.Add(longCounts)
		r.forgetShort(parent)
	case r.short[parent.Namespace] == nil:
		r.short[parent.Namespace] = map[types.NamespacedName]bool{parent: true}
	default:
		r.short[parent.Namespace][parent] = true
	}
	r.free++
	if r.busy[parent.Namespace]--; r.busy[parent.Namespace] == 0 {
		delete(r.busy, parent.Namespace)
	}
}

// forgetShort forgets that the last pass of a parent was short.
func (r *waitingRoom) forgetShort(parent types.NamespacedName) {
	delete(r.short[parent.Namespace], parent)
	if len(r.short[parent.Namespace]) == 0 {
		delete(r.short, parent.Namespace)
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

// next returns the waiting parents that may be able to enter now. There may be more of them than workers: then the last
// ones wait again.
func (r *waitingRoom) next() (list []types.NamespacedName) {
	for _, namespace := range slices.Sorted(maps.Keys(r.waiting)) {
		waiting := r.waiting[namespace]
		list = append(list, waiting[:min(r.roomFor(namespace, 0), len(waiting))]...)
	}
	return list
}
