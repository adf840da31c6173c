// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import "github.com/unitedworkloads/united/adapters"

// A child that has one template and no partition, such as a Deployment, is released as a
// whole. Then it replaces its replicas by itself, and what the ledger has left is handed to
// it: so many of its replicas may be unavailable meanwhile. They count as unavailable until
// it is done, whether they are or not. When there is nothing left for it, it is stopped
// where it is.

// releasing reports whether the child is released, and not done.
func (v *subsetState) releasing() bool {
	return v.Whole && !v.Removed && v.Observed != nil && v.currentReplicas > 0 && v.partition == 0 && v.pending() > 0
}

// pending is how many replicas of a released child are not updated and available.
func (v *subsetState) pending() int64 {
	done := int64(0)
	for _, m := range v.replicaStates {
		if m.updated && m.available {
			done++
		}
	}
	return max(0, int64(v.Desired)-done)
}

// unavailableReplicas is how many of a child's replicas are unavailable.
func (v *subsetState) unavailableReplicas() int64 {
	usable := int64(0)
	for _, m := range v.replicaStates {
		if m.usable {
			usable++
		}
	}
	return max(0, int64(v.Desired)-usable)
}

// allowance is how many replicas a child that is being released may have unavailable: none
// while it is known to stand still.
func (v *subsetState) allowance() int64 {
	switch {
	case v.Observed.Paused && v.Observed.SpecObserved:
		return 0
	case v.Observed.Pace == nil:
		return v.pending()
	}
	return min(v.pending(), int64(v.Observed.Pace.MaxUnavailable))
}

// reservedBy is what a child may take of the ledger beside what is unavailable of it.
func (c *coordinator) reservedBy(v *subsetState) int64 {
	if !v.releasing() {
		return 0
	}
	return max(0, v.allowance()-v.unavailableReplicas())
}

// inFlightWhole is inFlightOf such a child.
func (c *coordinator) inFlightWhole(v *subsetState, healthy bool) int64 {
	if !v.releasing() {
		return 0
	}
	failed := int64(0)
	if healthy {
		failed = v.failedReplicas()
	}
	return max(0, v.allowance()-failed)
}

// failedReplicas is how many of a child's replicas are failed.
func (v *subsetState) failedReplicas() (failed int64) {
	for _, m := range v.replicaStates {
		if m.failed {
			failed++
		}
	}
	return failed
}

// stoppedOnItsWay reports whether such a child was stopped while more of it than what failed was to
// be replaced.
func (v *subsetState) stoppedOnItsWay() bool {
	return v.releasing() && v.Observed.Paused && v.pending() > v.failedReplicas()
}

// releaseWhole releases a child, if the ledger has anything left for it, and reports whether it
// has: the gates have let its worst replica pass.
func (c *coordinator) releaseWhole(v *subsetState) bool {
	left := c.remainingAllowance(v)
	if left == 0 {
		v.waitReason = c.tooMany("unavailable", c.unavailable)
		return false
	}
	v.nextPartition = v.target
	v.releasedOrUpdated, v.releasedNow = v.toRelease(), v.toRelease()
	v.releasedUnavailable = min(v.unavailableReplicas(), v.releasedNow)
	c.setAllowance(v, left)
	c.progressed, v.releasedInPass = true, true
	return true
}

// remainingAllowance is how many replicas a child may have unavailable: what the ledger has left by
// what is unavailable, or handed out, elsewhere, and no more than may be of its subset.
//
// What is unavailable of its own is no more than that: should it recover, the child would
// take others in its place at once. Only what goes back may be replaced whatever is down
// elsewhere, for it is proven, and would else wait for ever.
func (c *coordinator) remainingAllowance(v *subsetState) int64 {
	elsewhere := c.unavailable - v.unavailableReplicas() - c.reservedBy(v)
	if c.rules.forced {
		elsewhere = c.inFlight - c.inFlightOf(v, true)
	}
	left := min(c.most-elsewhere, v.own.most)
	if c.goingBack {
		left = max(left, v.unavailableReplicas())
	}
	return min(max(0, left), int64(v.Desired))
}

// setAllowance gives a child what is left for it, and takes that from what is left for others.
// What it was handed before is in force until it has been told.
func (c *coordinator) setAllowance(v *subsetState, left int64) {
	c.addUnavailable(v, max(0, left-v.unavailableReplicas()-c.reservedBy(v)))
	c.addInFlight(v, max(0, left-c.inFlightOf(v, c.rules.forced)))
	if v.stopped = left == 0; v.stopped {
		left = 1 // it has to be something
	}
	v.pace = &adapters.Pace{MaxUnavailable: int32(left)}
}

// RestingPace is that of a child that is not being released: the one it has, since another
// would be a write for nothing. Without any, the API server would give it its own default, and
// with that room for replicas beyond those that are asked for. o is nil without a child.
func RestingPace(o *adapters.Observed) *adapters.Pace {
	if o == nil || o.Pace == nil {
		return &adapters.Pace{MaxUnavailable: 1}
	}
	return &adapters.Pace{MaxUnavailable: max(1, o.Pace.MaxUnavailable)}
}

// setPace hands a child that is being released what the ledger has left by now, the first
// one first. A failed replica stops all of them where they are.
func (c *coordinator) setPace(v *subsetState) {
	switch {
	case v.pace != nil || !v.Whole || v.Removed:
	case !v.releasing() || v.nextPartition != 0:
		v.pace = RestingPace(v.Observed)
	case c.Paused != "":
		v.pace = v.Observed.Pace // it stands still already
	case c.haltedByFailure():
		c.setAllowance(v, 0)
	default:
		c.setAllowance(v, c.remainingAllowance(v))
	}
}
