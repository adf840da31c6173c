// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package worlds is what small worlds of every kind of child have in common: a UnitedDeployment, what its
// spec asks for, a walk through all that can happen, and how a kind world ends. What is true of one kind, the
// model of its controller and the oracle, is in the tests of a package of its own (test/leaderworkersetworlds).
//
// What the spec asks for is counted here from the words of the design, by hand, so that it is independent of the
// code that is judged. So nothing in it may be replaced by what the project has.
//
//	core.go    a state, less its children; parent.go: the UnitedDeployment
//	spec.go    what the spec asks for, counted by hand; strategies.go: strategies to choose from
//	status.go  the status as it is kept; records.go: the annotations of children
//	game.go    what a kind has to say; pass.go: a pass of the manager, the real decisions
//	run.go     a world, and a wrong controller, as a test
//	walk.go    the walk; edits.go: what the user does
//	once.go    how often a child is written
//	kind.go    what must happen, once the world is kind; ending.go judges the end
package worlds

import (
	"time"

	"github.com/unitedworkloads/united/controllers/united/planner"
)

// MaxVersion is the highest of the versions, which begin with 1.
const MaxVersion = 3

// Tick is how long it takes until what is young is old: longer than any deadline here.
const Tick = 15 * time.Minute

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// At is a time of a world.
func At(now uint8) time.Time { return epoch.Add(time.Duration(now) * Tick) }

// Core is what every state has beside its children.
type Core struct {
	Version, Replicas, Strategy, Subsets, Generation uint8
	Paused                                           bool
	Approved, Forced                                 uint32
	Status                                           uint32
	Now                                              uint8
	// Race: something has happened that a pass which is under way, or a controller, cannot know.
	Race bool
	// PassGeneration is the generation that the last pass had read which wrote all that it wanted to.
	PassGeneration uint8
	Budget         Budget
}

// Has reports whether the spec has a subset.
func (s *Core) Has(k int) bool { return s.Subsets>>k&1 == 1 }

// Budget is what may still happen.
type Budget [budgets]int8

// What may happen.
const (
	Templates = iota
	Scales
	Pauses
	Strategies // edits of the strategy, and of the subsets
	Flaps      // a replica that is not ready for a moment
	Crashes
	Evictions
	Deletions
	Stales // a pass that writes what it decided before something happened
	Lags   // a pass that sees the child as it is, and what is its own as it was
	Deaths // a pass that dies between two writes
	Ticks
	Forgets // a controller that forgets what its replicas ran before
	budgets
)

// Setting is what a world begins with, and what may happen in it.
type Setting struct {
	Name string
	// Wishes are the subsets' replicas, "" for none; First are those that exist at first, a bit for each.
	Wishes []string
	First  uint8
	// Replicas are those at first, Strategies spec.updateStrategy in JSON; the user may go to any
	// other of them, of ScaledTo, of Versions and of SubsetsTo while the budget lasts.
	Replicas            uint8
	Strategies          []string
	ScaledTo, SubsetsTo []uint8
	Versions            []uint8
	// Bad are versions whose pods crash, a bit for each.
	Bad      uint8
	MinReady bool
	Budget   Budget
	// Meets are the exceptions to rules that are met in it.
	Meets []string
	// Mutant spoils what is decided.
	Mutant func(*planner.Plan)
}

// Breach is a rule that is broken, and how.
type Breach struct{ Rule, What string }

// Bit is that of a version in a set of versions.
func Bit(version uint8) uint8 {
	if version == 0 {
		return 0
	}
	return 1 << version
}

// Int is 1 if so.
func Int(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SubsetName is that of the subset with the number k.
func SubsetName(k int) string { return string(rune('a' + k)) }

// SubsetNumber is the number of a subset.
func SubsetNumber(name string) int { return int(name[0] - 'a') }

// interner gives what is large a number, so that a state stays small.
type interner[T any] struct {
	ids    map[string]uint32
	values []T
}

func (n *interner[T]) id(key string, value func() T) uint32 {
	if id, ok := n.ids[key]; ok {
		return id
	}
	id := uint32(len(n.values))
	n.ids[key] = id
	n.values = append(n.values, value())
	return id
}

func newInterner[T any]() *interner[T] { return &interner[T]{ids: map[string]uint32{}} }
