// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"fmt"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/test/worlds"
)

type events = worlds.Events[state]

// Controllers adds what the controllers of LeaderWorkerSets, StatefulSets and groups do next.
func (w *game) Controllers(e *events) {
	for k := range e.S.Children {
		c := &e.S.Children[k]
		if c.Exists {
			e.Add("leaderworkerset controller, "+worlds.SubsetName(k), k, func(after *state) { w.reconcile(&after.Children[k]) })
		}
		if c.Leaders.Exists {
			e.Add("statefulset controller, "+worlds.SubsetName(k), -1, func(after *state) {
				before := after.Children[k]
				taken := w.syncLeaders(&after.Children[k])
				after.Children[k].stray(&before)
				e.Breaches = append(e.Breaches, w.judgeSync(&before, after, k)...)
				e.Breaches = append(e.Breaches, w.judgeTaken(after, k, taken)...)
			})
		}
		for i := range maxGroups {
			if c.Exists {
				e.Add("pod controller, "+leaderName(k, i), -1, func(after *state) { w.reconcilePod(&after.Children[k], i) })
			}
			if c.Workers[i].Stale {
				e.Add("workers collected, "+leaderName(k, i), -1, func(after *state) { after.Children[k].Workers[i] = worker{} })
			}
		}
	}
}

// stray records groups that came up on what they protect no longer, because the controller had forgotten that. "A protected
// ordinal that came up on the update revision without having been released is deleted after that", even if all groups are
// updated for a moment.
func (c *child) stray(before *child) {
	for i := range maxGroups {
		if made := !before.Leaders.Pods[i].Exists() && c.live(i); made && before.Lost && !c.in(before.Protects, i) && i < worlds.All-int(c.Opened) {
			c.Strays |= 1 << i
		}
	}
}

// Others adds all other events.
func (w *game) Others(e *events) {
	for k := range e.S.Children {
		c := &e.S.Children[k]
		if c.Exists {
			w.losses(e, k)
		}
		// Of equal groups, the lowest and the highest stand for all: those between are protected in the same way.
		for i := range maxGroups {
			if c.Leaders.Pods[i].Exists() {
				w.leaderEvents(e, k, i)
			}
			if wk := &c.Workers[i]; wk.Version != 0 && !wk.Stale {
				w.workerEvents(e, k, i)
			}
		}
	}
}

// leaderEvents adds evictions, and what kubelets report about a leader.
func (w *game) leaderEvents(e *events, k, i int) {
	p := e.S.Children[k].Leaders.Pods[i]
	what := fmt.Sprintf("%s v%d", leaderName(k, i), p.Version)
	if p.Terminating {
		e.Add("gone "+what, -1, func(after *state) { after.Children[k].gone(i) })
		return
	}
	become := func(to statefulset.Phase) func(*state) {
		return func(after *state) {
			w.surprise(after, k, i, to)
			q := &after.Children[k].Leaders.Pods[i]
			q.Phase, q.Aged, q.WasReady = to, false, to == statefulset.Ready || p.WasReady
		}
	}
	w.phases(e, what, p.Phase, uint8(p.Version), become)
	e.Spend("evict "+what+letter(p.Phase), worlds.Evictions, -1, func(after *state) { after.Children[k].Leaders.Delete(i) })
}

// surprise: nobody could know when a group was released ("release an unready or missing one") that it is ready by the
// time its controller replaces it.
func (w *game) surprise(s *state, k, i int, to statefulset.Phase) {
	if c := &s.Children[k]; to == statefulset.Ready && c.released()(i) {
		s.Race = true
	}
}

// workerEvents does the same for a worker. If groups are replaced as a whole, so is the group of an evicted worker.
func (w *game) workerEvents(e *events, k, i int) {
	wk := e.S.Children[k].Workers[i]
	what := fmt.Sprintf("worker of %s v%d", leaderName(k, i), wk.Version)
	become := func(to statefulset.Phase) func(*state) {
		return func(after *state) {
			w.surprise(after, k, i, to)
			q := &after.Children[k].Workers[i]
			q.Phase, q.Aged, q.WasReady = to, false, to == statefulset.Ready || wk.WasReady
		}
	}
	w.phases(e, what, wk.Phase, wk.Version, become)
	e.Spend("evict "+what, worlds.Evictions, -1, func(after *state) {
		c := &after.Children[k]
		c.Workers[i] = worker{Version: wk.Version, Phase: statefulset.Starting}
		if w.restarts {
			c.Leaders.Delete(i)
		}
	})
}

// phases adds the changes of the phase of a pod.
func (w *game) phases(e *events, what string, phase statefulset.Phase, version uint8, become func(statefulset.Phase) func(*state)) {
	bad := w.Bad&worlds.Bit(version) != 0
	switch {
	case phase == statefulset.Starting && w.Sick&worlds.Bit(version) != 0:
	case phase == statefulset.Starting && bad:
		e.Add("fails "+what, -1, become(statefulset.Crashed))
	case phase == statefulset.Starting:
		e.Add("ready "+what, -1, become(statefulset.Ready))
	case phase == statefulset.Ready:
		e.Spend("crash "+what, worlds.Crashes, -1, become(statefulset.Crashed))
		e.Spend("unready "+what, worlds.Flaps, -1, become(statefulset.Unready))
	case !bad:
		e.Add("recovers "+what, -1, become(statefulset.Ready))
	}
}

// gone: a terminating leader is gone, and its workers are left to the garbage collector.
func (c *child) gone(i int) {
	c.Leaders.Pods[i] = statefulset.Pod{}
	if c.Workers[i].Version != 0 {
		c.Workers[i].Stale = true
	}
}

// losses adds what somebody deletes, and what a controller forgets.
func (w *game) losses(e *events, k int) {
	c := e.S.Children[k]
	name := worlds.SubsetName(k)
	e.Spend("delete "+name, worlds.Deletions, k, func(after *state) {
		after.Children[k] = child{Incarnation: c.Incarnation, LeadersAre: c.LeadersAre, Protects: c.Protects, Opened: c.Opened}
	})
	e.Spend("orphan "+name, worlds.Deletions, k, func(after *state) {
		left := &after.Children[k]
		left.Exists, left.Owned, left.Observed = false, false, false
		// What was released after the last status is not on record anywhere now, so those groups count as not released.
		left.Opened = min(left.Opened, left.Told)
		left.Template, left.Replicas, left.Partition, left.MaxUnavailable, left.Record, left.ParentGeneration = 0, 0, 0, 0, 0, 0
		for v, n := range left.Numbers {
			if n != 0 {
				left.Orphans |= worlds.Bit(uint8(v))
			}
		}
	})
	if set := &c.Leaders; set.Exists && set.Current != set.Update {
		e.Spend("the statefulset controller forgets, "+name, worlds.Forgets, -1, func(after *state) {
			lost := &after.Children[k]
			lost.Leaders.Current, lost.Lost = set.Update, true
		})
	}
}

// Heal makes all groups ready at once.
func (w *game) Heal(s *state, scarred bool) (healed bool) {
	become := func(phase statefulset.Phase, version uint8) statefulset.Phase {
		bad := w.Bad&worlds.Bit(version) != 0
		switch {
		case phase == statefulset.Starting && w.Sick&worlds.Bit(version) != 0:
		case phase == statefulset.Starting && bad:
			return statefulset.Crashed
		case phase == statefulset.Starting, !bad && (!scarred || version == s.Version):
			return statefulset.Ready
		}
		return phase
	}
	for k := range s.Children {
		c := &s.Children[k]
		for i := range maxGroups {
			p, wk := &c.Leaders.Pods[i], &c.Workers[i]
			if p.Terminating {
				c.gone(i)
				healed = true
			}
			if to := become(p.Phase, c.version(i)); p.Exists() && to != p.Phase {
				p.Phase, p.Aged, healed = to, false, true
				p.WasReady = p.WasReady || to == statefulset.Ready
			}
			if to := become(wk.Phase, wk.Version); wk.Version != 0 && !wk.Stale && to != wk.Phase {
				wk.Phase, wk.Aged, healed = to, false, true
				wk.WasReady = wk.WasReady || to == statefulset.Ready
			}
		}
	}
	return healed
}

// Age lets time pass.
func (w *game) Age(s *state) {
	for k := range s.Children {
		c := &s.Children[k]
		for i := range maxGroups {
			c.Leaders.Pods[i].Aged = c.Leaders.Pods[i].Exists()
			c.Workers[i].Aged = c.Workers[i].Version != 0
		}
	}
}
