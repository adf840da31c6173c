// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"fmt"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/test/worlds"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// Controllers adds what everybody does next who is not a user.
func (w *game) Controllers(e *placement.Events) { w.Act(e, w.schedule) }

// schedule adds what the scheduler does: it gives a pod a node in one of the domains that are possible, or says that it
// finds none.
func (w *game) schedule(e *placement.Events) {
	for d := range w.Nodes {
		placement.Pods(e, fmt.Sprintf("schedule %c", 'x'+d), func(s *state, k, i int, p *statefulset.Pod) {
			if !p.Terminating && !placement.IsPlaced(p) && w.fits(s, k, i, d) {
				placement.Place(p, d)
			}
		})
	}
	placement.Pods(e, "unschedulable", func(s *state, k, i int, p *statefulset.Pod) {
		for d := range w.Nodes {
			if p.Terminating || placement.IsPlaced(p) || w.fits(s, k, i, d) {
				return
			}
		}
		placement.Refuse(p)
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
			if !placement.IsPlaced(p) {
				continue
			}
			of := w.versions[p.Version-1]
			if placement.RoomOf(p) == domain {
				used += of.size()
			}
			if group < 0 || w.group(of, other, i) < 0 || of.id != v.id {
				continue
			}
			switch same := w.group(of, other, i) == group; {
			case same:
				begun, here = true, here || placement.RoomOf(p) == domain
			case v.exclusive && placement.RoomOf(p) == domain:
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

// Others adds what nobody asked for.
func (w *game) Others(e *placement.Events) {
	for d := range e.S.Nodes {
		for _, n := range w.nodesTo {
			e.Spend(fmt.Sprintf("nodes %c %d", 'x'+d, n), worlds.Nodes, -1, func(s *state) { s.Nodes[d] = n })
		}
	}
	for k := range e.S.Kids {
		if e.S.Kids[k].Set.Exists {
			e.Spend("delete child "+worlds.SubsetName(k), worlds.Losses, k, func(s *state) {
				s.Kids[k].Set.Remove(false)
				s.Kids[k].Set.Collect(true)
				s.Kids[k] = placement.Kid{Set: s.Kids[k].Set}
			})
		}
		placement.Disturb(e, k)
	}
}
