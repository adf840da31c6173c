// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

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

// scheduler adds what the scheduler does: it gives a pod a node in one of the domains that are possible, or says that it
// finds none.
func (e *events) scheduler() {
	for d := range maxDomains {
		e.pods(fmt.Sprintf("schedule %c", 'x'+d), func(s *state, k, i int, p *statefulset.Pod) {
			if !p.Terminating && p.Marks&placed == 0 && e.w.fits(s, k, i, d) {
				p.Marks = placed | uint8(d)
			}
		})
	}
	e.pods("unschedulable", func(s *state, k, i int, p *statefulset.Pod) {
		for d := range maxDomains {
			if p.Terminating || p.Marks != 0 || e.w.fits(s, k, i, d) {
				return
			}
		}
		p.Marks = 1
	})
}

// fits reports whether the scheduler may place a pod in a domain: there is room, the group is not in another one, and, if
// groups are exclusive, no other group is there.
func (w *game) fits(s *state, k, ordinal, domain int) bool {
	v := w.versions[s.Kids[k].Set.Pods[ordinal].Version-1]
	group, used, begun, here := w.group(v, k, ordinal), 0, false, false
	for other := range s.Kids {
		for i := range s.Kids[other].Set.Pods {
			p := &s.Kids[other].Set.Pods[i]
			if !isPlaced(p) {
				continue
			}
			of := w.versions[p.Version-1]
			if domainOf(p) == domain {
				used += of.size()
			}
			if group < 0 || w.group(of, other, i) < 0 || of.id != v.id {
				continue
			}
			switch same := w.group(of, other, i) == group; {
			case same:
				begun, here = true, here || domainOf(p) == domain
			case v.exclusive && domainOf(p) == domain:
				return false
			}
		}
	}
	return used+v.size() <= int(s.Nodes[domain]) && (!begun || here)
}

// group returns the group of a replica of a version, -1 if it has none.
func (w *game) group(v *version, k, ordinal int) int {
	if ratio := v.ratio(k); ratio > 0 {
		return ordinal / ratio
	}
	return -1
}

// kubelets adds what kubelets do: pods become ready, or crash, and disappear.
func (e *events) kubelets() {
	e.pods("kubelet", func(_ *state, _, _ int, p *statefulset.Pod) {
		v := e.w.versions[p.Version-1]
		switch {
		case p.Marks&placed == 0:
		case p.Terminating:
			*p = statefulset.Pod{}
		case v.broken() && p.Phase != statefulset.Crashed:
			p.Phase, p.Aged = statefulset.Crashed, false
		case !v.broken() && !v.slow() && p.Phase != statefulset.Ready:
			p.Phase, p.Aged = statefulset.Ready, false
		}
	})
}

// pods adds an event for each pod that it changes.
func (e *events) pods(name string, f func(s *state, k, ordinal int, p *statefulset.Pod)) {
	for k := range e.s.Kids {
		for i := range e.s.Kids[k].Set.Pods {
			if e.s.Kids[k].Set.Pods[i].Exists() {
				e.add(fmt.Sprintf("%s %s-%d", name, subsetName(k), i), -1, func(s *state) { f(s, k, i, &s.Kids[k].Set.Pods[i]) })
			}
		}
	}
}

// disturbances adds what nobody asked for.
func (e *events) disturbances() {
	for d := range e.s.Nodes {
		for _, n := range e.w.nodesTo {
			e.spend(fmt.Sprintf("nodes %c %d", 'x'+d, n), nodes, -1, func(s *state) { s.Nodes[d] = n })
		}
	}
	for k := range e.s.Kids {
		if e.s.Kids[k].Set.Exists {
			e.spend("delete child "+subsetName(k), losses, k, func(s *state) {
				s.Kids[k].Set.Remove(false)
				s.Kids[k].Set.Collect(true)
				s.Kids[k] = kid{Set: s.Kids[k].Set}
			})
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
	for n, image := range e.w.images {
		if uint8(n) != e.s.Image {
			edit("image "+image, templates, func(s *state) { s.Image = uint8(n) })
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
			p.Aged = p.Aged || isPlaced(p)
		}
	}
	w.older(s)
}
