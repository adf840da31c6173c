// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairness decides which parents may have a pass, and how long it may take, so that parents that need much time do
// not block the others.
//
// The cost of a pass over a parent is known only when it has ended, and a pass over a large parent can take seconds. So
// every pass may start, and a short one is never delayed. A pass that has used up its Allowance needs one of a few
// places to continue. There are fewer places than workers: whatever a namespace has, some workers remain for the
// others. A pass that does not find a free place ends between two subsets, as if the rest had been rejected for now,
// and its parent waits in a queue for a place. What the pass has written stays, and the next one starts with a place.
// Waiting does not use a worker.
//
// A pass can also wait for the API server, for as long as a webhook takes, and nothing ends that early. So each pass
// takes a worker of its namespace when it starts: a namespace may have as many as remain free (waitingRoom). Then there
// is one for every other namespace, whatever the namespaces that have some are waiting for. The passes of one namespace
// use at most half of the workers, which costs nothing while the passes are short; and the last worker is only for
// namespaces whose passes have been short, so that many namespaces with long ones leave it to the others.
//
// In addition, a parent that worked for long rests for the same time (Turn.End), up to MaxRest: with only a queue, one
// parent with many events could keep its place forever.
package fairness

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// Allowance is the time that a pass may use before it needs a place. A pass over a parent of normal size, some 10
	// subsets of some 10 kB, uses a tenth of it.
	Allowance = 250 * time.Millisecond
	// quickCost is what a pass counts as while its time is not measured (Pass.estimate). That is more than most passes
	// use.
	quickCost = Allowance / 10
	// quick is the longest pass after which the next one of the parent is not measured at first.
	quick = Allowance / 2
	// MaxRest bounds how long a parent rests, and therefore how long an edit of it may go unnoticed.
	MaxRest = 30 * time.Second
	// retryPeriod is when a parent in the queue tries again by itself. Normally it is woken earlier; this bounds the
	// effect of a lost wake-up.
	retryPeriod = time.Minute
)

// Shares are the shares of one controller. A nil *Shares sets no limits. It is safe for concurrent use.
type Shares struct {
	mu     sync.Mutex
	places int
	wake   func(types.NamespacedName)

	placesTaken int
	// room has the workers, and the parents that wait for one of their namespace.
	room waitingRoom
	// queue has the parents that wait for a place, in the order of their arrival.
	queue []types.NamespacedName
	// resting has the parents whose last pass needed a place, with the end of their rest. Other parents are not stored.
	resting map[types.NamespacedName]time.Time
	// quick are the parents whose last pass was quick.
	quick map[types.NamespacedName]bool
}

// New returns Shares with places for a quarter of the workers, but at least one. More places would not be faster,
// because a long pass uses CPU time, here or in the API server.
func New(workers int) *Shares {
	return &Shares{
		places: max(1, workers/4), wake: func(types.NamespacedName) {}, resting: map[types.NamespacedName]time.Time{},
		quick: map[types.NamespacedName]bool{}, room: newWaitingRoom(workers),
	}
}

// OnWake sets the function that is called, from any goroutine, when a parent in the queue may have its turn. The
// function must not call Shares.
func (s *Shares) OnWake(wake func(types.NamespacedName)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = wake
}

// Turn is one pass that has started.
type Turn struct {
	shares *Shares
	parent types.NamespacedName
	placed bool
	// lacked: the pass was not allowed to continue.
	lacked bool
	// quick: the last pass of the parent was quick. unmeasured is the time that this one took before it was measured.
	quick      bool
	unmeasured time.Duration
}

// Begin returns a turn for the parent, or nil and the longest time until the next attempt.
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
	case !s.room.mayEnter(parent, now):
		s.leaveQueue(parent) // others need not wait for a place until its namespace has a worker for it
		return nil, retryPeriod
	case long && !s.takePlace(parent):
		s.room.leaveQueue(parent) // it is in the queue for a place
		return nil, retryPeriod
	}
	s.room.enter(parent)
	return &Turn{shares: s, parent: parent, placed: long, quick: s.quick[parent]}, 0
}

// takePlace takes a place for a parent, and reports whether there is one after those before it in the queue have
// theirs; otherwise the parent joins the queue.
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

// MayContinue reports whether a pass that has used that much time may continue.
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

// End ends the turn of a pass that has used that much time.
func (t *Turn) End(used time.Duration, now time.Time) {
	if t.shares == nil {
		return
	}
	s := t.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.lacked:
		s.resting[t.parent] = now // it did not have a full turn, so it need not rest
	case used > Allowance:
		s.resting[t.parent] = now.Add(min(used, MaxRest))
	default:
		delete(s.resting, t.parent)
	}
	if delete(s.quick, t.parent); max(used, t.unmeasured) <= quick {
		s.quick[t.parent] = true
	}
	s.room.leave(t.parent, used > Allowance, now)
	for _, parent := range s.room.next() {
		s.wake(parent)
	}
	if t.placed {
		s.placesTaken--
		s.wakeFirst()
	}
}

// wakeFirst wakes the parents for which there are places.
func (s *Shares) wakeFirst() {
	for _, parent := range s.queue[:min(len(s.queue), max(0, s.places-s.placesTaken))] {
		s.wake(parent)
	}
}

// Forget removes a parent that is gone, so that those behind it move up.
func (s *Shares) Forget(parent types.NamespacedName) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.resting, parent)
	delete(s.quick, parent)
	s.room.forgetShort(parent)
	if s.room.leaveQueue(parent) {
		for _, next := range s.room.next() {
			s.wake(next)
		}
	}
	s.leaveQueue(parent)
}

// leaveQueue removes a parent from the queue for places, so that those behind it move up.
func (s *Shares) leaveQueue(parent types.NamespacedName) {
	if at := slices.Index(s.queue, parent); at >= 0 {
		s.queue = slices.Delete(s.queue, at, at+1)
		s.wakeFirst()
	}
}
