// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import "fmt"

// event is something that happens, and the world after it; raw is that before it was brought into its one form,
// where every pod has the place that it had.
type event struct {
	name      string
	next, raw state
	// child is the one whose object it changes; -1 if none.
	child int
}

// events collects what can happen in a state, and what breaks a rule.
type events struct {
	w        *world
	s        *state
	list     []event
	breaches []breach
}

// events is all that can happen but passes of the manager.
func (w *world) events(s *state) ([]event, []breach) {
	e := &events{w: w, s: s}
	for k := range s.Children {
		if s.Children[k].Exists {
			e.controllers(k)
			e.losses(k)
		}
		e.pods(k)
	}
	e.edits()
	return e.list, e.breaches
}

func (e *events) add(name string, k int, f func(*state)) {
	raw := *e.s
	f(&raw)
	after := raw
	e.w.tidy(&after)
	if after != *e.s {
		e.list = append(e.list, event{name: name, next: after, raw: raw, child: k})
	}
}

// spend adds an event that takes from the budget, and that nobody could foresee.
func (e *events) spend(name string, on, k int, f func(*state)) {
	if e.s.Budget[on] > 0 {
		e.add(name, k, func(after *state) {
			f(after)
			after.Budget[on]--
			after.Race = true
		})
	}
}

// controllers is what the CloneSets' controller does next.
func (e *events) controllers(k int) {
	e.add("cloneset controller, "+subsetName(k), k, func(after *state) {
		before := after.Children[k]
		taken := e.w.sync(after, k)
		e.breaches = append(e.breaches, e.w.judgeSync(&before, after, k)...)
		e.breaches = append(e.breaches, e.w.judgeTaken(after, k, taken)...)
	})
}

// pods is what kubelets say of pods, and evictions. Of pods that are the same one stands for all.
func (e *events) pods(k int) {
	seen := map[pod]bool{}
	for n, p := range e.s.Children[k].Pods {
		if p.Version == 0 || seen[p] {
			continue
		}
		seen[p] = true
		what := fmt.Sprintf("%s v%d", subsetName(k), p.Version)
		if p.Terminating {
			e.add("gone "+what, -1, func(after *state) { after.Children[k].Pods[n] = pod{} })
			continue
		}
		become := func(to phase, was bool) func(*state) {
			return func(after *state) {
				q := &after.Children[k].Pods[n]
				q.Phase, q.Aged, q.WasReady = to, false, was
				after.Children[k].touch(n)
			}
		}
		bad := e.w.bad&bit(p.Version) != 0
		switch {
		case p.Phase == starting && bad:
			e.add("fails "+what, -1, become(crashed, false))
		case p.Phase == starting:
			e.add("ready "+what, -1, become(ready, true))
		case p.Phase == ready:
			e.spend("crash "+what, crashes, -1, become(crashed, true))
			e.spend("unready "+what, flaps, -1, become(unready, true))
		case !bad:
			e.add("recovers "+what, -1, become(ready, true))
		}
		e.spend("evict "+what+p.Phase.letter(), evictions, -1, func(after *state) { e.w.end(&after.Children[k].Pods[n]) })
	}
}

// losses is what somebody deletes.
func (e *events) losses(k int) {
	c := e.s.Children[k]
	e.spend("delete "+subsetName(k), deletions, k, func(after *state) {
		after.Children[k] = child{Incarnation: c.Incarnation, Protects: c.Protects, Released: c.Released}
	})
}

// edits is what the user does, and what time does.
func (e *events) edits() {
	edit := func(name string, on int, f func(*state)) {
		e.spend(name, on, -1, func(after *state) {
			f(after)
			after.Generation++
		})
	}
	for _, v := range e.w.versions {
		if v != e.s.Version {
			edit(fmt.Sprintf("template v%d", v), templates, func(after *state) { after.Version = v })
		}
	}
	for _, n := range e.w.scaledTo {
		if n != e.s.Replicas {
			edit(fmt.Sprintf("scale %d", n), scales, func(after *state) { after.Replicas = n })
		}
	}
	edit("paused", pauses, func(after *state) { after.Paused = !after.Paused })
	for v := range e.w.strategies {
		if uint8(v) != e.s.Strategy {
			edit(fmt.Sprintf("strategy %d", v), strategies, func(after *state) { after.Strategy = uint8(v) })
		}
	}
	for _, subsets := range e.w.subsetsTo {
		if subsets != e.s.Subsets {
			edit(fmt.Sprintf("subsets %b", subsets), strategies, func(after *state) { after.Subsets = subsets })
		}
	}
	if e.s.Budget[ticks] > 0 {
		e.add("tick", -1, func(after *state) {
			after.Budget[ticks]--
			after.tick()
		})
	}
	if key := e.w.approvalKey(e.s); key != 0 {
		e.add("approve", -1, func(after *state) { after.Approved = key })
	}
}

// approvalKey is what the running step is approved with; 0 when there is nothing to approve.
func (w *world) approvalKey(s *state) uint32 {
	if rollout := w.status(s).Rollout; rollout != nil {
		return w.text(rollout.ApprovalKey)
	}
	return 0
}

// tick lets time pass.
func (s *state) tick() {
	s.Now++
	for k := range s.Children {
		c := &s.Children[k]
		for n := range c.Pods {
			c.Pods[n].Aged = c.Pods[n].Version != 0
		}
	}
}
