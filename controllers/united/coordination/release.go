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
	c.setReleaseLimits(candidates)
	for {
		var next *subsetState
		for _, v := range candidates {
			// The subset that is furthest behind goes first.
			if !v.exhausted && (next == nil || v.releasedOrUpdated*next.toRelease() < next.releasedOrUpdated*v.toRelease()) {
				next = v
			}
		}
		if next == nil {
			return
		}
		next.exhausted = !c.releaseNext(next)
	}
}

// candidates returns the subsets that may release something.
func (c *coordinator) candidates() []*subsetState {
	if c.allHeld.closed {
		for _, v := range c.states {
			if !v.stepDone() {
				v.waitReason = cmp.Or(v.waitReason, c.allHeld.reason)
			}
		}
		return nil
	}
	var list []*subsetState
	var first *subsetState // the first one that is not done
	for _, v := range c.states {
		if v.Removed || v.stepDone() && v.nextPartition <= v.target {
			continue
		}
		if c.rules.sequential {
			v.waitsForSubset = first
		}
		if v.waitsForSubset != nil && v.toRelease() > 0 {
			v.waitReason = "waiting for its turn: " + v.waitsForSubset.Name + " is not done yet"
		}
		if v.Desired > 0 && !v.staged || v.toRelease() > 0 && !c.doneByForce(v) {
			first = cmp.Or(first, v)
		}
		if held := c.checkGates(oneSubset, &release{subsetState: v}); held.closed {
			c.setWaitReason(v, held)
			continue
		}
		list = append(list, v)
	}
	return list
}

// doneByForce reports whether everything that the step releases in the subset is released, and force ignores those
// replicas that are not available, because they failed. A child that was stopped on its way has nothing in flight
// either, but continues.
func (c *coordinator) doneByForce(v *subsetState) bool {
	return c.rules.forced && v.partition <= v.target && c.inFlightOf(v, true) == 0 && !v.stoppedOnItsWay()
}

// releaseNext lowers the partition of a subset by one replica, or by several missing ones, and reports whether it
// may.
func (c *coordinator) releaseNext(v *subsetState) bool {
	r := c.nextRelease(v)
	held := c.checkGates(nextReplica, r)
	switch {
	case held.closed:
		c.setWaitReason(v, held)
		return false
	case v.Whole:
		return c.releaseWhole(v)
	case r.is(updatedAlready):
		v.nextPartition = r.top - 1
		if r.unavailableAnyway() {
			c.addInFlight(v, 1)
		}
		return true
	}
	count := r.count
	if held.atMost > 0 && !r.is(unlocking) {
		count = min(count, held.atMost)
	}
	if !c.countsWithAnother(r) {
		c.addInFlight(v, count)
	}
	v.nextPartition = r.top - int32(count)
	v.releasedOrUpdated += count
	v.releasedNow += count
	if r.replica != nil && r.replica.usable {
		c.addUnavailable(v, 1)
	} else {
		v.releasedUnavailable += count
		if r.replica != nil && r.replica.serves {
			c.addServing(v, -1)
		}
	}
	c.progressed, v.releasedInPass = true, true
	return true
}

// nextRelease returns the next release of a subset, from the top of the protected ordinals down: one replica that
// exists, or as many as are missing there.
func (c *coordinator) nextRelease(v *subsetState) *release {
	r := &release{subsetState: v, top: min(v.nextPartition, v.Desired), count: 1}
	if r.replica = v.at(r.top - 1); r.replica == nil {
		r.count = int64(min(v.missingDownFrom(r.top-1), r.top-v.target))
	}
	switch {
	case r.replica != nil && r.replica.updated && !r.replica.Terminating: // a terminating one comes back as the partition says
		r.exempt |= updatedAlready
	case c.goingBack && (r.replica == nil || !r.replica.Serves()):
		r.exempt |= downGoingBack // nobody loses anything, and its next revision is proven
	case r.replica != nil && r.replica.broken && !v.releasesHealthyToo():
		r.exempt |= isBroken
	case c.rules.forced && v.Observed.Ordered && !r.unavailableAnyway() && c.orderedWait(v) != "":
		if count := c.unlock(v, r.top); count > 0 {
			r.exempt, r.count = r.exempt|unlocking, count
		}
	}
	return r
}

// releasesHealthyToo reports whether the child would release, together with a broken replica, others that are not
// broken.
func (v *subsetState) releasesHealthyToo() bool {
	return v.Whole && slices.ContainsFunc(v.replicaStates, func(m replicaState) bool { return !m.broken })
}

// unavailableAnyway reports whether the replica to release is not available anyway.
func (r *release) unavailableAnyway() bool { return r.replica == nil || !r.replica.available }

// countsWithAnother reports whether a release counts together with one that is already in flight: an ordered child
// replaces no more than one of its broken replicas at a time.
func (c *coordinator) countsWithAnother(r *release) bool {
	return r.is(isBroken) && r.Observed.Ordered && r.releasedBroken()
}

// releasedBroken reports whether a broken replica is released and not updated.
func (v *subsetState) releasedBroken() bool {
	return slices.ContainsFunc(v.replicaStates, func(m replicaState) bool {
		return m.Position >= v.nextPartition && m.Position < v.Desired && m.broken && !m.updated
	})
}

// orderedWait returns what keeps an ordered child from moving an available replica; "" if nothing does.
func (c *coordinator) orderedWait(v *subsetState) string {
	if p := v.unavailableBelow(v.currentReplicas); p >= 0 {
		return "waiting for " + v.name(p) + "; OrderedReady updates nothing while a replica is unavailable"
	}
	if v.releasedInPass || c.inFlightOf(v, false) > 0 {
		return "updating its replicas one by one"
	}
	return ""
}

// unlock returns how many replicas force releases in an ordered child, to reach the one that the child waits for.
func (c *coordinator) unlock(v *subsetState, top int32) int64 {
	lowest := v.unavailableBelow(top)
	others := c.inFlight - c.inFlightOf(v, true) // the released replicas of this child cannot move
	if lowest < v.target || others+1 > c.rules.maxUnavailable {
		return 0
	}
	return int64(top - lowest)
}
