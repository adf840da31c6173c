// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Small worlds of single kinds: two subsets of two replicas, and every order in which the manager, the controller
// of the kind, the kubelet, the user and chance can act. The planner and the adapter are the real ones. The
// behavior of a controller of the kind is in its model: exhaustive_deployment_model_test.go,
// exhaustive_cloneset_model_test.go. The walk, the user, and what the manager reads and writes are the same for
// all:
//
//	exhaustive_kinds_test.go        the walk
//	exhaustive_kinds_seam_test.go   the parent, the user, and a pass of the manager
//
// A further kind is a kindModel, and a table of worlds.

// kindKids is the number of subsets.
const kindKids = 2

// kindWorld is the setting.
type kindWorld struct {
	name     string
	strategy v1alpha1.UpdateStrategy
	max      int32
	// broken is the version whose pods do not come up; 0 if none.
	broken int8
	// What may happen by chance, or by the user.
	edits, scales, pauses, blips, losses int8

	revisions []*revision.Revision
	specs     map[string]*planner.Input
}

// kindModel is the controller of a kind and its children. S is the complete state of the world, a value, so that
// worlds can be compared.
type kindModel[S comparable] interface {
	// setting is the world to walk, parent the parent in one of its states.
	setting() *kindWorld
	parent(s *S) *kindParent
	// kind has the adapter, and the member of spec.template.
	kind() (adapters.Adapter, func(template []byte) v1alpha1.WorkloadTemplate)

	// child returns the child of a subset as the adapter reads it; nil if there is none. write carries out a step,
	// and reports whether that changed anything.
	child(s *S, k int) *world.Child
	write(s *S, k int, sub *planner.SubsetPlan, step subset.Step) (wrote bool)
	// passed is called after a pass, and scaled after an edit by the user.
	passed(s *S, whole bool)
	scaled(s *S)

	// happens adds what the controller, the kubelet and chance may do to the child of a subset. kindly lets them
	// do what is best, each once.
	happens(s *S, k int, add func(what string, next S, took bool))
	kindly(s *S, k int)

	// breach returns which rule an event breaks, missed what a world lacks in which nothing more happens; "" if
	// nothing.
	breach(s *S, e *kindEvent[S]) string
	missed(s *S) string
}

// kindEvent is one thing that can happen next.
type kindEvent[S comparable] struct {
	what string
	next S
	// took: a controller took an available replica.
	took bool
}

// kindFrom is how a state was first reached.
type kindFrom[S comparable] struct {
	state S
	what  string
}

// walkKind walks everything that can happen, breadth first, and returns the first breach, with a shortest way to
// it.
func walkKind[S comparable](m kindModel[S], bound int) (states int, breach string) {
	w := m.setting()
	w.specs = map[string]*planner.Input{}
	var nothing S
	*m.parent(&nothing) = kindParent{version: 1, generation: 1, replicas: 4}
	s := settle(m, nothing)
	if why := m.missed(&s); why != "" {
		return 0, why
	}
	p := m.parent(&s)
	p.edits, p.scales, p.pauses, p.blips, p.losses = w.edits, w.scales, w.pauses, w.blips, w.losses
	seen := map[S]kindFrom[S]{s: {}}
	way := func(s S, last string) string {
		names := []string{last}
		for f := seen[s]; f.what != ""; f = seen[f.state] {
			names = append(names, f.what)
		}
		slices.Reverse(names)
		return "\nafter: " + strings.Join(names, ", ")
	}
	queue := []S{s}
	for len(queue) > 0 && len(seen) < bound {
		s, queue = queue[0], queue[1:]
		end := settle(m, s)
		if why := m.missed(&end); why != "" {
			return len(seen), why + way(s, "")
		}
		for _, e := range kindEvents(m, s) {
			if why := m.breach(&s, &e); why != "" {
				return len(seen), why + way(s, e.what)
			}
			if _, known := seen[e.next]; !known {
				seen[e.next] = kindFrom[S]{s, e.what}
				queue = append(queue, e.next)
			}
		}
	}
	return len(seen), ""
}

// kindEvents returns everything that can happen next.
func kindEvents[S comparable](m kindModel[S], s S) (events []kindEvent[S]) {
	add := func(what string, next S, took bool) {
		if next != s {
			events = append(events, kindEvent[S]{what, next, took})
		}
	}
	add("pass", passOf(m, s, false), false)
	add("cut", passOf(m, s, true), false)
	for k := range kindKids {
		m.happens(&s, k, add)
	}
	m.parent(&s).edited(func(what string, p kindParent) {
		next := s
		if *m.parent(&next) = p; p.replicas != m.parent(&s).replicas {
			m.scaled(&next)
		}
		add(what, next, false)
	})
	return events
}

// settle lets the world be kind until nothing more happens: pauses end, and a version that cannot come up is
// corrected.
func settle[S comparable](m kindModel[S], s S) S {
	p := m.parent(&s)
	if p.version == m.setting().broken {
		p.version, p.generation = 3, p.generation+1
	}
	if p.paused {
		p.paused, p.generation = false, p.generation+1
	}
	for range 200 {
		before := s
		for k := range kindKids {
			m.kindly(&s, k)
		}
		if s = passOf(m, s, false); s == before {
			break
		}
	}
	return s
}

// convicted returns what is wrong with the findings in a world that must be convicted of breaching a rule; "" if
// nothing.
func convicted(breach, want string) string {
	if breach == "" || !strings.HasPrefix(breach, want) {
		return fmt.Sprintf("want a breach of %s, have %q", want, breach)
	}
	return ""
}
