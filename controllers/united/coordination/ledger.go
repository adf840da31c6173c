// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
)

// ledger is what is unavailable over all subsets.
type ledger struct {
	// unavailable is U, spare the usable surplus replicas: N - A = unavailable -
	// spare.
	unavailable, usableSurplus int64
	// unavailableAtFirst is U before the pass.
	unavailableAtFirst int64
	// inFlight are released replicas that are not back; under force, those of them
	// that have not failed.
	inFlight int64
}

func (c *coordinator) countUnavailable() {
	for _, v := range c.states {
		if !v.Removed {
			c.unavailable += int64(v.Desired - min(v.LastAvailable, v.Desired))
		}
		for _, m := range v.replicaStates {
			if m.Position >= v.currentReplicas {
				continue // it comes in place of another, which is counted
			}
			surplus := v.Removed || m.Position >= v.Desired
			switch {
			case m.usable && surplus:
				c.usableSurplus++
			case m.usable:
				c.unavailable--
			}
			if m.failed && !surplus {
				c.failed = append(c.failed, *m.Replica)
			}
		}
		c.unavailable += c.reservedBy(v)
		c.inFlight += c.inFlightOf(v, c.rules.forced)
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

// mayRemoveSurplus reports whether an available surplus replica may go. Force changes
// nothing about that: it lets a rollout go on, and takes no capacity.
func (c *coordinator) mayRemoveSurplus() bool {
	return c.unavailable-c.usableSurplus+1 <= c.rules.maxUnavailable
}

func (c *coordinator) shrink(v *subsetState) int32 {
	to := v.currentReplicas
	for to > v.Desired {
		switch m := v.at(to - 1); {
		case m == nil:
			to = max(v.Desired, to-v.missingDownFrom(to-1))
			continue
		case m.usable:
			if !c.mayRemoveSurplus() {
				return to
			}
			c.usableSurplus--
		case m.available:
			// It counts as down, since its controller may be about to replace it. But it
			// may as well be one that serves.
			if c.unavailable-c.usableSurplus > c.rules.maxUnavailable {
				return to
			}
		}
		to--
	}
	return to
}
