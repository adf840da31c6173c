// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"slices"
)

// free names the replicas to delete. Before the first is, all that their controllers
// are about to take by themselves is counted.
func (c *coordinator) free() {
	if c.releasesNothing() != "" {
		return
	}
	for _, v := range c.views {
		if v.moves() {
			v.taken = v.takenNext()
			if v.taken != nil {
				c.down++
			}
		}
	}
	for _, v := range c.views {
		if v.Removed || v.Observed == nil || !v.Observed.CaughtUp || v.Forgot {
			continue
		}
		c.takeBack(v)
		switch {
		case !v.staged && !v.Completing:
		case v.Observed.Ordered:
			c.freeInOrder(v)
		case v.staged:
			c.freeParallel(v)
		}
		c.moved = c.moved || len(v.deletes) > 0
	}
}

// moves: the child's controller replaces what is released of it.
func (v *view) moves() bool { return !v.Removed && v.staged && v.live <= v.Desired }

// takenNext is the available replica that a StatefulSet is about to take: the highest
// that is released and not updated, if all above it are updated and available, and,
// where it works in order, all others are available.
func (v *view) takenNext() *mark {
	if v.Observed.Ordered && v.unavailableBelow(v.live) >= 0 {
		return nil
	}
	above := v.live
	for i := range slices.Backward(v.marks) {
		m := &v.marks[i]
		switch {
		case m.Position != above-1 || m.Position < v.partition || !m.available:
			return nil
		case !m.updated:
			return m
		}
		above = m.Position
	}
	return nil
}

// takeBack deletes replicas that came up on the update revision without having been
// released: they come back as they were.
func (c *coordinator) takeBack(v *view) {
	for _, r := range v.Unreleased {
		available, _ := r.Available(v.Observed.MinReadySeconds, c.Now)
		if available {
			if c.down+1 > c.rules.maxUnavailable {
				v.waits = cmp.Or(v.waits, r.Name+" was updated without having been released; waits until it can be replaced")
				continue
			}
			c.down++
		}
		v.deletes = append(v.deletes, r)
	}
}

// stray: a protected replica that is broken, and of neither of the revisions that it
// could be made of, as when a broken revision was corrected. Deleted, it comes back on
// the protected one; it would not by itself, and keeps all else from going on.
func (v *view) stray(m *mark) bool {
	asked := v.asked()
	return m.Position < v.next && m.Position < v.Desired && m.broken && asked != nil && !slices.Contains(asked, m.Hash)
}

// replaceable tells whether a replica that is not available is to be deleted, since it
// is released, not updated, and broken. On the way back one that is merely unready is
// too, and it need not be released where the child makes all of its pods of the update
// revision.
func (c *coordinator) replaceable(v *view, m *mark) bool {
	o := v.Observed
	if m.available || m.Terminating || m.Hash == o.UpdateHash || m.Position >= v.Desired {
		return false
	}
	proven := o.CurrentHash == o.UpdateHash && m.Position >= v.target
	return m.Position >= v.partition && (m.broken || c.back) || c.back && proven
}

// freeParallel deletes what is released, the highest first, while no more than
// maxUnavailable are down. The one above which all is well is left to the child's
// own controller, which is about to delete it; but from Kubernetes 1.37 on that does
// nothing while any other of its replicas is unavailable.
func (c *coordinator) freeParallel(v *view) {
	barred := v.unavailableBelow(v.live) >= 0
	for _, m := range slices.Backward(v.marks) {
		switch {
		case v.stray(&m), c.replaceable(v, &m):
			v.deletes = append(v.deletes, *m.Replica)
		case m.Position < v.partition || m.Position >= v.Desired || m.updated || !m.available:
		case v.taken != nil && m.Position == v.taken.Position:
			if barred && c.mayTake(0) {
				v.deletes = append(v.deletes, *m.Replica)
			}
		case c.mayTake(1):
			c.down++
			v.deletes = append(v.deletes, *m.Replica)
		}
	}
}

// mayTake tells whether so many more available replicas may be deleted now. Force looks
// only at what is on the way.
func (c *coordinator) mayTake(more int64) bool {
	return c.rules.forced || c.down+more <= c.rules.maxUnavailable
}

// freeInOrder deletes the replica that a child that works in order waits for
// forever, also one that has yet to come up on its first template: the lowest that
// is not ready, if all below it are ready. One deleted above an unready one would not
// be made again.
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
		if v.stray(&m) || c.replaceable(v, &m) {
			v.deletes = append(v.deletes, *m.Replica)
		}
		return
	}
}
