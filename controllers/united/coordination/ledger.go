// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"math"
)

// ledger counts unavailable replicas: of all subsets, or of one.
type ledger struct {
	// most is the bound: maxUnavailable, or maxUnavailablePerSubset.
	most int64
	// unavailable is U, usableSurplus the number of usable surplus replicas: N - A = unavailable - usableSurplus. serving are those
	// of U that serve, and only have not been ready for long enough.
	unavailable, usableSurplus, serving int64
	// unavailableAtFirst is U before the pass.
	unavailableAtFirst int64
	// inFlight is the number of released replicas that are not back; under force, only those that have not failed.
	inFlight int64
}

// noRoomForAnother reports whether one more unavailable replica would be too many.
func (l *ledger) noRoomForAnother() bool { return l.unavailable >= l.most }

// mayRemoveSurplus reports whether an available surplus replica may be removed. Force does not change that: it
// lets a rollout continue, and does not take away capacity.
func (l *ledger) mayRemoveSurplus() bool { return l.unavailable-l.usableSurplus < l.most }

// A replica that counts in its subset also counts in the ledger of all subsets.

func (c *coordinator) addUnavailable(v *subsetState, replicas int64) {
	c.unavailable += replicas
	v.own.unavailable += replicas
}

func (c *coordinator) addSurplus(v *subsetState, replicas int64) {
	c.usableSurplus += replicas
	v.own.usableSurplus += replicas
}

func (c *coordinator) addServing(v *subsetState, replicas int64) {
	c.serving += replicas
	v.own.serving += replicas
}

func (c *coordinator) addInFlight(v *subsetState, replicas int64) {
	c.inFlight += replicas
	v.own.inFlight += replicas
}

// noRoomForAnother reports whether one more unavailable replica of a subset would be too many, in the subset or
// over all subsets.
func (c *coordinator) noRoomForAnother(v *subsetState) bool {
	return c.ledger.noRoomForAnother() || v.own.noRoomForAnother()
}

// tooManyUnavailable reports whether too many replicas are already unavailable, in the subset or over all subsets.
func (c *coordinator) tooManyUnavailable(v *subsetState) bool {
	return c.unavailable > c.most || v.own.unavailable > v.own.most
}

func (c *coordinator) countUnavailable() {
	c.most = c.rules.maxUnavailable
	for _, v := range c.states {
		v.own.most = math.MaxInt64 // a removed subset is asked for no replicas
		if !v.Removed {
			v.own.most = c.rules.unavailablePerSubset(v.Desired - v.Reserved)
			c.addUnavailable(v, int64(v.Desired-min(v.LastAvailable, v.Desired)))
		}
		for _, m := range v.replicaStates {
			surplus := v.Removed || m.Position >= v.Desired
			// It is not known which of a whole child are removed, and one beyond its replicas may be the only one that is updated.
			if m.failed && (!surplus || v.Whole) {
				c.failed = append(c.failed, *m.Replica.Replica)
			}
			if m.Position >= v.currentReplicas {
				continue // it replaces another one, which is counted
			}
			switch {
			case v.Whole:
			case m.usable && surplus:
				c.addSurplus(v, 1)
			case m.usable:
				c.addUnavailable(v, -1)
			case m.serves && !surplus:
				c.addServing(v, 1)
			}
		}
		if v.Whole {
			c.countWhole(v)
		}
		v.own.unavailableAtFirst = v.own.unavailable
	}
	c.unavailableAtFirst = c.unavailable
}

// scale adds replicas at once, and removes surplus ones as the ledger allows.
func (c *coordinator) scale() {
	for _, v := range c.states {
		v.nextReplicas = v.Desired
		if v.Observed == nil || v.currentReplicas <= v.Desired {
			continue
		}
		v.nextReplicas = c.shrink(v)
		if v.nextReplicas > v.Desired {
			v.waitReason = fmt.Sprintf("keeping %s until others are available", plural(int64(v.nextReplicas-v.Desired), "surplus replica"))
		}
		c.progressed = c.progressed || v.nextReplicas < v.currentReplicas
	}
}

// countInFlight counts what is in flight once it is known which surplus replicas are kept.
func (c *coordinator) countInFlight() {
	for _, v := range c.states {
		c.addInFlight(v, c.inFlightOf(v, c.rules.forced))
	}
}

// mayTakeOfMix reports whether a replica of a mixed child may be removed, of which so many usable ones remain. If none
// does, some may still serve that already count as down.
func (c *coordinator) mayTakeOfMix(v *subsetState, remaining int64) bool {
	switch {
	case remaining > 0:
		return c.mayRemoveSurplus() && v.own.mayRemoveSurplus()
	case v.usableReplicas() > 0:
		return c.unavailable-c.usableSurplus <= c.most && v.own.unavailable-v.own.usableSurplus <= v.own.most
	}
	return true
}

// takeOfMix counts such a replica as usable, if any remains.
func (c *coordinator) takeOfMix(v *subsetState, remaining int64) {
	switch {
	case remaining > int64(v.Desired):
		c.addSurplus(v, -1)
	case remaining > 0:
		c.addUnavailable(v, 1)
	}
}

func (c *coordinator) shrink(v *subsetState) int32 {
	to, left := v.currentReplicas, v.remainingUsable()
	for to > v.Desired {
		switch m := v.at(to - 1); {
		case v.mixed():
			if !c.mayTakeOfMix(v, left) {
				return to
			}
			c.takeOfMix(v, left)
			left--
		case m == nil:
			to = max(v.Desired, to-v.missingDownFrom(to-1))
			continue
		case m.usable:
			if !c.mayRemoveSurplus() || !v.own.mayRemoveSurplus() {
				return to
			}
			c.addSurplus(v, -1)
		case m.available:
			// It counts as down, because its controller may be about to replace it. But it may also still serve.
			if c.unavailable-c.usableSurplus > c.most || v.own.unavailable-v.own.usableSurplus > v.own.most {
				return to
			}
		}
		to--
	}
	return to
}
