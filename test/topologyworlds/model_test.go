// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"strconv"
	"strings"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/worlds"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// unbounded is the maximum of a subset that has none.
const unbounded = 1 << 40

// share converts a bound: a number, or a percentage of the replicas, a minimum rounded up and a maximum down.
func share(text string, replicas int, up bool) int {
	percent, isPercent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(percent)
	if err != nil {
		panic(err)
	}
	switch {
	case !isPercent:
		return n
	case up:
		return (n*replicas + 99) / 100
	}
	return n * replicas / 100
}

// minimum and maximum return the bounds of a subset. Where rounding puts the maximum below the minimum, the minimum
// counts (docs/concepts.md).
func (t *topology) minimum(k, replicas int) int {
	if low, _ := t.boundsOf(k); t.has(k) && low != "" {
		return share(low, replicas, true)
	}
	return 0
}

func (t *topology) maximum(k, replicas int) int {
	if !t.has(k) {
		return 0
	}
	if _, high := t.boundsOf(k); high != "" {
		return max(share(high, replicas, false), t.minimum(k, replicas))
	}
	return unbounded
}

// contrary reports whether rounding puts a maximum below the minimum.
func (t *topology) contrary(replicas int) bool {
	for k := range t.bounds {
		if _, high := t.boundsOf(k); t.has(k) && high != "" && share(high, replicas, false) < t.minimum(k, replicas) {
			return true
		}
	}
	return false
}

// bounded reports whether any subset has a bound: otherwise, with Fixed, the split is even.
func (t *topology) bounded() bool {
	for k := range t.bounds {
		if t.has(k) && t.bounds[k] != "" {
			return true
		}
	}
	return false
}

// fill is the split in list order: "minimums in list order, then up to the maximums in list order; what is left goes to
// the first without a maximum".
func (t *topology) fill(replicas int) []int {
	got, left := make([]int, len(t.bounds)), replicas
	give := func(k, upTo int) {
		n := min(left, max(0, upTo-got[k]))
		got[k] += n
		left -= n
	}
	for k := range t.bounds {
		give(k, t.minimum(k, replicas))
	}
	for k := range t.bounds {
		if most := t.maximum(k, replicas); most != unbounded {
			give(k, most)
		}
	}
	for k := range t.bounds {
		give(k, t.maximum(k, replicas))
	}
	return got
}

// minimums returns the sum of the minimums.
func (t *topology) minimums(replicas int) (sum int) {
	for k := range t.bounds {
		sum += t.minimum(k, replicas)
	}
	return sum
}

// kept returns how many replicas a subset keeps at least, because it has those that have a node, or had one whose loss
// the scheduler has not confirmed: the highest of their ordinals plus 1.
func kept(c *kid) int {
	for i := len(c.Set.Pods) - 1; i >= 0; i-- {
		if c.Had>>i&1 == 1 {
			return i + 1
		}
	}
	return 0
}

// placedTop is the highest ordinal of a replica that has a node now, plus 1. One that is terminating may count or not.
func placedTop(c *kid, terminatingToo bool) int {
	for i := len(c.Set.Pods) - 1; i >= 0; i-- {
		if p := &c.Set.Pods[i]; placement.IsPlaced(p) && (terminatingToo || !p.Terminating) {
			return i + 1
		}
	}
	return 0
}

// anyPod reports whether a replica of the child is in a state.
func anyPod(c *kid, is func(*statefulset.Pod) bool) bool {
	for i := range c.Set.Pods {
		p := &c.Set.Pods[i]
		if i < int(c.Set.Replicas) && !p.Terminating && p.Owner == statefulset.Mine && is(p) {
			return true
		}
	}
	return false
}

// surplusPod reports whether a pod that the child does not want anymore has no node. Whether it still counts is open.
func surplusPod(c *kid) bool {
	for i := range c.Set.Pods {
		if p := &c.Set.Pods[i]; placement.IsUnschedulable(p) && (i >= int(c.Set.Replicas) || p.Owner != statefulset.Mine) {
			return true
		}
	}
	return false
}

// unclear reports whether a replica is missing, terminating, or without a node for a short time, so that it is open
// whether a cap that was there can end.
func unclear(c *kid) bool {
	for i := range min(int(c.Set.Replicas), len(c.Set.Pods)) {
		if p := &c.Set.Pods[i]; !placement.IsPlaced(p) || p.Terminating {
			return true
		}
	}
	return false
}

// verdict is what a pass has to decide.
type verdict uint8

const (
	no verdict = iota
	yes
	either
)

// isCapped says whether a subset is capped: "as long as such a pod is there, and retryAfterSeconds after".
func isCapped(c *kid) verdict {
	switch {
	case anyPod(c, placement.IsStuck):
		return yes
	case surplusPod(c), c.Cap == overCap && unclear(c):
		return either
	case c.Cap == noCap, c.Cap == overCap:
		return no
	}
	return yes
}

// Published updates what the oracle knows of the caps.
func (w *game) Published(_ *worlds.Pass, s *state, status *v1alpha1.UnitedDeploymentStatus, read *state) {
	top := &w.topologies[s.Wishes]
	for k := range s.Kids {
		c, seen := &s.Kids[k], &read.Kids[k]
		said := world.SubsetStatus(status, worlds.SubsetName(k))
		young := unclear(seen) || surplusPod(seen)
		switch {
		case top.mode == fixed, !top.has(k):
			c.Cap = noCap
		case anyPod(seen, placement.IsStuck):
			c.Cap = activeCap
		case young && said != nil && said.Cap != nil && c.Cap != noCap: // open: follow it
			switch {
			case said.Cap.ClearedTime == nil:
				c.Cap = activeCap
			case c.Cap == activeCap:
				c.Cap = clearedCap
			}
		case surplusPod(seen) && said != nil && said.Cap != nil:
			c.Cap = activeCap
		case top.mode == reserve && c.Cap != noCap && said != nil && said.Cap != nil && said.Cap.ClearedTime == nil:
			c.Cap = activeCap // one that the child is yet to be asked for has no node either
		case c.Cap == activeCap:
			c.Cap = clearedCap
		case c.Cap == overCap:
			c.Cap = noCap
		}
	}
}
