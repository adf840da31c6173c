// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"slices"

	"github.com/unitedworkloads/united/adapters"
)

// free names the released replicas to delete.
func (c *coordinator) free() {
	if c.halted() {
		return
	}
	for _, v := range c.views {
		switch {
		case v.Removed || v.Observed == nil || !v.Observed.CaughtUp || !v.staged && !v.Completing:
		case v.Observed.Ordered:
			c.freeInOrder(v)
		case v.staged:
			c.freeParallel(v)
		}
		c.moved = c.moved || len(v.deletes) > 0
	}
}

// stray: a protected replica that failed on neither of the revisions that it could
// be made of, as when a broken revision was corrected and the subset scaled up at
// the same time. Deleted, it comes back on the protected one; it would not by
// itself, and keeps all else from going on.
func (v *view) stray(m *mark) bool {
	o := v.Observed
	return m.Position < v.next && m.Position < v.Desired && !m.available && !m.Terminating &&
		(m.Failure != "" || m.Crashed) && o.CurrentHash != "" && m.Hash != o.CurrentHash && m.Hash != o.UpdateHash
}

// freeParallel deletes what is released, the highest first, while no more than
// maxUnavailable are down. The one above which all is well is left to the child's
// own controller, which is about to delete it.
func (c *coordinator) freeParallel(v *view) {
	above := v.live
	for _, m := range slices.Backward(v.marks) {
		if v.stray(&m) {
			v.deletes = append(v.deletes, *m.Replica)
			continue
		}
		wellAbove := m.Position == above-1
		if m.updated && m.available && wellAbove {
			above = m.Position
		}
		if m.Position < v.partition || m.Position >= v.Desired || m.updated || m.Terminating {
			continue
		}
		if wellAbove {
			if m.available {
				c.down++
			}
			continue
		}
		if m.available {
			if c.down+1 > c.rules.maxUnavailable {
				return
			}
			c.down++
		}
		v.deletes = append(v.deletes, *m.Replica)
	}
}

// freeInOrder deletes the replica that a child that works in order waits for
// forever, also one that has yet to come up on its first template: the lowest that
// is not ready, if it is released and all below it are ready. One deleted above an
// unready one would not be made again.
func (c *coordinator) freeInOrder(v *view) {
	expected := int32(0)
	for _, m := range v.marks {
		if m.Position != expected || m.Terminating {
			return
		}
		expected++
		if m.Ready {
			continue
		}
		switch {
		case v.stray(&m):
			v.deletes = []adapters.Replica{*m.Replica}
		case m.Position < v.partition || m.Position >= v.Desired || m.Hash == v.Observed.UpdateHash:
		case v.potential > v.potentialCap:
			v.gated, v.waits = true, c.ahead()
		default:
			v.deletes = []adapters.Replica{*m.Replica}
		}
		return
	}
}
