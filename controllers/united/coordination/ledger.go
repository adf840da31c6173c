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
	unavailable, spare int64
	// unavailableAtFirst is U before the pass.
	unavailableAtFirst int64
	// inFlight are released replicas that are not back; under force, those of them
	// that have not failed.
	inFlight int64
}

func (c *coordinator) count() {
	for _, v := range c.views {
		if !v.Removed {
			c.unavailable += int64(v.Desired - min(v.LastAvailable, v.Desired))
		}
		for _, m := range v.marks {
			if m.Position >= v.live {
				continue // it comes in place of another, which is counted
			}
			surplus := v.Removed || m.Position >= v.Desired
			switch {
			case m.usable && surplus:
				c.spare++
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
	for _, v := range c.views {
		v.replicas = v.Desired
		if v.Observed == nil || v.live <= v.Desired {
			continue
		}
		v.replicas = c.shrink(v)
		if v.replicas > v.Desired {
			v.waits = fmt.Sprintf("keeps %s until others are available", plural(int64(v.replicas-v.Desired), "surplus replica"))
		}
		c.moved = c.moved || v.replicas < v.live
	}
}

// mayRemove tells whether an available surplus replica may go. Force changes
// nothing about that: it lets a rollout go on, and takes no capacity.
func (c *coordinator) mayRemove() bool {
	return c.unavailable-c.spare+1 <= c.rules.maxUnavailable
}

func (c *coordinator) shrink(v *view) int32 {
	to := v.live
	for to > v.Desired {
		switch m := v.at(to - 1); {
		case m == nil:
			to = max(v.Desired, to-v.gap(to-1))
			continue
		case m.usable:
			if !c.mayRemove() {
				return to
			}
			c.spare--
		case m.available:
			// It counts as down, since its controller may be about to replace it. But it
			// may as well be one that serves.
			if c.unavailable-c.spare > c.rules.maxUnavailable {
				return to
			}
		}
		to--
	}
	return to
}
