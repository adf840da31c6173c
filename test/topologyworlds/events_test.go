// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"fmt"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/test/worlds"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// Controllers adds what everybody does next who is not a user.
func (w *game) Controllers(e *placement.Events) { w.Act(e, schedule) }

// schedule adds what the scheduler does: it gives a pod a node, or says that it finds none.
func schedule(e *placement.Events) {
	placement.Pods(e, "schedule", func(s *state, k, _ int, p *statefulset.Pod) {
		switch {
		case p.Terminating || placement.IsPlaced(p):
		case used(s, k) < int(s.Nodes[k]):
			placement.Place(p, 0)
		default:
			placement.Refuse(p)
		}
	})
}

// used returns how many pods the nodes of a subset have.
func used(s *state, k int) (n int) {
	for i := range s.Kids[k].Set.Pods {
		n += worlds.Int(placement.IsPlaced(&s.Kids[k].Set.Pods[i]))
	}
	return n
}

// Others adds what nobody asked for.
func (w *game) Others(e *placement.Events) {
	for k := range e.S.Kids {
		for _, n := range w.nodesTo[k] {
			e.Spend(fmt.Sprintf("nodes %s %d", worlds.SubsetName(k), n), worlds.Nodes, -1, func(s *state) { s.Nodes[k] = n })
		}
		placement.Disturb(e, k)
	}
}

// Age lets time pass.
func (w *game) Age(s *state) {
	for k := range s.Kids {
		if c := &s.Kids[k]; c.Cap >= clearedCap {
			c.Cap = min(c.Cap+1, overCap)
		}
	}
	w.World.Age(s)
}
