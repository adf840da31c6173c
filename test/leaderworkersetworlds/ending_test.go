// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"fmt"
	"slices"

	"github.com/unitedworkloads/united/test/worlds"
)

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
		l.Total += c.count()
		l.AllReady = l.AllReady && c.count(func(i int) bool { return !w.ready(c, i) }) == 0
		for i := w.Kept(&s.Core, k); i < int(c.Replicas); i++ {
			l.Arrived = l.Arrived && c.in(worlds.Bit(s.Version), i)
		}
		if l.Wrong == "" {
			l.Wrong = w.keeps(s, k)
		}
	}
	if w.loses(s) {
		l.WayOut, l.Says = w.release, "gets no workers"
	}
	return l
}

// loses reports whether a leader has a version that its LeaderWorkerSet has deleted, if that is allowed here.
func (w *game) loses(s *state) bool {
	for k := range s.Children {
		c := &s.Children[k]
		for i := range maxGroups {
			if w.workers && c.live(i) && c.Workers[i].Version == 0 && c.Numbers[c.version(i)] == 0 && w.excused(truncated) {
				return true
			}
		}
	}
	return false
}

// release sets the strategy that holds nothing.
func (w *game) release(s *worlds.Core) {
	s.Strategy = uint8(slices.Index(w.Strategies, worlds.FreeA))
}

// keeps: in the end all protected groups run the version that they must run, except for those that the user has released
// before, which "stay so until something else replaces them" (design.md).
func (w *game) keeps(s *state, k int) string {
	c, protects := &s.Children[k], w.protects(s, k)
	// While a replica is broken, no healthy one is deleted in addition.
	if s.Paused || !w.Initialized(&s.Core) || c.count(func(i int) bool { return !w.ready(c, i) }) > 0 {
		return ""
	}
	for i := range min(w.Partition(&s.Core, k), worlds.All-int(c.Opened), int(c.Replicas), maxGroups) {
		if c.in(protects, i) {
			continue
		}
		if worlds.Bit(uint8(c.Leaders.Current))&protects == 0 && w.excused(hasty) {
			continue
		}
		return fmt.Sprintf("in the end %s is v%d, and protects %b", leaderName(k, i), c.version(i), protects)
	}
	return ""
}
