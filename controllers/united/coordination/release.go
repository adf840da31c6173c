// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"fmt"
	"slices"
)

// release lowers partitions as far as the rules allow.
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
		next.idle = !c.releaseOne(next)
	}
}

// candidates are the subsets of which something may be released.
func (c *coordinator) candidates() []*view {
	if why := c.releasesNothing(); why != "" {
		for _, v := range c.views {
			if !v.through() && v.waits == "" {
				v.waits = why
			}
		}
		return nil
	}
	var list []*view
	var ahead *view
	for _, v := range c.views {
		if v.Removed || v.through() && v.next <= v.target {
			continue
		}
		if v.outOfTurn = ahead != nil && c.rules.sequential; v.outOfTurn && v.size() > 0 {
			v.waits = "waits for its turn: " + ahead.Name + " is not done"
		}
		if v.Desired > 0 && !v.staged || v.size() > 0 && !c.doneByForce(v) {
			ahead = cmp.Or(ahead, v)
		}
		if v.staged && (len(v.Unreleased) == 0 || v.kept) {
			list = append(list, v)
		}
	}
	return list
}

// releasesNothing says what keeps every replica from being released; "" if nothing
// does.
func (c *coordinator) releasesNothing() string {
	switch {
	case c.halted():
		return "nothing is released while " + c.failed[0].Name + " is broken"
	case c.unsure != "" && !c.back:
		return "waits until " + c.unsure + " has been observed by its controller"
	}
	return ""
}

// doneByForce: all of it is released, and force passes by what is not available of
// that, since it failed.
func (c *coordinator) doneByForce(v *view) bool {
	return c.rules.forced && v.partition <= v.target && c.inFlightOf(v, true) == 0
}

// releaseOne lowers the partition of a subset by one replica, or by several that
// are missing; false when it may not.
func (c *coordinator) releaseOne(v *view) bool {
	top := min(v.next, v.Desired)
	switch {
	case v.live > v.Desired:
		// They lie above any partition that could be set, and would be taken down.
		v.waits = cmp.Or(v.waits, "waits until its surplus replicas are gone")
		return false
	case v.Desired == 0:
		return false // what it is scaled up to comes up protected
	case v.size() == 0:
		return false
	case top <= v.target:
		v.next = min(v.next, v.target)
		return false
	}
	m := v.at(top - 1)
	if m != nil && m.updated && !m.Terminating { // one that is comes back as the partition says
		v.next = top - 1
		if !m.available {
			c.inFlight++
		}
		return true
	}
	count, why := c.allowance(v, m, top)
	if why != "" {
		v.waits = why
		return false
	}
	v.next = top - int32(count)
	v.potential += count
	v.freed += count
	c.inFlight += count
	if m != nil && m.usable {
		c.unavailable++
	} else {
		v.freedDown += count
	}
	c.moved, v.busy = true, true
	return true
}

// allowance is how many replicas from the top down may be released at once, or
// why none: one that exists, or as many as are missing.
func (c *coordinator) allowance(v *view, m *mark, top int32) (count int64, why string) {
	count = 1
	if m == nil {
		count = int64(min(v.gap(top-1), top-v.target))
	}
	down := m == nil || !m.available
	switch {
	case c.back && down:
		return count, "" // nobody loses anything, and what it gets is proven
	case m != nil && m.broken:
		return c.allowBroken(v)
	case v.outOfTurn:
		return 0, v.waits
	case v.potential >= v.potentialCap:
		return 0, c.ahead()
	}
	count = min(count, v.potentialCap-v.potential)
	if v.Observed.Ordered && !down {
		if why := c.outOfOrder(v); why != "" {
			if count := c.unlock(v, top); count > 0 {
				return count, ""
			}
			return 0, why
		}
	}
	limit := c.rules.maxUnavailable
	switch {
	case m != nil && m.usable && !c.rules.forced:
		if c.unavailable+1 > limit {
			return 0, fmt.Sprintf("waits: %s unavailable, maxUnavailable is %d", countedReplicas(c.unavailable), limit)
		}
	case c.inFlight+1 > limit:
		return 0, c.crowded()
	default:
		count = min(count, limit-c.inFlight)
	}
	return count, ""
}

// allowBroken: one that is broken is released out of turn, and whatever skew says. Of
// those of a child that works in order no more than one is on the way at a time.
func (c *coordinator) allowBroken(v *view) (count int64, why string) {
	inOrder := v.Observed.Ordered && v.releasedBroken()
	if !inOrder && c.inFlight+1 > c.rules.maxUnavailable {
		return 0, c.crowded()
	}
	if inOrder {
		c.inFlight-- // it is counted with the other
	}
	return 1, ""
}

// releasedBroken tells whether a broken replica is released that is not updated.
func (v *view) releasedBroken() bool {
	return slices.ContainsFunc(v.marks, func(m mark) bool {
		return m.Position >= v.next && m.Position < v.Desired && m.broken && !m.updated
	})
}

func (c *coordinator) crowded() string {
	return fmt.Sprintf("waits: %s on the way, maxUnavailable is %d", countedReplicas(c.inFlight), c.rules.maxUnavailable)
}

// outOfOrder says what keeps a child that works in order from moving a replica.
func (c *coordinator) outOfOrder(v *view) string {
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
	if !c.rules.forced || lowest < v.target || others+1 > c.rules.maxUnavailable {
		return 0
	}
	return int64(top - lowest)
}
