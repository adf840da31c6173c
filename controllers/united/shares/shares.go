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
// moment, and its parent stands in line for a place; what it has written stays, and it
// begins with a place next time. Standing in line takes no worker.
//
// And who has worked long rests as long again (Turn.End), at most MaxRest: a line alone
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
	// lookAgain is when a parent in line asks by itself. It is woken before; this bounds
	// what a wake-up that went astray could cost.
	lookAgain = time.Minute
)

// Shares are the shares of one controller. A nil *Shares sets no bounds. It is safe for
// concurrent use.
type Shares struct {
	mu     sync.Mutex
	places int
	wake   func(types.NamespacedName)

	taken int
	// line are the parents that wait for a place, the first to come first.
	line []types.NamespacedName
	// long are the parents whose last pass needed a place, with the end of their rest.
	// All others are not on record.
	long map[types.NamespacedName]time.Time
}

// New gives a quarter of the workers places, at least one. More would make nothing
// faster: what takes long computes, or has the API server compute.
func New(workers int) *Shares {
	return &Shares{places: max(1, workers/4), wake: func(types.NamespacedName) {}, long: map[types.NamespacedName]time.Time{}}
}

// OnWake sets what is called, from any goroutine, when the turn of a parent in line has
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
	rested, long := s.long[parent]
	switch {
	case !long:
		return &Turn{shares: s, parent: parent}, 0
	case now.Before(rested):
		return nil, rested.Sub(now)
	case !s.take(parent):
		return nil, lookAgain
	}
	return &Turn{shares: s, parent: parent, placed: true}, 0
}

// take takes a place for a parent when those before it in line leave one, else it lines
// up.
func (s *Shares) take(parent types.NamespacedName) bool {
	at := slices.Index(s.line, parent)
	if at < 0 {
		at = len(s.line)
		s.line = append(s.line, parent)
	}
	if at >= s.places-s.taken {
		return false
	}
	s.line = slices.Delete(s.line, at, at+1)
	s.taken++
	return true
}

// GoOn reports whether a pass that has used that much may go on.
func (t *Turn) GoOn(used time.Duration) bool {
	if t.shares == nil || t.placed || used <= Allowance {
		return true
	}
	t.shares.mu.Lock()
	defer t.shares.mu.Unlock()
	t.placed = t.shares.take(t.parent)
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
		s.long[t.parent] = now // it has had no full turn, so it owes no rest
	case used > Allowance:
		s.long[t.parent] = now.Add(min(used, MaxRest))
	default:
		delete(s.long, t.parent)
	}
	if t.placed {
		s.taken--
		s.wakeFirst()
	}
}

// wakeFirst wakes those for whom there are places.
func (s *Shares) wakeFirst() {
	for _, parent := range s.line[:min(len(s.line), max(0, s.places-s.taken))] {
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
	delete(s.long, parent)
	if at := slices.Index(s.line, parent); at >= 0 {
		s.line = slices.Delete(s.line, at, at+1)
		s.wakeFirst()
	}
}
