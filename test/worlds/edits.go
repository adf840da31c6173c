// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import "fmt"

// events returns everything that can happen apart from passes of the manager.
func (k *walk[S]) events(s *S) *Events[S] {
	e := k.controllers(s)
	k.Others(e)
	k.edits(e)
	return e
}

// edits adds what the user does, and the passing of time.
func (k *walk[S]) edits(e *Events[S]) {
	w, s := k.w, k.Core(e.S)
	edit := func(name string, on int, f func(*Core)) {
		e.spend(name, on, -1, func(after *S) {
			core := k.Core(after)
			f(core)
			core.Generation++
			core.Edited = true
		})
	}
	for _, v := range w.Versions {
		if v != s.Version {
			edit(fmt.Sprintf("template v%d", v), Templates, func(after *Core) { after.Version = v })
		}
	}
	for _, n := range w.ScaledTo {
		if n != s.Replicas {
			edit(fmt.Sprintf("scale %d", n), Scales, func(after *Core) {
				after.Race = after.Race || n > after.Replicas // what was asked for before is excused
				after.Replicas = n
			})
		}
	}
	for n := range len(w.MovedTo) + Int(len(w.Topologies) == 0) {
		if uint8(n) != s.Wishes {
			edit(fmt.Sprintf("move to %v", w.wishes(&Core{Wishes: uint8(n)})), Scales, func(after *Core) { after.Wishes = uint8(n) })
		}
	}
	for n := range w.Topologies {
		if uint8(n) != s.Wishes {
			edit(fmt.Sprintf("topology %d", n), Topologies, func(after *Core) { after.Wishes = uint8(n) })
		}
	}
	edit("paused", Pauses, func(after *Core) { after.Paused = !after.Paused })
	for v := range w.Strategies {
		if uint8(v) != s.Strategy {
			edit(fmt.Sprintf("strategy %d", v), Strategies, func(after *Core) { after.Strategy, after.Race = uint8(v), true })
		}
	}
	for _, subsets := range w.SubsetsTo {
		if subsets != s.Subsets {
			edit(fmt.Sprintf("subsets %b", subsets), Strategies, func(after *Core) { after.Subsets = subsets })
		}
	}
	if k.ageless != nil {
		e.Add(tick, -1, k.tick)
	} else {
		e.spend(tick, Ticks, -1, k.tick)
	}
	if key := w.ApprovalKey(s); key != 0 {
		e.Add("approve", -1, func(after *S) { k.Core(after).Approved = key })
	}
}

// tick is the name of the event that time passes.
const tick = "tick"

// tick advances the clock, if there is one.
func (k *walk[S]) tick(s *S) {
	if k.ageless == nil {
		k.Core(s).Now++
	}
	k.Age(s)
}
