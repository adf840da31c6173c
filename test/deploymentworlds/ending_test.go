// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import "github.com/unitedworkloads/united/test/worlds"

// Look compares a state in which nothing more happens with the spec.
func (w *game) Look(s *state) worlds.Look {
	l := worlds.Look{Arrived: true, AllReady: true, Failed: s.failed()}
	for k := range s.Children {
		c := &s.Children[k]
		if !s.Has(k) {
			if c.Exists {
				l.Left = worlds.SubsetName(k)
			}
			l.Arrived = l.Arrived && !c.Exists
			continue
		}
		l.Total += w.owed(s, k)
		l.AllReady = l.AllReady && c.count(func(p *pod) bool { return p.Phase != ready }) == 0
		l.Arrived = l.Arrived && (w.held(&s.Core, k) || c.count(of(s.Version)) == c.count())
	}
	return l
}

// owed returns how many replicas of a child count for the total: all of them except the surplus that it
// may keep.
func (w *game) owed(s *state, k int) int {
	c := &s.Children[k]
	most, n := int(c.Replicas), c.count()
	if n > most && n <= most+int(c.maxSurge()) && c.Paused && (s.Paused || w.held(&s.Core, k)) && w.Except(surplusKept) {
		return most
	}
	return n
}
