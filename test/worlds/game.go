// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"hash/maphash"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// Game is a world with children of one kind. S is its state, which has a Core and the children.
type Game[S comparable] interface {
	Base() *World
	Core(s *S) *Core
	// Tidy brings a state into its one form, and keeps what only the oracle knows.
	Tidy(s *S)
	// Show is a state in a line.
	Show(s *S) string

	// Seen is what a pass can see of a state.
	Seen(s *S) S
	// Read is what a pass reads of the children, and, from a state that may be an earlier one, of what is theirs.
	Read(in *planner.Input, s, theirs *S)
	// Writes is what a step writes (World.WriteOf); false when nothing differs. DeletionsOf are the replicas that a subset loses.
	Writes(s *S, sub *planner.SubsetPlan, hold Hold) (Write, bool)
	DeletionsOf(sub *planner.SubsetPlan) []Deletion
	// Carry writes one child, and Observed reads it. Exists reports whether there is one. Delete deletes a replica if
	// it is still the one that was read.
	Carry(x *Pass, s *S, wr Write)
	Observed(s *S, k int) *planner.Child
	Exists(s *S, k int) bool
	Delete(s *S, d Deletion, read *S)
	// Published tells what the status says.
	Published(s *S, status *v1alpha1.UnitedDeploymentStatus)

	// Controllers are what the kind's controllers do next, Others what happens beside: kubelets, evictions, losses.
	Controllers(e *Events[S])
	Others(e *Events[S])
	// Heal brings all replicas on, and reports whether there was any to bring on. scarred: what is not ready, and not
	// of the version that is asked for, never becomes ready again. Age lets time pass for them.
	Heal(s *S, scarred bool) bool
	Age(s *S)

	// Judge says what is wrong with a pass that was decided in a state, Look with a world in which nothing more happens.
	Judge(x *Pass, s *S) []Breach
	Look(s *S) Look
}

// Look is how a world compares with the spec.
type Look struct {
	// Wrong is what is wrong with it, whatever the status says; "" if nothing.
	Wrong string
	// Arrived: every subset is where the spec wants it. AllReady: every replica is ready. Failed: an updated one failed.
	Arrived, AllReady, Failed bool
	// Total is how many replicas there are, Left a child of a subset that the spec does not have any more.
	Total int
	Left  string
	// WayOut is what ends it where a replica stands still for a reason of its kind, which the status says in these words.
	WayOut func(*Core)
	Says   string
}

// Event is something that happens, and the world after it; Raw is that before it was brought into its one form.
type Event[S comparable] struct {
	Name      string
	Next, Raw S
	// Child is the one whose object it changes; -1 if none.
	Child int
}

// Events collects what can happen in a state, and what breaks a rule.
type Events[S comparable] struct {
	g        Game[S]
	S        *S
	List     []Event[S]
	Breaches []Breach
}

// Add adds what happens, if it changes anything.
func (e *Events[S]) Add(name string, k int, f func(*S)) {
	raw := *e.S
	f(&raw)
	after := raw
	e.g.Tidy(&after)
	if after != *e.S {
		e.List = append(e.List, Event[S]{Name: name, Next: after, Raw: raw, Child: k})
	}
}

// Spend adds an event that takes from the budget, and that nobody could foresee.
func (e *Events[S]) Spend(name string, on, k int, f func(*S)) {
	if e.g.Core(e.S).Budget[on] > 0 {
		e.Add(name, k, func(after *S) {
			f(after)
			core := e.g.Core(after)
			core.Budget[on]--
			core.Race = true
		})
	}
}

// walk is a world that is walked through, so that no state is decided twice.
type walk[S comparable] struct {
	Game[S]
	w      *World
	passes map[uint64]*Pass
	seed   maphash.Seed
}

func newWalk[S comparable](g Game[S]) *walk[S] {
	return &walk[S]{Game: g, w: g.Base(), passes: map[uint64]*Pass{}, seed: maphash.MakeSeed()}
}

func (k *walk[S]) hash(s *S) uint64 { return maphash.Comparable(k.seed, *s) }

// settled reports whether all controllers have done what they were told.
func (k *walk[S]) settled(s *S) bool { return len(k.controllers(s).List) == 0 }

func (k *walk[S]) controllers(s *S) *Events[S] {
	e := &Events[S]{g: k.Game, S: s}
	k.Controllers(e)
	return e
}
