// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clonesetworlds walks through small worlds of a UnitedDeployment whose children are
// CloneSets. Its model of the CloneSets' controller was written from pkg/controller/cloneset of
// OpenKruise 1.9.1, and its oracle from the words of the design, by somebody who had not read the
// code that is judged. So nothing in it may be replaced by what the project has: that it is
// independent is what it is for.
//
// There are only tests in it:
//
//	state_test.go       a state: what is in a world
//	controller_test.go  the CloneSets' controller
//	objects_test.go     the state as objects of the API; parent_test.go: the UnitedDeployment
//	manager_test.go     a pass of the manager: the real decisions; execute_test.go: what they do to the state
//	events_test.go      what else can happen
//	spec_test.go        what the spec asks for, counted by hand
//	safety_test.go      what must not happen: the oracle; deletions_test.go: that of what United deletes
//	kind_test.go        what must, once the world is kind; ending_test.go judges the end
//	walk_test.go        the walk
//	once_test.go        how often a child is written
//	worlds_test.go      the worlds
//	mutants_test.go     wrong controllers, which are convicted
package clonesetworlds

import (
	"cmp"
	"slices"
	"time"
)

const (
	maxChildren = 3
	maxPods     = 8
	// versions are 1 to maxVersion.
	maxVersion = 3
	// tick is how long it takes until what is young is old: longer than any deadline here.
	tick = 15 * time.Minute
)

// phase is where a pod stands.
type phase uint8

const (
	starting phase = iota
	ready
	crashed
	unready
)

// letter is a phase in a line.
func (p phase) letter() string { return string("?.x!"[p]) }

// pod is one pod; the zero one is none. The pods of a child are in the order in which they were
// created or became ready last, the one that did so first in front.
type pod struct {
	Version uint8
	Phase   phase
	// Aged: a tick has passed since it was created or its phase changed. WasReady: it was ready once.
	Aged, WasReady bool
	// Marked: its controller has chosen to delete it (label specified-delete). Terminating: it is
	// being deleted.
	Marked, Terminating bool
}

// The maxUnavailable of a CloneSet is 1 where it is left to the template, or all of its replicas.
const (
	ofTemplate = 1
	unbounded  = 100
)

// child is a CloneSet with its pods.
type child struct {
	Exists                        bool
	Incarnation                   uint8
	Template, Replicas, Partition uint8
	MaxUnavailable                uint8
	// Record are its annotations, ParentGeneration is one of them.
	Record           uint32
	ParentGeneration uint8
	// What its status says. Current and Update are versions.
	Observed                                   bool
	Current, Update                            uint8
	StatusReplicas, StatusReady, StatusUpdated uint8
	// Known are the versions of which it has a ControllerRevision, a bit for each.
	Known uint8
	Pods  [maxPods]pod
	// Protects are the versions that its subset may protect by the words of the design, a bit for
	// each; Released is how many of its replicas the user has released at most since it finished.
	// Only the oracle knows.
	Protects, Released uint8
}

// state is all that is in a world.
type state struct {
	Version, Replicas, Strategy, Subsets, Generation uint8
	Paused                                           bool
	Approved, Forced                                 uint32
	Status                                           uint32
	Now                                              uint8
	// Race: something has happened that a pass which is under way, or a controller, cannot know.
	Race bool
	// PassGeneration is the generation that the last pass had read which wrote all that it wanted to.
	PassGeneration uint8
	Budget         budget
	Children       [maxChildren]child
}

// budget is what may still happen.
type budget [budgets]int8

const (
	templates = iota
	scales
	pauses
	strategies // edits of the strategy, and of the subsets
	flaps      // a pod that is not ready for a moment
	crashes
	evictions
	deletions
	stales // a pass that writes what it decided before something happened
	lags   // a pass that sees the child as it is, and the pods as they were
	deaths // a pass that dies between two writes
	ticks
	budgets
)

func bit(version uint8) uint8 {
	if version == 0 {
		return 0
	}
	return 1 << version
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// has reports whether the spec has a subset.
func (s *state) has(k int) bool { return s.Subsets>>k&1 == 1 }

// count is how many pods of a child are so, less those that are being deleted.
func (c *child) count(is ...func(p *pod) bool) (n int) {
	for i := range c.Pods {
		p := &c.Pods[i]
		if p.live() && !slices.ContainsFunc(is, func(f func(*pod) bool) bool { return !f(p) }) {
			n++
		}
	}
	return n
}

func (p *pod) live() bool { return p.Version != 0 && !p.Terminating }

func of(version uint8) func(*pod) bool { return func(p *pod) bool { return p.Version == version } }

// in are pods of one of several versions.
func in(versions uint8) func(*pod) bool {
	return func(p *pod) bool { return versions&bit(p.Version) != 0 }
}

func not(f func(*pod) bool) func(*pod) bool { return func(p *pod) bool { return !f(p) } }

func marked(p *pod) bool { return p.Marked }

func isReady(p *pod) bool { return p.Phase == ready }

// serves reports whether a pod is ready, and has been for minReadySeconds.
func (w *world) serves(p *pod) bool { return p.Phase == ready && (!w.minReady || p.Aged) }

// available reports whether a pod serves, and goes on to.
func (w *world) available(p *pod) bool { return w.serves(p) && !p.Marked }

// tidy brings a state into its one form, and keeps what only the oracle knows.
func (w *world) tidy(s *state) {
	for k := range s.Children {
		c := &s.Children[k]
		slices.SortStableFunc(c.Pods[:], func(a, b pod) int {
			return cmp.Compare(toInt(a.Version == 0), toInt(b.Version == 0))
		})
		// A subset has finished when all of its replicas are updated and ready; then that is what it protects. It
		// may have finished what the user has taken back meanwhile.
		n := c.count(of(c.Template), isReady)
		if c.Exists && c.Replicas > 0 && n == c.count() && n == int(c.Replicas) {
			c.Protects |= bit(c.Template)
		}
		if s.has(k) {
			c.Released = max(c.Released, uint8(max(0, w.allotted(s, k)-w.partition(s, k))))
		}
	}
}

// touch makes a pod the one that has changed last.
func (c *child) touch(n int) {
	p := c.Pods[n]
	copy(c.Pods[n:], c.Pods[n+1:])
	c.Pods[maxPods-1] = p
}
