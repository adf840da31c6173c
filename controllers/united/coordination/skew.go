// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"math/bits"
)

// capPotential says how far skew lets each subset go in this pass.
func (c *coordinator) capPotential(candidates []*view) {
	var slowest *view
	for _, v := range c.views {
		if v.Removed || v.size() == 0 {
			continue
		}
		if slowest == nil || v.arrived*slowest.size() < slowest.arrived*v.size() {
			slowest = v
		}
	}
	skewed := c.rules.maxSkew >= 0 && slowest != nil
	anybody := false
	for _, v := range candidates {
		v.potential = v.released()
		v.potentialCap = v.size()
		if skewed {
			v.potentialCap = share(v.size(), slowest.arrived, slowest.size(), c.rules.maxSkew)
		}
		if skewed && v.size() > 0 && v.arrived*slowest.size() == slowest.arrived*v.size() && v.nextIsDown() {
			// It costs nothing, and others may wait for it.
			v.potentialCap = max(v.potentialCap, v.arrived+1)
			anybody = true
		}
		anybody = anybody || v.potential < v.potentialCap
	}
	if slowest != nil && !anybody {
		slowest.potentialCap = max(slowest.potentialCap, slowest.arrived+1)
	}
}

// nextIsDown: the replica that is to be updated next is down: it is on its way, or is
// not usable.
func (v *view) nextIsDown() bool {
	top := min(v.next, v.Desired)
	m := v.at(top - 1)
	return v.potential > v.arrived || top > v.target && (m == nil || !m.usable)
}

// share is floor(n * (u/m + percent/100)), at most n.
func share(n, u, m, percent int64) int64 {
	// n * (100u + percent*m) / (100m); up to 2^70, so in two words.
	hi, lo := bits.Mul64(uint64(n), uint64(100*u+percent*m))
	quotient, _ := bits.Div64(hi, lo, uint64(100*m)) // fits: u <= m and percent <= 100, so it is at most 2n
	return min(n, int64(quotient))
}

// released is how many ordinals from target on are released, or updated already.
func (v *view) released() int64 {
	end := min(v.live, v.Desired)
	from := max(v.target, min(v.next, end))
	count := int64(end - from)
	if end < from {
		count = 0
	}
	for _, m := range v.marks {
		switch {
		case m.Position < v.target || m.Position >= end || !m.updated:
		case m.Position < from:
			count++
		}
	}
	return count
}

func (c *coordinator) ahead() string {
	return fmt.Sprintf("waits for other subsets, so as not to be more than %d%% ahead", max(c.rules.maxSkew, 0))
}
