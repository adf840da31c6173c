// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"slices"
)

// free names the replicas to delete. What is released counts as down before its
// controller takes it: so nothing is deleted beside what they are about to take.
func (c *coordinator) free() {
	if c.held.closed {
		return
	}
	for _, v := range c.views {
		if v.Removed || v.Observed == nil || !v.Observed.CaughtUp {
			continue
		}
		switch {
		case v.Whole, v.Forgot, !v.staged && !v.Completing:
		case v.Observed.Ordered:
			c.freeInOrder(v)
		case v.staged:
			c.freeParallel(v)
		}
		c.moved = c.moved || len(v.deletes) > 0
	}
}

// takenNext is the available replica that a StatefulSet is about to take: the highest
// that is released and not updated, if all above it are updated and available.
func (v *view) takenNext() *mark {
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
// released: they come back as they were. They go before anything is released.
func (c *coordinator) takeBack() {
	if c.held.closed {
		return
	}
	for _, v := range c.views {
		for _, r := range v.Unreleased {
			if v.Observed.Ordered && v.unavailableBelow(r.Position) >= 0 {
				v.kept = true // it would not be made again
				break
			}
			available, _ := r.Available(v.Observed.MinReadySeconds, c.Now)
			if available && !c.rules.forced && c.unavailable+1 > c.rules.maxUnavailable {
				v.waits = r.Name + " was updated without having been released, and waits until it can be replaced"
				continue
			}
			if available {
				c.unavailable++
			}
			v.deletes = append(v.deletes, r)
			c.moved = true
		}
	}
}

// replaceable tells whether a replica that is not available is to be deleted: what is broken
// where it comes back on another revision, which the child's controller need not do by
// itself. On the way back what is merely unready is too, and it need not be released where
// the child makes all of its pods of the update revision. So is, under force, one that a
// child waits for that works in order.
func (c *coordinator) replaceable(v *view, m *mark) bool {
	o := v.Observed
	switch {
	case m.available || m.Terminating || m.Position >= v.Desired:
		return false
	case m.broken && (m.Position < v.next || m.Position >= v.partition) && // else it is released first
		o.Replaceable(m.Replica, v.partition, v.asked()):
		return true
	case m.Hash == o.UpdateHash:
		return false
	}
	proven := o.CurrentHash == o.UpdateHash && m.Position >= v.target
	waitedFor := o.Ordered && c.rules.forced // the child moves nothing else before
	return m.Position >= v.partition && (c.back || waitedFor) || c.back && proven
}

// freeParallel deletes what is released, the highest first, while no more than
// maxUnavailable are down. The one above which all is well is left to the child's
// own controller, which is about to delete it; but from Kubernetes 1.37 on that does
// nothing while any other of its replicas is unavailable.
//
// A child that has a bound of its own, which is lifted (adapters.Paced), takes what is released
// by itself, all of it: of that nothing is deleted but what is broken.
func (c *coordinator) freeParallel(v *view) {
	barred := v.unavailableBelow(v.live) >= 0
	taken := v.takenNext()
	for _, m := range slices.Backward(v.marks) {
		switch {
		case c.replaceable(v, &m):
			v.deletes = append(v.deletes, *m.Replica)
		case m.Position < v.partition || m.Position >= v.Desired || m.updated || !m.available:
		case v.Observed.Traits.Paced:
		case taken != nil && m.Position == taken.Position && !barred:
		case c.mayTake():
			v.deletes = append(v.deletes, *m.Replica)
		default:
			v.barred = barred
		}
	}
}

// mayTake tells whether available replicas that are released may be deleted: they count
// as unavailable since they are. Force looks only at what is on the way.
func (c *coordinator) mayTake() bool {
	return c.rules.forced || c.unavailable <= c.rules.maxUnavailable
}

// freeInOrder deletes the replica that a child that works in order waits for forever, also
// one that has yet to come up on its first template.
func (c *coordinator) freeInOrder(v *view) {
	waitedFor := v.Observed.FirstUnready()
	if waitedFor == nil {
		return
	}
	if m := v.at(waitedFor.Position); m != nil && c.replaceable(v, m) {
		v.deletes = append(v.deletes, *m.Replica)
	}
}
