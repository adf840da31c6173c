// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"fmt"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
)

// event is an event, and the state after it; raw is that state before it was brought into canonical form.
type event struct {
	name      string
	next, raw state
	// child is the child whose object the event changes; -1 if none.
	child int
}

// events collects what can happen in a state.
type events struct {
	w    *game
	s    *state
	list []event
}

// add adds an event if it changes anything.
func (e *events) add(name string, child int, f func(*state)) {
	raw := *e.s
	f(&raw)
	after := raw
	if e.w.tidy(&after); after != *e.s {
		e.list = append(e.list, event{name, after, raw, child})
	}
}

// spend adds an event that uses the budget.
func (e *events) spend(name string, on, child int, f func(*state)) {
	if e.s.Budget[on] > 0 {
		e.add(name, child, func(after *state) {
			f(after)
			after.Budget[on]--
		})
	}
}

// everything returns everything that can happen apart from passes of the manager.
func (w *game) everything(s *state) []event {
	e := &events{w: w, s: s}
	e.controllers()
	e.scheduler()
	e.kubelets()
	e.disturbances()
	e.edits()
	e.add("tick", -1, w.tick)
	return e.list
}

// controllers adds the StatefulSet controller and the garbage collector.
func (e *events) controllers() {
	for k := range e.s.Kids {
		e.add("sync "+subsetName(k), k, func(s *state) { s.Kids[k].Set.Sync(e.w.kind) })
		e.add("collect "+subsetName(k), -1, func(s *state) { s.Kids[k].Set.Collect(true) })
	}
}

// settled reports whether no controller has anything left to do.
func (w *game) settled(s *state) bool {
	e := &events{w: w, s: s}
	e.controllers()
	e.scheduler()
	e.kubelets()
	return len(e.list) == 0
}

// scheduler adds what the scheduler does: it gives a pod a node, or says that it finds none.
func (e *events) scheduler() {
	e.pods("schedule", func(s *state, k int, p *statefulset.Pod) {
		switch {
		case p.Terminating || p.Marks&placed != 0:
		case used(s, k) < int(s.Nodes[k]):
			p.Marks = placed
		case p.Marks == 0:
			p.Marks = 1
		}
	})
}

// used returns how many pods the nodes of a subset have.
func used(s *state, k int) (n int) {
	for i := range s.Kids[k].Set.Pods {
		if isPlaced(&s.Kids[k].Set.Pods[i]) {
			n++
		}
	}
	return n
}

// kubelets adds what kubelets do: pods become ready, and disappear.
func (e *events) kubelets() {
	e.pods("kubelet", func(_ *state, _ int, p *statefulset.Pod) {
		switch {
		case p.Marks&placed == 0:
		case p.Terminating:
			*p = statefulset.Pod{}
		case p.Phase != statefulset.Ready:
			p.Phase, p.Aged = statefulset.Ready, false
		}
	})
}

// pods adds an event for each pod that it changes.
func (e *events) pods(name string, f func(*state, int, *statefulset.Pod)) {
	for k := range e.s.Kids {
		for i := range e.s.Kids[k].Set.Pods {
			if e.s.Kids[k].Set.Pods[i].Exists() {
				e.add(fmt.Sprintf("%s %s-%d", name, subsetName(k), i), -1, func(s *state) { f(s, k, &s.Kids[k].Set.Pods[i]) })
			}
		}
	}
}

// disturbances adds what nobody asked for.
func (e *events) disturbances() {
	for k := range e.s.Kids {
		for _, n := range e.w.nodesTo[k] {
			e.spend(fmt.Sprintf("nodes %s %d", subsetName(k), n), nodes, -1, func(s *state) { s.Nodes[k] = n })
		}
		for i := range e.s.Kids[k].Set.Pods {
			p := &e.s.Kids[k].Set.Pods[i]
			if p.Phase == statefulset.Ready && !p.Terminating {
				e.spend(fmt.Sprintf("flap %s-%d", subsetName(k), i), flaps, -1, func(s *state) {
					s.Kids[k].Set.Pods[i].Phase, s.Kids[k].Set.Pods[i].Aged = statefulset.Unready, false
				})
			}
			if p.Exists() && !p.Terminating {
				e.spend(fmt.Sprintf("delete by hand %s-%d", subsetName(k), i), deletions, -1, func(s *state) { s.Kids[k].Set.Delete(i) })
			}
		}
	}
}

// edits adds what the user does.
func (e *events) edits() {
	edit := func(name string, on int, f func(*state)) {
		e.spend(name, on, -1, func(s *state) {
			f(s)
			s.Generation++
			s.Edited = true
		})
	}
	for v := uint8(1); v <= e.w.versions; v++ {
		if v != e.s.Version {
			edit(fmt.Sprintf("template v%d", v), templates, func(s *state) { s.Version = v })
		}
	}
	for _, n := range e.w.scaledTo {
		if n != e.s.Replicas {
			edit(fmt.Sprintf("scale %d", n), scales, func(s *state) { s.Replicas = n })
		}
	}
	for n := range e.w.topologies {
		if uint8(n) != e.s.Topology {
			edit(fmt.Sprintf("topology %d", n), topologies, func(s *state) { s.Topology = uint8(n) })
		}
	}
	for n := range e.w.strategies {
		if uint8(n) != e.s.Strategy {
			edit(fmt.Sprintf("strategy %d", n), strategies, func(s *state) { s.Strategy = uint8(n) })
		}
	}
}

// tick lets time pass.
func (w *game) tick(s *state) {
	for k := range s.Kids {
		c := &s.Kids[k]
		for i := range c.Set.Pods {
			p := &c.Set.Pods[i]
			if isUnschedulable(p) {
				p.Marks = min(p.Marks+1, oldAge+1)
			}
			p.Aged = p.Aged || p.Phase == statefulset.Ready
		}
		if c.Cap >= clearedCap {
			c.Cap = min(c.Cap+1, overCap)
		}
	}
	w.older(s)
}
