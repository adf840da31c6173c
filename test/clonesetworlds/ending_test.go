// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"

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
		l.AllReady = l.AllReady && c.count(not(isReady)) == 0
		l.Arrived = l.Arrived && c.count(of(s.Version)) >= c.count()-w.Kept(&s.Core, k)
		if l.Wrong == "" {
			l.Wrong = w.keeps(s, k)
		}
	}
	return l
}

// keeps: "as many as the partition says run the protected version in the end" (workloads.md), except for those that the
// user has released before, which "stay so until something else replaces them" (design.md).
func (w *game) keeps(s *state, k int) string {
	c, protects := &s.Children[k], w.protects(s, k)
	want := min(w.Partition(&s.Core, k), int(c.Replicas)-int(c.Released))
	// While a pod is broken, no healthy one is deleted in addition.
	if s.Paused || !w.Initialized(&s.Core) || c.count(not(isReady)) > 0 || c.count(in(protects)) >= want {
		return ""
	}
	if worlds.Bit(c.Current)&protects == 0 && w.Except(forgets) {
		return ""
	}
	return fmt.Sprintf("in the end %s has %d of %b, and protects %d", worlds.SubsetName(k), c.count(in(protects)), protects, want)
}
