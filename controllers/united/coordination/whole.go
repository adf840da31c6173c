// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import "github.com/unitedworkloads/united/adapters"

// A child that has one template and no partition, such as a Deployment, is released as a
// whole. Then it replaces its replicas by itself, and what the ledger has left is handed to
// it: so many of its replicas may be unavailable meanwhile. They count as unavailable until
// it is done, whether they are or not. When there is nothing left for it, it is stopped
// where it is.

// releasing: the child is released, and not done.
func (v *view) releasing() bool {
	return v.Whole && !v.Removed && v.Observed != nil && v.live > 0 && v.partition == 0 && v.pending() > 0
}

// pending is how many replicas of a released child are not updated and available.
func (v *view) pending() int64 {
	done := int64(0)
	for _, m := range v.marks {
		if m.updated && m.available {
			done++
		}
	}
	return max(0, int64(v.Desired)-done)
}

// down is how many of a child's replicas are unavailable.
func (v *view) down() int64 {
	usable := int64(0)
	for _, m := range v.marks {
		if m.usable {
			usable++
		}
	}
	return max(0, int64(v.Desired)-usable)
}

// handed is how many replicas a child that is being released may have unavailable.
func (v *view) handed() int64 {
	if v.Observed.Pace == nil {
		return v.pending()
	}
	return min(v.pending(), int64(v.Observed.Pace.MaxUnavailable))
}

// reservedBy is what a child may take of the ledger beside what is unavailable of it.
func (c *coordinator) reservedBy(v *view) int64 {
	if !v.releasing() {
		return 0
	}
	return max(0, v.handed()-v.down())
}

// inFlightWhole is inFlightOf such a child.
func (c *coordinator) inFlightWhole(v *view, healthy bool) int64 {
	if !v.releasing() {
		return 0
	}
	failed := int64(0)
	for _, m := range v.marks {
		if m.failed {
			failed++
		}
	}
	if !healthy {
		failed = 0
	}
	return max(0, v.handed()-failed)
}

// releaseWhole releases a child: the gates have let its worst replica pass.
func (c *coordinator) releaseWhole(v *view, r *release) {
	down := v.down()
	count := max(1, c.leftFor(v, down, c.inFlight, r.is(downGoingBack)))
	v.next = v.target
	v.pace = &adapters.Pace{MaxUnavailable: int32(count)}
	v.potential, v.freed = v.size(), v.size()
	v.freedDown = min(down, v.freed)
	c.unavailable += max(0, count-down)
	c.inFlight += count
	c.moved, v.busy = true, true
}

// leftFor is how many replicas a child may have unavailable: as many as are, and those that
// the ledger has room for; but no more than may be on the way, unless what is unavailable
// goes back.
func (c *coordinator) leftFor(v *view, down, inFlight int64, back bool) int64 {
	left := down + max(0, c.rules.maxUnavailable-c.unavailable)
	if c.rules.forced {
		left = c.rules.maxUnavailable
	}
	if !back {
		left = min(left, c.rules.maxUnavailable-inFlight)
	}
	return min(max(0, left), int64(v.Desired))
}

// setPace hands a child that is being released what the ledger has left by now. A failed
// replica, or whatever else keeps back all releases, stops it where it is.
func (c *coordinator) setPace(v *view) {
	if v.pace != nil || !v.releasing() || v.next != 0 {
		return
	}
	v.pace = v.Observed.Pace
	if c.Paused != "" {
		return // it is stopped already, as a whole
	}
	before := c.unavailable
	c.unavailable -= c.reservedBy(v) // its own
	left := c.leftFor(v, v.down(), c.inFlight-c.inFlightWhole(v, c.rules.forced), c.back)
	c.unavailable = before
	if v.stopped = left == 0 || c.halted(); v.stopped {
		left = 1 // it has to be something
	}
	v.pace = &adapters.Pace{MaxUnavailable: int32(left)}
}
