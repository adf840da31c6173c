// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"slices"
)

// release lowers partitions as far as the gates allow.
func (c *coordinator) release() {
	candidates := c.candidates()
	c.capPotential(candidates)
	for {
		var next *view
		for _, v := range candidates {
			// The furthest behind goes first.
			if !v.idle && (next == nil || v.potential*next.size() < next.potential*v.size()) {
				next = v
			}
		}
		if next == nil {
			return
		}
		next.idle = !c.releaseNext(next)
	}
}

// candidates are the subsets of which something may be released.
func (c *coordinator) candidates() []*view {
	if c.held.closed {
		for _, v := range c.views {
			if !v.through() {
				v.waits = cmp.Or(v.waits, c.held.reason)
			}
		}
		return nil
	}
	var list []*view
	var first *view // the first that is not done
	for _, v := range c.views {
		if v.Removed || v.through() && v.next <= v.target {
			continue
		}
		if c.rules.sequential {
			v.behind = first
		}
		if v.behind != nil && v.size() > 0 {
			v.waits = "waits for its turn: " + v.behind.Name + " is not done"
		}
		if v.Desired > 0 && !v.staged || v.size() > 0 && !c.doneByForce(v) {
			first = cmp.Or(first, v)
		}
		if held := c.ask(oneSubset, &release{view: v}); held.closed {
			c.waitFor(v, held)
			continue
		}
		list = append(list, v)
	}
	return list
}

// doneByForce: all of it is released, and force passes by what is not available of
// that, since it failed.
func (c *coordinator) doneByForce(v *view) bool {
	return c.rules.forced && v.partition <= v.target && c.inFlightOf(v, true) == 0
}

// releaseNext lowers the partition of a subset by one replica, or by several that
// are missing; false when it may not.
func (c *coordinator) releaseNext(v *view) bool {
	r := c.next(v)
	held := c.ask(nextReplica, r)
	switch {
	case held.closed:
		c.waitFor(v, held)
		return false
	case v.Whole:
		return c.releaseWhole(v)
	case r.is(updatedAlready):
		v.next = r.top - 1
		if r.down() {
			c.inFlight++
		}
		return true
	}
	count := r.count
	if held.atMost > 0 && !r.is(unlocking) {
		count = min(count, held.atMost)
	}
	if !c.countsWithAnother(r) {
		c.inFlight += count
	}
	v.next = r.top - int32(count)
	v.potential += count
	v.freed += count
	if r.mark != nil && r.mark.usable {
		c.unavailable++
	} else {
		v.freedDown += count
	}
	c.moved, v.busy = true, true
	return true
}

// next is what would be released next of a subset, from the top of what is protected down:
// one replica that exists, or as many as are missing.
func (c *coordinator) next(v *view) *release {
	r := &release{view: v, top: min(v.next, v.Desired), count: 1}
	if r.mark = v.at(r.top - 1); r.mark == nil {
		r.count = int64(min(v.gap(r.top-1), r.top-v.target))
	}
	switch {
	case r.mark != nil && r.mark.updated && !r.mark.Terminating: // one that is comes back as the partition says
		r.exempt |= updatedAlready
	case c.back && r.down():
		r.exempt |= downGoingBack // nobody loses anything, and what it gets is proven
	case r.mark != nil && r.mark.broken && !v.takesMore():
		r.exempt |= isBroken
	case c.rules.forced && v.Observed.Ordered && !r.down() && c.orderedWait(v) != "":
		if count := c.unlock(v, r.top); count > 0 {
			r.exempt, r.count = r.exempt|unlocking, count
		}
	}
	return r
}

// takesMore: with a broken replica the child would release others that are not.
func (v *view) takesMore() bool {
	return v.Whole && slices.ContainsFunc(v.marks, func(m mark) bool { return !m.broken })
}

// down: what is released is not available anyway.
func (r *release) down() bool { return r.mark == nil || !r.mark.available }

// countsWithAnother: of the broken replicas of a child that works in order no more than
// one is on the way at a time, and one is already.
func (c *coordinator) countsWithAnother(r *release) bool {
	return r.is(isBroken) && r.Observed.Ordered && r.releasedBroken()
}

// releasedBroken tells whether a broken replica is released that is not updated.
func (v *view) releasedBroken() bool {
	return slices.ContainsFunc(v.marks, func(m mark) bool {
		return m.Position >= v.next && m.Position < v.Desired && m.broken && !m.updated
	})
}

// orderedWait says what keeps a child that works in order from moving a replica that is
// available; "" if nothing does.
func (c *coordinator) orderedWait(v *view) string {
	if p := v.unavailableBelow(v.live); p >= 0 {
		return "waits: " + v.name(p) + "; OrderedReady moves nothing while a replica is not available"
	}
	if v.busy || c.inFlightOf(v, false) > 0 {
		return "moves its replicas one by one"
	}
	return ""
}

// unlock is how many replicas force releases in a child that works in order, so
// as to reach the one that it waits for.
func (c *coordinator) unlock(v *view, top int32) int64 {
	lowest := v.unavailableBelow(top)
	others := c.inFlight - c.inFlightOf(v, true) // what this child has released cannot move
	if lowest < v.target || others+1 > c.rules.maxUnavailable {
		return 0
	}
	return int64(top - lowest)
}
