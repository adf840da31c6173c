// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shares decides whose turn it is, so that parents that take much time leave the
// others theirs. It is pure: the time is an argument.
//
// What a pass over one parent costs is known only when it is over, and one over a large
// parent can take seconds. So every pass may begin, and a short one is never held up. One
// that has used up its Allowance must get one of a few places to go on. There are fewer
// places than workers: whatever a namespace holds, workers are left for the others. A pass
// that finds none free ends between two subsets, as if the rest had been refused for the
// moment, and its parent waits in a queue for a place; what it has written stays, and it
// begins with a place next time. Waiting takes no worker.
//
// A pass can also wait for the API server, for as long as a webhook takes, and nothing ends that before its time. So each pass
// takes a worker of its namespace when it begins: a namespace may have as many as are left free (waitingRoom). Then
// there is one for every other namespace, whatever those that have some wait for; the passes of one namespace
// use half of the workers at most, which is no loss while they are short.
//
// And who has worked long rests as long again (Turn.End), at most MaxRest: a queue alone
// would let one parent with many events keep its place for ever.
package shares

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// Allowance is what a pass may use before it needs a place. The pass of a parent of
	// usual size, some 10 subsets of some 10 kB, uses a tenth of it.
	Allowance = 250 * time.Millisecond
	// MaxRest bounds how long a parent rests, and so for how long it may not hear of an
	// edit.
	MaxRest = 30 * time.Second
	// retryPeriod is when a parent in the queue asks by itself. It is woken before; this bounds
	// what a wake-up that went astray could cost.
	retryPeriod = time.Minute
)

// Shares are the shares of one controller. A nil *Shares sets no bounds. It is safe for
// concurrent use.
type Shares struct {
	mu     sync.Mutex
	places int
	wake   func(types.NamespacedName)

	placesTaken int
	// room has the workers, and the parents that wait for one of those of their namespace.
	room waitingRoom
	// queue are the parents that wait for a place, the first to come first.
	queue []types.NamespacedName
	// resting are the parents whose last pass needed a place, with the end of their rest.
	// All others are not on record.
	resting map[types.NamespacedName]time.Time
}

// New gives a quarter of the workers places, at least one. More would make nothing
// faster: what takes long computes, or has the API server compute.
func New(workers int) *Shares {
	return &Shares{
		places: max(1, workers/4), wake: func(types.NamespacedName) {}, resting: map[types.NamespacedName]time.Time{},
		room: newWaitingRoom(workers),
	}
}

// OnWake sets what is called, from any goroutine, when the turn of a parent in the queue has
// come. It must not call back.
func (s *Shares) OnWake(wake func(types.NamespacedName)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = wake
}

// Turn is one pass that has begun.
type Turn struct {
	shares *Shares
	parent types.NamespacedName
	placed bool
	// lacked: it was told not to go on.
	lacked bool
}

// Begin gives the parent its turn, or nil and when to ask again at the latest.
func (s *Shares) Begin(parent types.NamespacedName, now time.Time) (*Turn, time.Duration) {
	if s == nil {
		return &Turn{}, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rested, long := s.resting[parent]
	switch {
	case long && now.Before(rested):
		return nil, rested.Sub(now)
	case !s.room.mayEnter(parent):
		s.leaveQueue(parent) // others need not wait for a place until its namespace has a worker for it
		return nil, retryPeriod
	case long && !s.takePlace(parent):
		s.room.leaveQueue(parent) // it is in the other one
		return nil, retryPeriod
	}
	s.room.enter(parent)
	return &Turn{shares: s, parent: parent, placed: long}, 0
}

// takePlace takes a place for a parent when those before it in the queue leave one, and reports
// whether they do; else it queues up.
func (s *Shares) takePlace(parent types.NamespacedName) bool {
	at := slices.Index(s.queue, parent)
	if at < 0 {
		at = len(s.queue)
		s.queue = append(s.queue, parent)
	}
	if at >= s.places-s.placesTaken {
		return false
	}
	s.queue = slices.Delete(s.queue, at, at+1)
	s.placesTaken++
	return true
}

// MayContinue reports whether a pass that has used that much may go on.
func (t *Turn) MayContinue(used time.Duration) bool {
	if t.shares == nil || t.placed || used <= Allowance {
		return true
	}
	t.shares.mu.Lock()
	defer t.shares.mu.Unlock()
	t.placed = t.shares.takePlace(t.parent)
	t.lacked = !t.placed
	return t.placed
}

// End ends the turn of a pass that has used that much.
func (t *Turn) End(used time.Duration, now time.Time) {
	if t.shares == nil {
		return
	}
	s := t.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.lacked:
		s.resting[t.parent] = now // it has had no full turn, so it owes no rest
	case used > Allowance:
		s.resting[t.parent] = now.Add(min(used, MaxRest))
	default:
		delete(s.resting, t.parent)
	}
	s.room.leave(t.parent)
	for _, parent := range s.room.next() {
		s.wake(parent)
	}
	if t.placed {
		s.placesTaken--
		s.wakeFirst()
	}
}

// wakeFirst wakes those for whom there are places.
func (s *Shares) wakeFirst() {
	for _, parent := range s.queue[:min(len(s.queue), max(0, s.places-s.placesTaken))] {
		s.wake(parent)
	}
}

// Forget drops a parent that is gone, and lets those behind it move up.
func (s *Shares) Forget(parent types.NamespacedName) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.resting, parent)
	if s.room.leaveQueue(parent) {
		for _, next := range s.room.next() {
			s.wake(next)
		}
	}
	s.leaveQueue(parent)
}

// leaveQueue lets a parent wait no longer for a place, and those behind it move up.
func (s *Shares) leaveQueue(parent types.NamespacedName) {
	if at := slices.Index(s.queue, parent); at >= 0 {
		s.queue = slices.Delete(s.queue, at, at+1)
		s.wakeFirst()
	}
}
