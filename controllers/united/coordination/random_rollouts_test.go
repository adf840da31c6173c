// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// TestRandomRolloutsEnd: with any sizes, floors and bounds, a rollout whose pods work ends at its floor, within
// the ledger and within the skew. (Subsets already at their floor must not count for the skew, or it does not
// end.)
func TestRandomRolloutsEnd(t *testing.T) {
	for range 50 { // with as many worlds each as -rapid.checks says: 5000
		rapid.Check(t, rolloutEnds)
	}
}

// some reports whether there is a replica. Without one a rollout does not end: see TestZeroFinishesNothing.
func some(sizes []int32) bool { return slices.Max(sizes) > 0 }

func rolloutEnds(t *rapid.T) {
	sizes := rapid.SliceOfN(rapid.Int32Range(0, 25), 1, 5).Filter(some).Draw(t, "sizes")
	percent := rapid.SampledFrom([]string{"", "0%", "1%", "10%", "33%", "100%"}).Draw(t, "maxSkew")
	floor := fmt.Sprintf("%d%%", rapid.IntRange(0, 100).Draw(t, "floor"))
	most := fmt.Sprint(rapid.IntRange(1, 12).Draw(t, "maxUnavailable"))
	each := rapid.SampledFrom(perSubset).Draw(t, "maxUnavailablePerSubset")
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Partition, s.MaxUnavailable, s.MaxSkew = amount(floor), amount(most), percent
		if each != "" {
			s.MaxUnavailablePerSubset = amount(each)
		}
		if percent != "" && rapid.Bool().Draw(t, "skew of some") {
			s.MaxSkewSubsets = drawNames(t, len(sizes))
		}
	}), sizes...)
	if rapid.Bool().Draw(t, "ordered") {
		w.ordered()
	}
	w.slow = time.Duration(rapid.IntRange(0, 4).Draw(t, "seconds to ready")) * time.Second
	w.roll("v2")
	for quiet := 0; quiet < 3; {
		quiet++
		if w.round() {
			quiet = 0
		}
		w.inBounds(t, percent, make([]int, len(sizes)))
	}
	if w.state.Phase != v1alpha1.RolloutDone || w.mostUnavailable > int(*amountOf(most)) {
		t.Fatalf("%d down\n%s", w.mostUnavailable, strings.Join(w.narrative, "\n"))
	}
	if over := w.overPerSubset(nil); over != "" {
		t.Fatalf("%s\n%s", over, strings.Join(w.narrative, "\n"))
	}
	for i, c := range w.subsets {
		for _, m := range c.Observed.Pods {
			if released := m.Position >= floorOf(floor, sizes[i]); released != (m.Hash == "v2") {
				t.Fatalf("%s runs %s at floor %s\n%s", m.Name, m.Hash, floor, strings.Join(w.narrative, "\n"))
			}
		}
	}
}

// TestRandomRolloutsFromBrokenReplicas: whatever was broken before, a rollout ends, or is Blocked in the sense of
// the package comment. Then force ends it, unless an ordered child waits for a replica below its floor.
func TestRandomRolloutsFromBrokenReplicas(t *testing.T) {
	for range 20 {
		rapid.Check(t, brokenRolloutEnds)
	}
}

func brokenRolloutEnds(t *rapid.T) {
	sizes := rapid.SliceOfN(rapid.Int32Range(0, 8), 1, 4).Filter(some).Draw(t, "sizes")
	percent := rapid.SampledFrom([]string{"", "0%", "10%", "33%"}).Draw(t, "maxSkew")
	floor := fmt.Sprintf("%d%%", rapid.SampledFrom([]int{0, 0, 30, 50, 100}).Draw(t, "floor"))
	most := rapid.IntRange(1, 6).Draw(t, "maxUnavailable")
	order := v1alpha1.ParallelOrder
	if percent == "" && rapid.Bool().Draw(t, "sequential") {
		order = v1alpha1.SequentialOrder
	}
	each := rapid.SampledFrom(perSubset).Draw(t, "maxUnavailablePerSubset")
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Partition, s.MaxUnavailable, s.MaxSkew, s.Order = amount(floor), amount(fmt.Sprint(most)), percent, order
		if each != "" {
			s.MaxUnavailablePerSubset = amount(each)
		}
		if percent != "" && rapid.Bool().Draw(t, "skew of some") {
			s.MaxSkewSubsets = drawNames(t, len(sizes))
		}
	}), sizes...)
	ordered := rapid.Bool().Draw(t, "ordered")
	if ordered {
		w.ordered()
	}
	sick, broken := 0, make([]int, len(sizes))
	for i, size := range sizes {
		for p := range size {
			if rapid.IntRange(0, 4).Draw(t, "sick") == 0 {
				w.fail(i, p)
				sick++
				broken[i]++
			}
		}
	}
	w.slow = time.Duration(rapid.IntRange(0, 2).Draw(t, "seconds to ready")) * time.Second
	w.roll("v2")
	for quiet := 0; quiet < 3; {
		quiet++
		if w.round() {
			quiet = 0
		}
		w.inBounds(t, percent, broken)
	}
	if w.mostUnavailable > max(most, sick) && w.mostUnavailable > most+sick-1 {
		t.Fatalf("%d down\n%s", w.mostUnavailable, strings.Join(w.narrative, "\n"))
	}
	if over := w.overPerSubset(broken); over != "" {
		t.Fatalf("%s\n%s", over, strings.Join(w.narrative, "\n"))
	}
	switch w.state.Phase {
	case v1alpha1.RolloutDone:
		return
	case v1alpha1.RolloutBlocked:
		w.blockedRightly(t, most)
	default:
		t.Fatalf("%s\n%s", w.picture(), strings.Join(w.narrative, "\n"))
	}
	w.forced = "v2"
	w.settle()
	hopeless := false
	for i, c := range w.subsets {
		for p := range floorOf(floor, sizes[i]) {
			hopeless = hopeless || ordered && !c.member(p).Ready
		}
	}
	if !hopeless && w.state.Phase != v1alpha1.RolloutDone {
		t.Fatalf("forced: %s\n%s", w.picture(), strings.Join(w.narrative, "\n"))
	}
}

// blockedRightly: the replicas that cannot be released yet are broken, and use up the ledger; or, if replicas move
// in order, they are in the way.
func (w *world) blockedRightly(t *rapid.T, most int) {
	reachable, full := true, false
	for _, c := range w.subsets {
		full = full || c.down() >= w.mostPerSubset(c)
		for _, m := range c.Observed.Pods {
			if !m.Ready && m.Position < c.Observed.Partition {
				reachable = false
			}
		}
	}
	if reachable || w.down() < most && !full && !w.subsets[0].Observed.Ordered {
		t.Fatalf("blocked with %d down: %s\n%s", w.down(), w.picture(), strings.Join(w.narrative, "\n"))
	}
}

func amountOf(s string) *int32 { return ptr.To(amount(s).IntVal) }

// floorOf returns the percentage of the replicas, rounded up.
func floorOf(percent string, replicas int32) int32 {
	return int32(math.Ceil(parsePercent(percent) * float64(replicas) / 100))
}

// size returns how many replicas of a subset the rollout releases.
func (w *world) size(subset int) float64 {
	c := w.subsets[subset]
	return float64(c.desired - floorOf(w.strategy.Partition.StrVal, c.desired))
}

// shares returns the share of these that is updated, for the subsets that have any.
func (w *world) shares() map[int]float64 {
	shares := map[int]float64{}
	for i, updated := range w.updated() {
		if n := w.size(i); n > 0 {
			shares[i] = float64(updated) / n
		}
	}
	return shares
}

// inBounds checks that the shares are as close as skew requires, except for replicas that were broken: those are
// released out of turn.
func (w *world) inBounds(t *rapid.T, percent string, broken []int) {
	if percent == "" {
		return
	}
	least, most, smallest := math.Inf(1), 0.0, math.Inf(1)
	for i, share := range w.shares() {
		if bound := w.strategy.MaxSkewSubsets; len(bound) > 0 && !slices.Contains(bound, w.subsets[i].Name) {
			continue
		}
		least, most, smallest = min(least, share), max(most, share-float64(broken[i])/w.size(i)), min(smallest, w.size(i))
	}
	if bound := parsePercent(percent)/100 + 1/smallest + 1e-9; most-least > bound {
		t.Fatalf("shares from %.2f to %.2f, more than %.2f apart\n%s", least, most, bound, strings.Join(w.narrative, "\n"))
	}
}

// FuzzCoordinate: no input that an API server accepts makes it panic, or release what it must not.
func FuzzCoordinate(f *testing.F) {
	f.Add(int32(3), int32(3), int32(0), "10%", "1", true)
	f.Add(int32(math.MaxInt32), int32(2), int32(math.MaxInt32), "0%", "100%", false)
	f.Fuzz(func(t *testing.T, desired, live, partition int32, floor, most string, ordered bool) {
		c := &child{desired: max(0, desired)}
		c.Name, c.Revision, c.LastPartition = "a", "v2", coordination.Held
		c.Observed = &adapters.Observed{Replicas: max(0, live), Partition: max(0, partition), SpecObserved: true, CurrentHash: "v1", UpdateHash: "v2", Ordered: ordered}
		now := time.Unix(1767225600, 0)
		in := coordination.Input{
			Strategy: strategy(func(s *v1alpha1.RollingUpdate) { s.Partition, s.MaxUnavailable = amount(floor), amount(most) }),
			Update:   "v2", State: &v1alpha1.RolloutStatus{Revision: "v2"}, Now: now,
		}
		c.Desired = c.desired
		in.Subsets = []coordination.Subset{c.Subset}
		d := coordination.Coordinate(in).Subsets[0]
		if d.Partition < 0 || d.Replicas < 0 || len(d.Delete) > 0 {
			t.Errorf("%+v", d)
		}
	})
}

// BenchmarkCoordinate measures one pass over 100 subsets of 1000 replicas each, in the middle of a rollout.
func BenchmarkCoordinate(b *testing.B) {
	sizes := make([]int32, 100)
	for i := range sizes {
		sizes[i] = 1000
	}
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable, s.MaxSkew = amount("10%"), "10%" }), sizes...)
	w.roll("v2")
	half := make([]int32, 100)
	for i := range half {
		half[i] = 500
	}
	w.started(half...)
	in := w.input()
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		coordination.Coordinate(in)
	}
}
