// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"slices"

	"github.com/unitedworkloads/united/adapters"
)

// deleteReplicas names the replicas to delete. A released replica counts as down before its controller takes it
// down, so nothing is deleted in addition to the replicas that the controllers are about to take.
//
// Checks hold releases, not the repair of protected replicas: those are broken anyway, and perhaps the reason.
func (c *coordinator) deleteReplicas() {
	repairs := c.allHeld.gate == gateChecks || c.allHeld.gate == gateUnmeasured
	if c.allHeld.closed && !repairs {
		return
	}
	for _, v := range c.states {
		if v.Removed || v.Observed == nil || !v.Observed.SpecObserved {
			continue
		}
		switch {
		case v.Whole, v.forgot, !v.staged && !v.FirstRolloutPending:
		case v.Observed.Ordered:
			c.deleteOrdered(v)
		case v.staged:
			c.deleteParallel(v)
		}
		if repairs {
			v.deletions = slices.DeleteFunc(v.deletions, func(r adapters.Replica) bool {
				m := v.at(r.Position)
				return m == nil || !m.broken || m.available || m.updated || r.Position >= v.partition
			})
		}
		c.progressed = c.progressed || len(v.deletions) > 0
	}
}

// takenNext returns the available replica that a StatefulSet is about to take: the highest one that is released
// and not updated, if all above it are updated and available.
func (v *subsetState) takenNext() *replicaState {
	above := v.currentReplicas
	for i := range slices.Backward(v.replicaStates) {
		m := &v.replicaStates[i]
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

// takeBack deletes replicas that came up on the update revision without having been released, so that they come
// back on the protected one. This happens before anything is released.
func (c *coordinator) takeBack() {
	if c.allHeld.closed {
		return
	}
	for _, v := range c.states {
		for _, r := range v.Unreleased {
			if v.Observed.Ordered && v.unavailableBelow(r.Position) >= 0 {
				v.cannotTakeBack = true // it would not be created again
				break
			}
			available, _ := r.Available(v.Observed.MinReadySeconds, c.Now)
			if available && !c.rules.forced && c.noRoomForAnother(v) {
				v.waitReason = "waiting to replace " + r.Name + ", which was updated without being released"
				continue
			}
			if available {
				c.addUnavailable(v, 1)
			}
			v.deletions = append(v.deletions, r)
			c.progressed = true
		}
	}
}

// replaceable reports whether a replica that is not available should be deleted. That is the case if it is broken
// and comes back on another revision, because the child's controller need not replace it by itself. On the way
// back it is also the case if it is merely unready, and if the child creates all of its pods on the update
// revision, the replica need not be released. Under force, it is also the case for a replica that an ordered child
// waits for.
func (c *coordinator) replaceable(v *subsetState, m *replicaState) bool {
	o := v.Observed
	switch {
	case m.available || m.Terminating || m.Position >= v.Desired:
		return false
	case m.broken && (m.Position < v.nextPartition || m.Position >= v.partition) && // otherwise it is released first
		o.Replaceable(m.Replica.Replica, v.partition, v.Wanted()):
		return true
	case m.Hash == o.UpdateHash:
		return false
	}
	proven := o.CurrentHash == o.UpdateHash && m.Position >= v.target
	waitedFor := o.Ordered && c.rules.forced // the child moves nothing else before
	back := c.goingBack && !m.Serves()
	return m.Position >= v.partition && (back || waitedFor) || back && proven
}

// deleteParallel deletes released replicas, the highest first, while no more than maxUnavailable are down, and no
// more than maxUnavailablePerSubset of the subset. The one that takenNext returns is left to the child's own
// controller, which is about to delete it. But from Kubernetes 1.37 on, that controller does nothing while any
// other of its replicas is unavailable.
//
// A child with a bound of its own, which is lifted (adapters.Paced), takes all released replicas by itself: only
// broken ones are deleted.
func (c *coordinator) deleteParallel(v *subsetState) {
	barred := v.Reserved > 0 || v.unavailableBelow(v.currentReplicas) >= 0
	taken := v.takenNext()
	for _, m := range slices.Backward(v.replicaStates) {
		switch {
		case c.replaceable(v, &m):
			v.deletions = append(v.deletions, *m.Replica.Replica)
		case m.Position < v.partition || m.Position >= v.Desired || m.updated || !m.available:
		case v.Observed.Traits.Paced:
		case taken != nil && m.Position == taken.Position && !barred:
		case c.rules.forced || !c.tooManyUnavailable(v):
			// It counts as unavailable because it is released. Force considers only what is on its way.
			v.deletions = append(v.deletions, *m.Replica.Replica)
		default:
			v.barred = barred
		}
	}
}

// deleteOrdered deletes the replica for which an ordered child would wait forever, also in a child that has yet to
// come up on its first template.
func (c *coordinator) deleteOrdered(v *subsetState) {
	waitedFor := v.Observed.FirstUnready()
	if waitedFor == nil {
		return
	}
	if m := v.at(waitedFor.Position); m != nil && c.replaceable(v, m) {
		v.deletions = append(v.deletions, *m.Replica.Replica)
	}
}
