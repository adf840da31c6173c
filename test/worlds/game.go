// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"hash/maphash"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Game is a world with children of one kind. Its state S has a Core and the children.
type Game[S comparable] interface {
	Base() *World
	Core(s *S) *Core
	// Tidy brings a state into its canonical form, and keeps what only the oracle knows.
	Tidy(s *S)
	// Show formats a state as one line.
	Show(s *S) string

	// Seen returns the part of a state that a pass can see.
	Seen(s *S) S
	// Read reads the children for a pass, and their objects from theirs, which may be an earlier state.
	Read(in *planner.Input, s, theirs *S)
	// Writes returns what a step writes (World.WriteOf); false if there is no difference. DeletionsOf returns the
	// replicas that a subset loses.
	Writes(s *S, sub *planner.SubsetPlan, hold Hold) (Write, bool)
	DeletionsOf(sub *planner.SubsetPlan) []Deletion
	// Carry writes one child, and Observed reads it. Exists reports whether it exists. Delete deletes a replica if it
	// is still the one that was read.
	Carry(x *Pass, s *S, wr Write)
	Observed(s *S, k int) *world.Child
	Exists(s *S, k int) bool
	Delete(s *S, d Deletion, read *S)
	// Published records what the status says that a pass has written, which had read the children's objects of read.
	Published(x *Pass, s *S, status *v1alpha1.UnitedDeploymentStatus, read *S)

	// Controllers adds what the kind's controllers do next, Others all other events: evictions, losses, and kubelets
	// unless they act as controllers do, at the end of the list.
	Controllers(e *Events[S])
	Others(e *Events[S])
	// Heal makes all replicas ready, and reports whether it changed any. scarred: a replica that is not ready, and
	// does not have the version that the spec asks for, never becomes ready again. Age lets time pass for replicas.
	Heal(s *S, scarred bool) bool
	Age(s *S)

	// Judge checks a pass that was decided in a state, Look a state in which nothing more happens.
	Judge(x *Pass, s *S) []Breach
	Look(s *S) Look
}

// Ageless is a Game in which not the clock advances, but the age of everything, so that a world in which nothing happens stays
// the same. Time passes without a budget, and nothing else happens while it does. It checks its endings itself.
type Ageless[S comparable] interface {
	// Begin completes the first state, and reports whether the world comes to rest before the walk.
	Begin(s *S) (rests bool)
	// Ending says what is wrong with a state in which nothing more happens; "" if nothing.
	Ending(r *Rest[S]) string
	// MayCircle reports whether a world may go round in circles for ever.
	MayCircle(s *S) bool
}

// Look is the result of comparing a state with the spec.
type Look struct {
	// Wrong describes an error, regardless of the status; "" if there is none.
	Wrong string
	// Arrived: every subset is as the spec asks for. AllReady: every replica is ready. Failed: an updated replica
	// failed.
	Arrived, AllReady, Failed bool
	// Total is the number of replicas, Left a child of a subset that the spec no longer has.
	Total int
	Left  string
	// WayOut is the action that helps if a replica is stuck for a reason of its kind, which the status describes in
	// these words.
	WayOut func(*Core)
	Says   string
}

// Event is an event, and the state after it; Raw is that state before it was brought into canonical form.
type Event[S comparable] struct {
	Name      string
	Next, Raw S
	// Child is the child whose object the event changes; -1 if none.
	Child int
}

// Events collects what can happen in a state, and violations of rules.
type Events[S comparable] struct {
	g        Game[S]
	S        *S
	List     []Event[S]
	Breaches []Breach
}

// Add adds an event if it changes anything.
func (e *Events[S]) Add(name string, k int, f func(*S)) {
	raw := *e.S
	f(&raw)
	after := raw
	e.g.Tidy(&after)
	if after != *e.S {
		e.List = append(e.List, Event[S]{Name: name, Next: after, Raw: raw, Child: k})
	}
}

// Spend adds a fault, which a running pass, or a controller, cannot know, if the budget for it is not used up.
func (e *Events[S]) Spend(name string, on, k int, f func(*S)) {
	e.spend(name, on, k, func(after *S) {
		f(after)
		e.g.Core(after).Race = true
	})
}

// spend adds an event if the budget for it is not used up.
func (e *Events[S]) spend(name string, on, k int, f func(*S)) {
	if e.g.Core(e.S).Budget[on] > 0 {
		e.Add(name, k, func(after *S) {
			f(after)
			e.g.Core(after).Budget[on]--
		})
	}
}

// walk is a walk through a world that caches decisions.
type walk[S comparable] struct {
	Game[S]
	w *World
	// ageless is the game if it is one, otherwise nil.
	ageless Ageless[S]
	passes  map[uint64]*Pass
	seed    maphash.Seed
	asked   int // how often a status was asked for
}

func newWalk[S comparable](g Game[S]) *walk[S] {
	ageless, _ := g.(Ageless[S])
	return &walk[S]{Game: g, w: g.Base(), ageless: ageless, passes: map[uint64]*Pass{}, seed: maphash.MakeSeed()}
}

func (k *walk[S]) hash(s *S) uint64 { return maphash.Comparable(k.seed, *s) }

// settled reports whether no controller has anything left to do.
func (k *walk[S]) settled(s *S) bool { return len(k.controllers(s).List) == 0 }

func (k *walk[S]) controllers(s *S) *Events[S] {
	e := &Events[S]{g: k.Game, S: s}
	k.Controllers(e)
	return e
}
