// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"math"
)

// ledger is what is unavailable: over all subsets, or of one.
type ledger struct {
	// most is how many may be: maxUnavailable, or maxUnavailablePerSubset.
	most int64
	// unavailable is U, spare the usable surplus replicas: N - A = unavailable -
	// spare.
	unavailable, usableSurplus int64
	// unavailableAtFirst is U before the pass.
	unavailableAtFirst int64
	// inFlight are released replicas that are not back; under force, those of them
	// that have not failed.
	inFlight int64
}

// noRoomForAnother reports whether one more that is unavailable would be too many.
func (l *ledger) noRoomForAnother() bool { return l.unavailable >= l.most }

// mayRemoveSurplus reports whether an available surplus replica may go. Force changes
// nothing about that: it lets a rollout go on, and takes no capacity.
func (l *ledger) mayRemoveSurplus() bool { return l.unavailable-l.usableSurplus < l.most }

// What is counted of a subset counts over all of them too.

func (c *coordinator) addUnavailable(v *subsetState, replicas int64) {
	c.unavailable += replicas
	v.own.unavailable += replicas
}

func (c *coordinator) addSurplus(v *subsetState, replicas int64) {
	c.usableSurplus += replicas
	v.own.usableSurplus += replicas
}

func (c *coordinator) addInFlight(v *subsetState, replicas int64) {
	c.inFlight += replicas
	v.own.inFlight += replicas
}

// noRoomForAnother reports whether one more of a subset that is unavailable would be too many, of it or
// over all subsets.
func (c *coordinator) noRoomForAnother(v *subsetState) bool {
	return c.ledger.noRoomForAnother() || v.own.noRoomForAnother()
}

// tooManyUnavailable reports whether too many are unavailable already.
func (c *coordinator) tooManyUnavailable(v *subsetState) bool {
	return c.unavailable > c.most || v.own.unavailable > v.own.most
}

func (c *coordinator) countUnavailable() {
	c.most = c.rules.maxUnavailable
	for _, v := range c.states {
		v.own.most = math.MaxInt64 // a subset that is removed is asked for no replicas
		if !v.Removed {
			v.own.most = c.rules.unavailablePerSubset(v.Desired - v.Reserved)
			c.addUnavailable(v, int64(v.Desired-min(v.LastAvailable, v.Desired)))
		}
		for _, m := range v.replicaStates {
			if m.Position >= v.currentReplicas {
				continue // it comes in place of another, which is counted
			}
			surplus := v.Removed || m.Position >= v.Desired
			switch {
			case m.usable && surplus:
				c.addSurplus(v, 1)
			case m.usable:
				c.addUnavailable(v, -1)
			}
			if m.failed && !surplus {
				c.failed = append(c.failed, *m.Replica)
			}
		}
		c.addUnavailable(v, c.reservedBy(v))
		c.addInFlight(v, c.inFlightOf(v, c.rules.forced))
		v.own.unavailableAtFirst = v.own.unavailable
	}
	c.unavailableAtFirst = c.unavailable
}

// scale adds replicas at once, and takes surplus ones away as the ledger allows.
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

func (c *coordinator) shrink(v *subsetState) int32 {
	to := v.currentReplicas
	for to > v.Desired {
		switch m := v.at(to - 1); {
		case m == nil:
			to = max(v.Desired, to-v.missingDownFrom(to-1))
			continue
		case m.usable:
			if !c.mayRemoveSurplus() || !v.own.mayRemoveSurplus() {
				return to
			}
			c.addSurplus(v, -1)
		case m.available:
			// It counts as down, since its controller may be about to replace it. But it
			// may as well be one that serves.
			if c.unavailable-c.usableSurplus > c.most || v.own.unavailable-v.own.usableSurplus > v.own.most {
				return to
			}
		}
		to--
	}
	return to
}
