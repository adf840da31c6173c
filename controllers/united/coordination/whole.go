// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"slices"

	"github.com/unitedworkloads/united/adapters"
)

// A child that has one template and no partition, such as a Deployment, is released as a whole. Then it replaces
// its replicas by itself. It gets the remaining room of the ledger as the number of its replicas that may be
// unavailable meanwhile. These count as unavailable until the child is done, whether they are or not. If no room
// remains, the child is stopped where it is.
//
// Trap: if it has several versions and is scaled down, its controller chooses among them by their sizes alone, and so may
// take available replicas although others are unavailable. So each replica by which such a child is scaled down counts
// as an available one, until its controller has done that. It stands still meanwhile, because its controller counts
// replicas that are about to go as available, and would take others for them.

// releasing reports whether the child is released and not done.
func (v *subsetState) releasing() bool {
	return v.exists() && v.partition == 0 && v.pending() > 0
}

// replacing reports whether the controller of a child that is not released, or was removed, replaces replicas all the
// same. That happens if it was removed in the middle of its update, or got the template of its protected replicas back
// when some had already been updated, because it was scaled to 0 and back, or orphaned.
func (v *subsetState) replacing() bool {
	return v.Whole && v.Observed != nil && v.currentReplicas > 0 && (v.Removed || v.partition > 0) && v.hasOthers()
}

// exists reports whether there is such a child, with replicas, in the spec.
func (v *subsetState) exists() bool {
	return v.Whole && !v.Removed && v.Observed != nil && v.currentReplicas > 0
}

// hasOthers reports whether the child has, or is about to get, replicas without its template.
func (v *subsetState) hasOthers() bool {
	return v.Observed.DesiredOthers > 0 || slices.ContainsFunc(v.replicaStates, func(m replicaState) bool {
		return m.Hash != v.Observed.UpdateHash && !m.Terminating
	})
}

// mixed reports whether the child has several versions, or may have in a moment.
func (v *subsetState) mixed() bool {
	return v.Whole && v.Observed != nil && !v.Observed.Untouched() && v.hasOthers()
}

// unscaled returns how many replicas, of any of its versions, the controller of a mixed child is yet to remove.
func (v *subsetState) unscaled() int64 {
	if !v.mixed() {
		return 0
	}
	return int64(v.Observed.Unscaled)
}

// unsettled reports whether replicas that the child's controller counts are about to go. It must not begin to update then.
func (v *subsetState) unsettled() bool {
	return v.Whole && v.Observed != nil && (v.Observed.Unscaled > 0 || v.Observed.Overcounts)
}

// asked returns how many replicas the child's controller works towards.
func (v *subsetState) asked() int64 { return int64(max(v.currentReplicas, v.Desired)) }

// pending returns how many replicas of a child are not available on its template, which need not be the update revision:
// while that is paused, the child has nothing to replace. Which ones a scale-down leaves is only known afterwards.
func (v *subsetState) pending() int64 {
	done := int64(0)
	for _, m := range v.replicaStates {
		if m.Hash == v.Observed.UpdateHash && m.available {
			done++
		}
	}
	return max(0, v.asked()-max(0, done-v.unscaled()))
}

// unavailableReplicas returns how many of a child's replicas are unavailable.
func (v *subsetState) unavailableReplicas() int64 { return max(0, v.asked()-v.usableReplicas()) }

// downReplicas returns how many of a child's replicas are not ready.
func (v *subsetState) downReplicas() int64 {
	down := v.asked()
	for _, m := range v.replicaStates {
		if m.Serves() {
			down--
		}
	}
	return max(0, down)
}

// usableReplicas returns how many replicas of a child are usable.
func (v *subsetState) usableReplicas() (usable int64) {
	for _, m := range v.replicaStates {
		if m.usable {
			usable++
		}
	}
	return usable
}

// remainingUsable returns how many usable replicas remain, whatever the child's controller does next.
func (v *subsetState) remainingUsable() int64 {
	remaining := v.usableReplicas()
	if v.releasing() || v.replacing() {
		remaining -= max(0, v.allowance()-v.unavailableReplicas())
	}
	return min(max(0, remaining-v.unscaled()), v.asked())
}

// allowance returns how many replicas of a child whose controller replaces them may be unavailable: none while it is known
// to stand still.
func (v *subsetState) allowance() int64 {
	left := v.asked()
	if v.releasing() {
		left = v.pending()
	}
	if v.Observed.Paused && v.Observed.SpecObserved {
		return 0
	}
	return v.atPace(left)
}

// atPace returns how many of so many replicas the child's controller replaces at once.
func (v *subsetState) atPace(replicas int64) int64 {
	if v.Observed.Pace == nil {
		return replicas
	}
	return min(replicas, int64(v.Observed.Pace.MaxUnavailable))
}

// reservedBy returns how much more of the ledger such a child may take, in addition to its unavailable replicas.
func (v *subsetState) reservedBy() int64 {
	if !v.exists() {
		return 0
	}
	return max(0, v.own.unavailable-max(0, int64(v.Desired)-v.usableReplicas()))
}

// countWhole counts such a child in the ledger.
func (c *coordinator) countWhole(v *subsetState) {
	remaining := v.remainingUsable()
	needed := min(remaining, int64(v.Desired))
	c.addUnavailable(v, -needed)
	c.addSurplus(v, remaining-needed)
}

// inFlightWhole is inFlightOf for such a child.
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

// failedReplicas returns how many of a child's replicas are failed.
func (v *subsetState) failedReplicas() (failed int64) {
	for _, m := range v.replicaStates {
		if m.failed {
			failed++
		}
	}
	return failed
}

// stoppedOnItsWay reports whether such a child was stopped before it had replaced all replicas except failed ones.
func (v *subsetState) stoppedOnItsWay() bool {
	return v.releasing() && v.Observed.Paused && v.pending() > v.failedReplicas()
}

// releaseWhole releases a child if the ledger has room left, and reports whether it has. The gates have already
// let the worst replica of the child pass.
func (c *coordinator) releaseWhole(v *subsetState) bool {
	left := c.remainingAllowance(v)
	if left == 0 {
		v.waitReason, v.gate = c.tooMany("unavailable", c.unavailable), "ledger"
		return false
	}
	if most := v.mostAtOnce(); most > left && !c.rules.forced {
		v.pace = &adapters.Pace{MaxUnavailable: int32(left)}
		v.waitReason = fmt.Sprintf("waiting: the child workload must allow at most %s to be unavailable before it is released, and it allows %d", plural(left, "replica"), most)
		return false
	}
	v.nextPartition = v.target
	v.releasedOrUpdated, v.releasedNow = v.toRelease(), v.toRelease()
	v.releasedUnavailable = min(v.unavailableReplicas(), v.releasedNow)
	c.setAllowance(v, left)
	c.progressed, v.releasedInPass = true, true
	return true
}

// mostAtOnce returns how many of a child's replicas its controller would replace at once if it were released now.
//
// Trap: what is written with the release itself may not come into force, because an admission policy sets another
// strategy, such as Recreate. That would take the whole subset down before anybody sees it. So a child that would replace
// too many at once gets its bound first, and is released when that is in its spec.
func (v *subsetState) mostAtOnce() int64 {
	if !v.exists() {
		return 0
	}
	return v.atPace(int64(v.currentReplicas))
}

// remainingAllowance returns how many replicas of a child may be unavailable: the room of the ledger, less what is
// unavailable or reserved elsewhere, and no more than the ledger of its subset allows.
//
// The child's own unavailable replicas do not add to that: if they recovered, the child would take others in their
// place at once. Only on the way back may they be replaced regardless of what is down elsewhere, because the
// revision is proven, and they would otherwise wait forever.
func (c *coordinator) remainingAllowance(v *subsetState) int64 {
	elsewhere := c.unavailable - v.own.unavailable
	if c.rules.forced {
		elsewhere = c.inFlight - c.inFlightOf(v, true)
	}
	left := min(c.most-elsewhere, v.own.most)
	if c.goingBack {
		left = max(left, v.downReplicas())
	}
	return min(max(0, left), v.asked())
}

// setAllowance assigns a child its allowance, and takes that from the room for others. The previous allowance is
// in force until the child has been written.
func (c *coordinator) setAllowance(v *subsetState, left int64) {
	c.addUnavailable(v, max(0, left-v.own.unavailable))
	c.addInFlight(v, max(0, left-c.inFlightOf(v, c.rules.forced)))
	if v.stopped = left == 0; v.stopped {
		left = 1 // 0 is not allowed
	}
	v.pace = &adapters.Pace{MaxUnavailable: int32(left)}
}

// RestingPace returns the pace of a child that is not being released: the pace that it has, because another one
// would be a needless write. Without a pace, the API server would set its own default, which allows replicas
// beyond those that are asked for. o is nil without a child.
func RestingPace(o *adapters.Observed) *adapters.Pace {
	if o == nil || o.Pace == nil {
		return &adapters.Pace{MaxUnavailable: 1}
	}
	return &adapters.Pace{MaxUnavailable: max(1, o.Pace.MaxUnavailable)}
}

// setPace assigns the room that is left in the ledger to children that are being released, in order. A failed
// replica stops all of them where they are, and so does a check that is not met, because each replica that such a child
// replaces goes to the update revision only then.
func (c *coordinator) setPace(v *subsetState) {
	switch {
	case v.pace != nil || !v.Whole || v.Removed:
	case !v.releasing() || v.nextPartition != 0:
		v.pace = RestingPace(v.Observed)
	case c.Paused != "":
		v.pace = v.Observed.Pace // it already stands still
	case c.haltedByFailure(), c.heldByCheck(), v.nextReplicas < v.currentReplicas, v.Observed.Unscaled > 0, v.Observed.Paused && v.unsettled():
		c.setAllowance(v, 0)
	default:
		c.setAllowance(v, c.remainingAllowance(v))
	}
}
