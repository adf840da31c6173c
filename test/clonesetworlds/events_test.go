// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"

	"github.com/unitedworkloads/united/test/worlds"
)

type events = worlds.Events[state]

// Controllers adds what the CloneSet controller does next.
func (w *game) Controllers(e *events) {
	for k := range e.S.Children {
		if !e.S.Children[k].Exists {
			continue
		}
		e.Add("cloneset controller, "+worlds.SubsetName(k), k, func(after *state) {
			before := after.Children[k]
			taken := w.sync(after, k)
			e.Breaches = append(e.Breaches, w.judgeSync(&before, after, k)...)
			e.Breaches = append(e.Breaches, w.judgeTaken(after, k, taken)...)
		})
	}
}

// Others adds all other events.
func (w *game) Others(e *events) {
	for k := range e.S.Children {
		if c := e.S.Children[k]; c.Exists { // somebody deletes it
			e.Spend("delete "+worlds.SubsetName(k), worlds.Deletions, k, func(after *state) {
				after.Children[k] = child{Incarnation: c.Incarnation, Protects: c.Protects, Released: c.Released}
			})
		}
		w.podEvents(e, k)
	}
}

// mayTake reports whether the controller may replace a pod at any moment: it has chosen it, or it may choose it.
func (c *child) mayTake(n int) bool {
	p, old := &c.Pods[n], not(of(c.Template))
	return p.Marked || old(p) && c.count(old) > c.partitionReplicas()
}

// podEvents adds evictions, and what kubelets report about pods. One pod stands for all equal ones.
func (w *game) podEvents(e *events, k int) {
	seen := map[pod]bool{}
	for n, p := range e.S.Children[k].Pods {
		if p.Version == 0 || seen[p] {
			continue
		}
		seen[p] = true
		what := fmt.Sprintf("%s v%d", worlds.SubsetName(k), p.Version)
		if p.Terminating {
			e.Add("gone "+what, -1, func(after *state) { after.Children[k].Pods[n] = pod{} })
			continue
		}
		become := func(to phase, was bool) func(*state) {
			return func(after *state) {
				c := &after.Children[k]
				if to == ready && c.mayTake(n) {
					after.Race = true // nobody could know when it was released: "release an unready or missing one"
				}
				q := &c.Pods[n]
				q.Phase, q.Aged, q.WasReady = to, false, was
				after.Children[k].touch(n)
			}
		}
		bad := w.Bad&worlds.Bit(p.Version) != 0
		switch {
		case p.Phase == starting && w.Sick&worlds.Bit(p.Version) != 0:
		case p.Phase == starting && bad:
			e.Add("fails "+what, -1, become(crashed, false))
		case p.Phase == starting:
			e.Add("ready "+what, -1, become(ready, true))
		case p.Phase == ready:
			e.Spend("crash "+what, worlds.Crashes, -1, become(crashed, true))
			e.Spend("unready "+what, worlds.Flaps, -1, become(unready, true))
		case !bad:
			e.Add("recovers "+what, -1, become(ready, true))
		}
		e.Spend("evict "+what+p.Phase.letter(), worlds.Evictions, -1, func(after *state) { w.end(&after.Children[k].Pods[n]) })
	}
}

// Heal makes all pods ready at once.
func (w *game) Heal(s *state, scarred bool) (healed bool) {
	for k := range s.Children {
		for i := range s.Children[k].Pods {
			p := &s.Children[k].Pods[i]
			bad := w.Bad&worlds.Bit(p.Version) != 0
			switch {
			case p.Version != 0 && p.Terminating:
				*p, healed = pod{}, true
			case p.Version == 0 || p.Phase == ready, p.Phase == starting && w.Sick&worlds.Bit(p.Version) != 0:
			case p.Phase == starting && bad:
				p.Phase, p.Aged, healed = crashed, false, true
			case p.Phase == starting, !bad && (!scarred || p.Version == s.Version):
				p.Phase, p.Aged, p.WasReady, healed = ready, false, true, true
			}
		}
	}
	return healed
}

// Age lets time pass.
func (w *game) Age(s *state) {
	for k := range s.Children {
		c := &s.Children[k]
		for n := range c.Pods {
			c.Pods[n].Aged = c.Pods[n].Version != 0
		}
	}
}
