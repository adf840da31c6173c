// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"math/bits"
)

// setReleaseLimits sets how far skew lets each subset go in this pass.
func (c *coordinator) setReleaseLimits(candidates []*subsetState) {
	var slowest *subsetState
	for _, v := range c.states {
		if v.Removed || v.toRelease() == 0 || !c.rules.bindsSkew(v.Name) {
			continue
		}
		if slowest == nil || v.updatedAvailable*slowest.toRelease() < slowest.updatedAvailable*v.toRelease() {
			slowest = v
		}
	}
	anybody := false // whether any subset that skew binds may move
	for _, v := range candidates {
		v.releasedOrUpdated = v.countReleasedOrUpdated()
		v.releaseLimit = v.toRelease()
		if slowest == nil || !c.rules.bindsSkew(v.Name) {
			continue
		}
		v.releaseLimit = share(v.toRelease(), slowest.updatedAvailable, slowest.toRelease(), c.rules.maxSkew)
		if v.toRelease() > 0 && v.updatedAvailable*slowest.toRelease() == slowest.updatedAvailable*v.toRelease() && v.nextIsDown() {
			// It costs nothing, and others may wait for it.
			v.releaseLimit = max(v.releaseLimit, v.updatedAvailable+1)
			anybody = true
		}
		anybody = anybody || v.releasedOrUpdated < v.releaseLimit
	}
	if slowest != nil && !anybody {
		slowest.releaseLimit = max(slowest.releaseLimit, slowest.updatedAvailable+1)
	}
}

// nextIsDown reports whether the next replica to update is down: it is on its way, or it is not usable.
func (v *subsetState) nextIsDown() bool {
	top := min(v.nextPartition, v.Desired)
	m := v.at(top - 1)
	return v.releasedOrUpdated > v.updatedAvailable || top > v.target && (m == nil || !m.usable)
}

// share returns floor(n * (u/m + percent/100)), at most n.
func share(n, u, m, percent int64) int64 {
	// n * (100u + percent*m) / (100m) is up to 2^70, so it needs two words.
	hi, lo := bits.Mul64(uint64(n), uint64(100*u+percent*m))
	quotient, _ := bits.Div64(hi, lo, uint64(100*m)) // fits: u <= m and percent <= 100, so it is at most 2n
	return min(n, int64(quotient))
}

// countReleasedOrUpdated returns how many ordinals from target on are released, or already updated.
func (v *subsetState) countReleasedOrUpdated() int64 {
	end := min(v.currentReplicas, v.Desired)
	from := max(v.target, min(v.nextPartition, end))
	count := int64(end - from)
	if end < from {
		count = 0
	}
	for _, m := range v.replicaStates {
		switch {
		case m.Position < v.target || m.Position >= end || !m.updated:
		case m.Position < from:
			count++
		}
	}
	return count
}

func (c *coordinator) ahead() string {
	return fmt.Sprintf("waiting for other subsets, to stay within maxSkew %d%%", max(c.rules.maxSkew, 0))
}
