// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"fmt"

	"github.com/unitedworkloads/united/test/worlds"
)

type events = worlds.Events[state]

// Controllers adds what Kubernetes' controllers do next.
func (w *game) Controllers(e *events) {
	for k := range e.S.Children {
		c := &e.S.Children[k]
		if c.Exists {
			e.Add("deployment controller, "+worlds.SubsetName(k), k, func(after *state) {
				before := after.Children[k]
				w.sync(after, k)
				e.Breaches = append(e.Breaches, w.judgeSync(&before, after, k)...)
			})
		}
		if c.Exists || c.Orphaned {
			e.Add("replicaset controller, "+worlds.SubsetName(k), -1, func(after *state) {
				taken := w.syncReplicaSets(after, k)
				e.Breaches = append(e.Breaches, w.judgeTaken(after, k, taken)...)
			})
		}
	}
}

// Others adds all other events.
func (w *game) Others(e *events) {
	for k := range e.S.Children {
		if c := &e.S.Children[k]; c.Exists || c.Orphaned {
			w.podEvents(e, k)
			w.losses(e, k)
		}
	}
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
		become := func(to phase, was bool) func(*state) {
			return func(after *state) { after.Children[k].Pods[n] = pod{Version: p.Version, Phase: to, WasReady: was} }
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
			e.Spend("unready "+what, worlds.Crashes, -1, become(unready, true))
		case !bad:
			e.Add("recovers "+what, -1, become(ready, true))
		}
		e.Spend("evict "+what+p.Phase.letter(), worlds.Evictions, -1, func(after *state) { after.Children[k].Pods[n] = pod{} })
	}
}

// losses adds what somebody deletes.
func (w *game) losses(e *events, k int) {
	c := e.S.Children[k]
	if !c.Exists {
		return
	}
	e.Spend("delete "+worlds.SubsetName(k), worlds.Deletions, k, func(after *state) {
		after.Children[k] = child{Incarnation: c.Incarnation, MaxUnavailable: ofTemplate, MaxSurge: w.templateSurge(), Protects: c.Protects}
	})
	e.Spend("orphan "+worlds.SubsetName(k), worlds.Deletions, k, func(after *state) {
		after.Children[k].Exists, after.Children[k].Orphaned = false, true
	})
	for v := uint8(1); v <= worlds.MaxVersion; v++ {
		if c.ReplicaSets[v].Exists {
			e.Spend(fmt.Sprintf("stale annotation of replicaset %s v%d", worlds.SubsetName(k), v), worlds.Forgets, -1, func(after *state) {
				after.Children[k].ReplicaSets[v].Desired++
			})
		}
	}
	for v := uint8(1); v <= worlds.MaxVersion && w.loseReplicaSets; v++ {
		if c.ReplicaSets[v].Exists {
			e.Spend(fmt.Sprintf("delete replicaset %s v%d", worlds.SubsetName(k), v), worlds.Deletions, -1, func(after *state) {
				lost := &after.Children[k]
				lost.ReplicaSets[v] = replicaSet{}
				for n := range lost.Pods {
					if lost.Pods[n].Version == v {
						lost.Pods[n] = pod{}
					}
				}
			})
		}
	}
}

// Heal makes all pods ready at once.
func (w *game) Heal(s *state, scarred bool) (healed bool) {
	for k := range s.Children {
		for i := range s.Children[k].Pods {
			p := &s.Children[k].Pods[i]
			bad := w.Bad&worlds.Bit(p.Version) != 0
			switch {
			case p.Version == 0 || p.Phase == ready, p.Phase == starting && w.Sick&worlds.Bit(p.Version) != 0:
			case p.Phase == starting && bad:
				*p, healed = pod{Version: p.Version, Phase: crashed}, true
			case p.Phase == starting, !bad && (!scarred || p.Version == s.Version):
				*p, healed = pod{Version: p.Version, Phase: ready, WasReady: true}, true
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
		if c.Exists && c.Progress == progressing && !c.Paused && c.Observed {
			c.Progress = deadlineExceeded
		}
	}
}
