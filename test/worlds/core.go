// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package worlds has what small worlds of every kind of child share: a UnitedDeployment, what its spec asks for, a
// walk through everything that can happen, and how a world ends when all faults stop. The parts of one kind, the
// model of its controller and the oracle, are in the tests of a separate package (such as
// test/leaderworkersetworlds).
//
// This package computes what the spec asks for from the text of the design, so that the result is independent of the
// code under test. Do not replace it by code of the project.
//
//	core.go    a state without its children; parent.go: the UnitedDeployment
//	spec.go    what the spec asks for; strategies.go: the strategies of the worlds
//	status.go  the stored status; records.go: the annotations of children
//	game.go    the interface of a kind; pass.go: a pass of the manager, with the real decisions
//	run.go     a world, and a wrong controller, as a test
//	walk.go    the walk; wander.go: random ways; edits.go: what the user does
//	mutants.go wrong controllers, which an oracle must find
//	once.go    how often a child is written
//	kind.go    what must happen after all faults have stopped; ending.go judges the end
package worlds

import (
	"time"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// MaxVersion is the highest version; the lowest is 1.
const MaxVersion = 3

// Tick is a step of the clock, longer than any deadline here.
const Tick = 15 * time.Minute

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// At converts the time of a state.
func At(now uint8) time.Time { return epoch.Add(time.Duration(now) * Tick) }

// Core is the part of every state apart from its children.
type Core struct {
	Version, Replicas, Strategy, Subsets, Wishes, Generation uint8
	Paused                                                   bool
	Approved, Forced                                         uint32
	Status                                                   uint32
	Now                                                      uint8
	// Race: something has happened that a running pass, or a controller, cannot know.
	Race bool
	// Edited: the user has changed something. In an Ageless game this ends when a pass finds that everybody has done all.
	Edited bool
	// PassGeneration is the generation that the last pass which made all its writes had read.
	PassGeneration uint8
	Budget         Budget
}

// Has reports whether the spec has a subset.
func (s *Core) Has(k int) bool { return s.Subsets>>k&1 == 1 }

// Budget is how often each kind of event may still happen.
type Budget [budgets]int8

// The kinds of events with a budget.
const (
	Templates = iota
	Scales
	Pauses
	Strategies // edits of the strategy, and of the subsets
	Flaps      // a replica that is briefly not ready
	Crashes
	Evictions
	Deletions
	Stales // a pass that writes what it decided before an event
	Lags   // a pass that sees the current child, but earlier objects of the child
	Deaths // a pass that dies between two writes
	Ticks
	Forgets // a controller that forgets the previous version of its replicas, or for how many it scaled
	Topologies
	Nodes  // the room on nodes changes
	Losses // a child is deleted by hand
	budgets
)

// Setting is the first state of a world, and what may happen in it.
type Setting struct {
	Name string
	// Wishes are the replicas of the subsets, "" if absent; First has a bit for each subset that exists at first. The user
	// may move replicas to those of MovedTo.
	Wishes  []string
	MovedTo [][]string
	First   uint8
	// Topologies are spec.topology as a whole, instead of Wishes; the user may change to any other of them.
	Topologies []v1alpha1.Topology
	// Replicas are those of the first state, and Strategies are spec.updateStrategy in JSON. The user may change to
	// any other of them, and to those of ScaledTo, Versions and SubsetsTo, as long as the budget lasts.
	Replicas            uint8
	Strategies          []string
	ScaledTo, SubsetsTo []uint8
	Versions            []uint8
	// Bad has a bit for each version whose pods crash.
	Bad      uint8
	MinReady bool
	Budget   Budget
	// Meets are the exceptions to rules that must occur.
	Meets []string
	// Mutant makes a decision wrong, Misread what is read of a child. Sick has a bit for each version whose pods never become
	// ready, nor fail, so that the world cannot end well.
	Mutant  func(*planner.Input, *planner.Plan)
	Misread func(*adapters.Observed)
	Sick    uint8
}

// Breach is a violation of a rule.
type Breach struct{ Rule, What string }

// Bit returns the bit of a version in a set of versions.
func Bit(version uint8) uint8 {
	if version == 0 {
		return 0
	}
	return 1 << version
}

// Int returns 1 for true.
func Int(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SubsetName returns the name of the k-th subset.
func SubsetName(k int) string { return string(rune('a' + k)) }

// SubsetNumber returns the number of a subset.
func SubsetNumber(name string) int { return int(name[0] - 'a') }

// interner numbers large values, so that a state stays small.
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
