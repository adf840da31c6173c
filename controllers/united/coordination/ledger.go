// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// ledger is what is unavailable over all subsets.
type ledger struct {
	// unavailable is U, spare the usable surplus replicas: N - A = unavailable -
	// spare.
	unavailable, spare int64
	// unavailableAtFirst is U before the pass.
	unavailableAtFirst int64
	// down counts as U does, but for released replicas that still run.
	down int64
	// inFlight are released replicas that are not back; under force, those of them
	// that have not failed.
	inFlight int64
}

func (c *coordinator) count() {
	for _, v := range c.views {
		if !v.Removed {
			c.unavailable += int64(v.Desired)
			c.down += int64(v.Desired)
		}
		for _, m := range v.marks {
			surplus := v.Removed || m.Position >= v.Desired
			if m.available && !surplus {
				c.down--
			}
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
		c.inFlight += v.inFlight(c.rules.forced)
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

func (c *coordinator) shrink(v *view) int32 {
	to := v.live
	for to > v.Desired {
		switch m := v.at(to - 1); {
		case m == nil:
			to = max(v.Desired, to-v.gap(to-1))
			continue
		case m.usable:
			if c.unavailable-c.spare+1 > c.rules.maxUnavailable && !c.rules.forced {
				return to
			}
			c.spare--
		case m.available:
			// It counts as down, since its controller may be about to replace it. But it
			// may as well be one that serves.
			if c.unavailable-c.spare > c.rules.maxUnavailable && !c.rules.forced {
				return to
			}
		}
		to--
	}
	return to
}

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
	anybody := false
	for _, v := range candidates {
		v.potential = v.released()
		v.potentialCap = v.size()
		if c.rules.maxSkew >= 0 && !c.rules.forced && slowest != nil {
			v.potentialCap = share(v.size(), slowest.arrived, slowest.size(), c.rules.maxSkew)
		}
		anybody = anybody || v.potential < v.potentialCap
	}
	if slowest != nil && !anybody {
		slowest = readiest(slowest, candidates)
		slowest.potentialCap = max(slowest.potentialCap, slowest.arrived+1)
	}
}

// readiest is, of the candidates that are as far behind as the slowest, one that
// has a replica on the way, else one whose next replica is down anyway, else the
// slowest itself. Another might wait for the very replica that is down.
func readiest(slowest *view, candidates []*view) *view {
	best, rank := slowest, 0
	for _, v := range candidates {
		if v.size() == 0 || v.arrived*slowest.size() != slowest.arrived*v.size() {
			continue
		}
		top := min(v.next, v.Desired)
		switch m := v.at(top - 1); {
		case rank < 2 && v.potential > v.arrived:
			best, rank = v, 2
		case rank < 1 && top > v.target && (m == nil || !m.usable):
			best, rank = v, 1
		}
	}
	return best
}

// share is floor(n * (u/m + percent/100)), at most n.
func share(n, u, m, percent int64) int64 {
	// n * (100u + percent*m) / (100m); up to 2^70, so in two words.
	hi, lo := bits.Mul64(uint64(n), uint64(100*u+percent*m))
	quotient, _ := bits.Div64(hi, lo, uint64(100*m)) // fits: u <= m and percent <= 100, so it is at most 2n
	return min(n, int64(quotient))
}

// released is how many ordinals from target on are released, or updated already.
// Of a child that works in order no more than one released replica moves.
func (v *view) released() int64 {
	end := min(v.live, v.Desired)
	from := max(v.target, min(v.next, end))
	count, updated := int64(end-from), int64(0)
	if end < from {
		count = 0
	}
	for _, m := range v.marks {
		switch {
		case m.Position < v.target || m.Position >= end || !m.updated:
		case m.Position < from:
			count++
		default:
			updated++
		}
	}
	if v.Observed.Ordered {
		below := count - int64(max(end-from, 0))
		return below + updated + min(int64(max(end-from, 0))-updated, 1)
	}
	return count
}

// release lowers partitions as far as the rules allow.
func (c *coordinator) release() {
	candidates := c.candidates()
	c.capPotential(candidates)
	for {
		var next *view
		for _, v := range candidates {
			// The furthest behind goes first.
			if !v.idle && (next == nil || v.potential*next.size() < next.potential*v.size()) {
				next = v
			}
		}
		if next == nil {
			return
		}
		next.idle = !c.releaseOne(next)
	}
}

// candidates are the subsets whose turn it is.
func (c *coordinator) candidates() []*view {
	if len(c.failed) > 0 && !c.rules.forced {
		for _, v := range c.views {
			if !v.through() && v.waits == "" {
				v.waits = "nothing is released while " + c.failed[0].Name + " is broken"
			}
		}
		return nil
	}
	var turn []*view
	var ahead *view
	for _, v := range c.views {
		switch {
		case v.Removed || v.through() && v.next <= v.target:
		case ahead != nil && c.rules.sequential:
			if v.size() > 0 {
				v.waits = "waits for its turn: " + ahead.Name + " is not done"
			}
		case !v.staged:
			ahead = v
		default:
			if v.size() > 0 {
				ahead = v
			}
			turn = append(turn, v)
		}
	}
	return turn
}

// releaseOne lowers the partition of a subset by one replica, or by several that
// are missing; false when it may not.
func (c *coordinator) releaseOne(v *view) bool {
	top := min(v.next, v.Desired)
	switch {
	case v.Desired == 0:
		// It has nothing to release, and stays held while others do: what it is
		// scaled up to would come up unproven.
		if c.othersThrough(v) {
			v.next = v.target
		}
		return false
	case v.size() == 0:
		return false
	case top <= v.target:
		v.next = min(v.next, v.target)
		return false
	case v.live > v.Desired:
		v.waits = "waits until its surplus replicas are gone"
		return false
	}
	m := v.at(top - 1)
	if m != nil && m.updated {
		v.next = top - 1
		if !m.available {
			c.inFlight++
		}
		return true
	}
	count, why := c.allowance(v, m, top)
	if why != "" {
		v.waits = why
		return false
	}
	v.next = top - int32(count)
	v.potential += count
	v.freed += count
	c.inFlight += count
	if m != nil && m.usable {
		c.unavailable++
	} else {
		v.freedDown += count
	}
	c.moved, v.busy = true, true
	return true
}

func (c *coordinator) othersThrough(v *view) bool {
	for _, other := range c.views {
		if other != v && !other.Removed && !other.through() {
			return false
		}
	}
	return c.running() == len(c.rules.steps)
}

// allowance is how many replicas from the top down may be released at once, or
// why none: one that exists, or as many as are missing.
func (c *coordinator) allowance(v *view, m *mark, top int32) (count int64, why string) {
	count = 1
	if m == nil {
		count = int64(min(v.gap(top-1), top-v.target))
	}
	ordered := v.Observed.Ordered
	down := m == nil || !m.usable
	if ordered && down && !c.rules.forced {
		return count, "" // it works its way through them one by one
	}
	if v.potential >= v.potentialCap {
		return 0, c.ahead()
	}
	count = min(count, v.potentialCap-v.potential)
	if ordered {
		if why := v.outOfOrder(); why != "" {
			if count := c.unlock(v, top); count > 0 {
				return count, ""
			}
			return 0, why
		}
	}
	limit := c.rules.maxUnavailable
	switch {
	case !down && !c.rules.forced:
		if c.unavailable+1 > limit {
			return 0, fmt.Sprintf("waits: %s unavailable, maxUnavailable is %d", countedReplicas(c.unavailable), limit)
		}
	case c.inFlight+1 > limit:
		return 0, fmt.Sprintf("waits: %s on the way, maxUnavailable is %d", countedReplicas(c.inFlight), limit)
	default:
		count = min(count, limit-c.inFlight)
	}
	return count, ""
}

func (c *coordinator) ahead() string {
	return fmt.Sprintf("waits for other subsets, so as not to be more than %d%% ahead", max(c.rules.maxSkew, 0))
}

// outOfOrder says what keeps a child that works in order from moving a replica.
func (v *view) outOfOrder() string {
	if p := v.unavailableBelow(v.live); p >= 0 {
		return "waits: " + v.name(p) + "; OrderedReady moves nothing while a replica is not available"
	}
	if v.busy || v.inFlight(false) > 0 {
		return "moves its replicas one by one"
	}
	return ""
}

// unlock is how many replicas force releases in a child that works in order, so
// as to reach the one that it waits for.
func (c *coordinator) unlock(v *view, top int32) int64 {
	lowest := v.unavailableBelow(top)
	others := c.inFlight - v.inFlight(true) // what this child has released cannot move
	if !c.rules.forced || lowest < v.target || others+1 > c.rules.maxUnavailable {
		return 0
	}
	return int64(top - lowest)
}

// free names the released replicas to delete.
func (c *coordinator) free() {
	if len(c.failed) > 0 && !c.rules.forced {
		return
	}
	for _, v := range c.views {
		if v.Removed || !v.staged {
			continue
		}
		if v.Observed.Ordered {
			c.freeInOrder(v)
		} else {
			c.freeParallel(v)
		}
		c.moved = c.moved || len(v.deletes) > 0
	}
}

// freeParallel deletes what is released, the highest first, while no more than
// maxUnavailable are down. The one above which all is well is left to the child's
// own controller, which is about to delete it.
func (c *coordinator) freeParallel(v *view) {
	above := v.live
	for _, m := range slices.Backward(v.marks) {
		wellAbove := m.Position == above-1
		if m.updated && m.available && wellAbove {
			above = m.Position
		}
		if m.Position < v.partition || m.Position >= v.Desired || m.updated || m.Terminating {
			continue
		}
		if wellAbove {
			if m.available {
				c.down++
			}
			continue
		}
		if m.available {
			if c.down+1 > c.rules.maxUnavailable {
				return
			}
			c.down++
		}
		v.deletes = append(v.deletes, *m.Replica)
	}
}

// freeInOrder deletes the replica that a child that works in order waits for
// forever: the lowest that is not ready, if it is released and all below it are
// ready. One deleted above an unready one would not be made again.
func (c *coordinator) freeInOrder(v *view) {
	expected := int32(0)
	for _, m := range v.marks {
		if m.Position != expected || m.Terminating {
			return
		}
		expected++
		if m.Ready {
			continue
		}
		switch {
		case m.Position < v.partition || m.Position >= v.Desired || m.updated:
		case v.potential > v.potentialCap:
			v.gated, v.waits = true, c.ahead()
		default:
			v.deletes = []adapters.Replica{*m.Replica}
		}
		return
	}
}

func (c *coordinator) failedMessage() string {
	var names []string
	for i, r := range c.failed {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(c.failed)-most))
			break
		}
		names = append(names, r.Name+" "+r.Trouble())
	}
	return strings.Join(names, ", ") + "; nothing more is released: correct the template, or go back"
}

// raisingHelps: a subset whose turn it is could go on if maxUnavailable were
// greater. One that works in order cannot while a replica of its own is down.
func (c *coordinator) raisingHelps() bool {
	for _, v := range c.views {
		switch {
		case v.Removed || v.through():
		case !v.Observed.Ordered || v.unavailableBelow(v.live) < 0:
			return true
		case c.rules.sequential:
			return false
		}
	}
	return false
}

// blocked names the replicas that keep a rollout from going on by itself; broken:
// they will not come back by themselves.
func (c *coordinator) blocked() (message string, broken bool) {
	var culprits []string
	more := 0
	for _, v := range c.views {
		if v.Removed {
			continue
		}
		if !v.through() && !v.staged || v.live < v.Desired {
			return "", false // something else goes on
		}
		p := v.unavailableBelow(min(v.partition, v.live))
		if v.gated {
			p = v.unavailableBelow(v.live)
		}
		if v.inFlight(true) > 0 && !v.gated {
			return "", false // replicas are on their way
		}
		if p < 0 {
			continue
		}
		if m := v.at(p); m != nil && m.Failure != "" {
			broken = true
		}
		if len(culprits) == most {
			more++
			continue
		}
		culprits = append(culprits, v.name(p))
	}
	if len(culprits) == 0 {
		return "", false
	}
	if more > 0 {
		culprits = append(culprits, fmt.Sprintf("and %d more subsets", more))
	}
	why, ways := "with OrderedReady nothing moves while a replica is not available", "repair it"
	if c.raisingHelps() {
		why = fmt.Sprintf("%d of maxUnavailable %d are in use, so nothing that is well is taken down", c.unavailable, c.rules.maxUnavailable)
		ways += ", raise maxUnavailable"
	}
	return fmt.Sprintf("%s; %s: %s, or set the annotation %s to %s",
		strings.Join(culprits, ", "), why, ways, v1alpha1.AnnotationForceUpdate, c.Update), broken
}

func countedReplicas(n int64) string {
	if n == 1 {
		return "1 replica is"
	}
	return fmt.Sprintf("%d replicas are", n)
}
