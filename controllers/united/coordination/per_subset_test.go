// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// perSubset are values of maxUnavailablePerSubset; "" means no bound.
var perSubset = []string{"", "1", "2", "5", "1%", "33%", "100%"}

// drawNames returns some of the subsets of a world with the given number of subsets, at least one.
func drawNames(t *rapid.T, subsets int) []string {
	var names []string
	for i := range subsets {
		if rapid.Bool().Draw(t, "named") {
			names = append(names, string(rune('a'+i)))
		}
	}
	if names == nil {
		names = []string{"a"}
	}
	return names
}

// mostPerSubset returns how many replicas of a subset may be unavailable, according to the documentation of the
// field: a number, or a percentage of the subset's replicas, rounded down, at least 1.
func (w *world) mostPerSubset(c *child) int {
	value := w.strategy.MaxUnavailablePerSubset
	switch {
	case value == nil:
		return math.MaxInt
	case value.StrVal == "":
		return int(value.IntVal)
	}
	return max(1, int(math.Floor(parsePercent(value.StrVal)*float64(c.desired)/100)))
}

// overPerSubset returns in which subset more replicas were unavailable at once than maxUnavailablePerSubset; "" if
// in none. broken is how many of each were broken before: a broken replica that is released replaces a serving one
// only if there is room.
func (w *world) overPerSubset(broken []int) string {
	for i, c := range w.subsets {
		most := w.mostPerSubset(c)
		if i < len(broken) {
			most = max(most, broken[i])
		}
		if n := max(w.mostOf[c.Name], w.mostCounted[c.Name]); n > most {
			return fmt.Sprintf("%d of %s were down at once, %d may be", n, c.Name, most)
		}
	}
	return ""
}

func TestMaxUnavailablePerSubset(t *testing.T) {
	for _, tc := range []struct {
		most, each string
		sizes      []int32
		want       string
	}{
		{"15", "5%", []int32{200, 100}, "15 map[a:10 b:5]"},
		{"20", "5%", []int32{200, 100}, "15 map[a:10 b:5]"},
		{"100%", "1", []int32{3, 4}, "2 map[a:1 b:1]"},
		{"100%", "2", []int32{3, 1}, "3 map[a:2 b:1]"},
		{"100%", "5%", []int32{5, 39, 40}, "4 map[a:1 b:1 c:2]"}, // rounded down, at least 1
		{"1", "100%", []int32{3}, "1 map[a:1]"},
		{"100%", "100%", []int32{3}, "3 map[a:3]"},
		{"2", "all", []int32{4}, "1 map[a:1]"}, // a value that cannot be parsed holds
	} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			s.MaxUnavailable, s.MaxUnavailablePerSubset = amount(tc.most), amount(tc.each)
		}), tc.sizes...).roll("v2")
		w.slow = 3 * time.Second
		w.settle()
		if got := fmt.Sprint(w.mostUnavailable, w.mostOf); !w.complete() || got != tc.want {
			t.Errorf("%s and %s of %v: down at once %s, want %s", tc.most, tc.each, tc.sizes, got, tc.want)
		}
	}
}

// TestTheBoundOfASubsetConvicts: the check in the random rollouts can fail. Without the gates of the subset's own
// ledger, more of its replicas are down than allowed.
func TestTheBoundOfASubsetConvicts(t *testing.T) {
	for _, missing := range [][]string{nil, {"subset-ledger", "subset-in-flight"}} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			s.MaxUnavailable, s.MaxUnavailablePerSubset = amount("4"), amount("2")
		}), 8, 4)
		w.missingGates = missing
		w.slow = 3 * time.Second
		w.roll("v2").settle()
		if over := w.overPerSubset(nil); (over != "") != (missing != nil) {
			t.Errorf("without the gates %v: %q", missing, over)
		}
	}
}

// TestWhatIsDownInASubsetCounts: for any reason, protected or not, and only in that subset.
func TestWhatIsDownInASubsetCounts(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.MaxUnavailable, s.MaxUnavailablePerSubset = amount("4"), amount("1")
	}), 3, 3)
	w.flap(0, 0)
	w.roll("v2")
	w.decide()
	p := w.decide()
	if a, b := w.subsets[0].Observed.Partition, w.subsets[1].Observed.Partition; a < 3 || b != 2 {
		t.Fatal(w.picture())
	}
	if got, want := p.Subsets[0].WaitReason, "waiting: 1 replica of the subset is unavailable, and maxUnavailablePerSubset is 1"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
	if got, want := p.Subsets[1].ChangeReason, "releases 1; 1 of maxUnavailable 4 were in use, and 0 of maxUnavailablePerSubset 1"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}

// TestBlockedByTheBoundOfASubset: the message names the field that helps, and that field helps.
func TestBlockedByTheBoundOfASubset(t *testing.T) {
	for _, tc := range []struct{ most, each, says string }{
		{"9", "1", "1 of maxUnavailablePerSubset 1 of a in use, so no healthy replica will be disrupted; repair it, raise maxUnavailablePerSubset, or force"},
		{"1", "1", "1 of maxUnavailable 1 and 1 of maxUnavailablePerSubset 1 of a in use, so no healthy replica will be disrupted; repair it, raise maxUnavailable and maxUnavailablePerSubset, or force"},
		{"1", "2", "1 of maxUnavailable 1 in use, so no healthy replica will be disrupted; repair it, raise maxUnavailable, or force"},
	} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			s.MaxUnavailable, s.MaxUnavailablePerSubset = amount(tc.most), amount(tc.each)
		}), 3, 3)
		w.fail(0, 0)
		w.roll("v2").settle()
		if w.state.Phase != v1alpha1.RolloutBlocked || !strings.Contains(w.state.Message, tc.says) {
			t.Errorf("%s, %s: %s\nwant %s", tc.most, tc.each, w.picture(), tc.says)
		}
		_, raise, _ := strings.Cut(tc.says, "raise ")
		raise, _, _ = strings.Cut(raise, ",")
		for field := range strings.SplitSeq(raise, " and ") {
			switch field {
			case "maxUnavailable":
				w.strategy.MaxUnavailable = amount("2")
			case "maxUnavailablePerSubset":
				w.strategy.MaxUnavailablePerSubset = amount("2")
			}
		}
		if w.settle(); !w.complete() {
			t.Errorf("%s, %s: %s does not help: %s", tc.most, tc.each, raise, w.picture())
		}
	}
}

// TestForceAndTheBoundOfASubset: force ignores replicas that are down, and does not disrupt more of a subset at a
// time.
func TestForceAndTheBoundOfASubset(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.MaxUnavailable, s.MaxUnavailablePerSubset = amount("6"), amount("2")
	}), 6)
	w.fail(0, 0, 1)
	w.slow = 3 * time.Second
	w.forced = "v2"
	w.roll("v2").settle()
	if !w.complete() || w.mostOf["a"] != 4 {
		t.Errorf("%d down at once\n%s", w.mostOf["a"], strings.Join(w.narrative, "\n"))
	}
}

// TestGoingBackAndTheBoundOfASubset: unavailable replicas go back at once, serving ones as the subset's ledger
// allows.
func TestGoingBackAndTheBoundOfASubset(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.MaxUnavailable, s.MaxUnavailablePerSubset = amount("6"), amount("2")
	}), 6)
	w.roll("v2")
	for w.updated()[0] < 4 {
		w.round()
	}
	w.fail(0, 2, 3, 4)
	w.mostOf["a"] = 0
	w.roll("v1")
	w.settle()
	if !w.complete() || w.mostOf["a"] > 3 {
		t.Errorf("%d down at once\n%s", w.mostOf["a"], strings.Join(w.narrative, "\n"))
	}
}

// TestScalingDownKeepsToTheBoundOfASubset: surplus replicas serve in place of those that are down.
func TestScalingDownKeepsToTheBoundOfASubset(t *testing.T) {
	for each, want := range map[string]int32{"1": 4, "2": 3, "": 3} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			if s.MaxUnavailable = amount("5"); each != "" {
				s.MaxUnavailablePerSubset = amount(each)
			}
		}), 5, 3)
		w.flap(0, 0, 1)
		w.subsets[0].desired, w.subsets[1].desired = 3, 3
		w.decide()
		if got := w.subsets[0].Observed.Replicas; got != want {
			t.Errorf("maxUnavailablePerSubset %q: %d replicas are left, want %d", each, got, want)
		}
	}
}

// TestBlockedWithSurplusReplicas: force does not remove them, so the message names what does. This includes
// ordered children, which force alone would unlock.
func TestBlockedWithSurplusReplicas(t *testing.T) {
	for each, says := range map[string]string{
		"50%": "raise maxUnavailablePerSubset, or force", "": "raise maxUnavailable, or force",
	} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			if each != "" {
				s.MaxUnavailable, s.MaxUnavailablePerSubset = amount("4"), amount(each)
			}
		}), 3).ordered().roll("v2")
		for w.updated()[0] == 0 {
			w.round()
		}
		w.decide() // releases the next one, which its controller does not take while another is down
		w.fail(0, 0)
		w.subsets[0].desired = 2
		w.settle()
		if w.state.Phase != v1alpha1.RolloutBlocked || !strings.Contains(w.state.Message, says) {
			t.Errorf("%q: want %q\n%s", each, says, w.picture())
		}
		w.strategy.MaxUnavailable, w.strategy.MaxUnavailablePerSubset, w.forced = amount("2"), nil, "v2"
		if w.settle(); !w.complete() {
			t.Errorf("%q: it does not help: %s", each, w.picture())
		}
	}
}

// TestTakingBackKeepsToTheBoundOfASubset: replicas that came up without having been released.
func TestTakingBackKeepsToTheBoundOfASubset(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.MaxUnavailable, s.MaxUnavailablePerSubset, s.Partition = amount("3"), amount("1"), amount("100%")
	}), 3, 3).roll("v2")
	w.decide()
	w.decide()
	for _, c := range w.subsets {
		c.Unreleased = []adapters.Replica{*c.member(1), *c.member(0)}
	}
	got := map[string]int{}
	for _, d := range w.decide().Subsets {
		got[d.WaitReason] += len(d.Delete)
	}
	if diff := cmp.Diff(map[string]int{
		"waiting to replace web-a-0, which was updated without being released": 1,
		"waiting to replace web-b-0, which was updated without being released": 1,
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestTheBoundOfASubsetIsThePaceOfAWholeChild: the child gets as much of the ledger as there is, but no more than
// the bound of the subset.
func TestTheBoundOfASubsetIsThePaceOfAWholeChild(t *testing.T) {
	for _, tc := range []struct {
		most, each string
		want       [2]int32
	}{{"5", "1", [2]int32{1, 1}}, {"5", "50%", [2]int32{2, 2}}, {"3", "50%", [2]int32{2, 1}}, {"5", "", [2]int32{4, 1}}} {
		in := coordination.Input{
			Strategy: strategy(func(s *v1alpha1.RollingUpdate) {
				if s.MaxUnavailable = amount(tc.most); tc.each != "" {
					s.MaxUnavailablePerSubset = amount(tc.each)
				}
			}),
			Update: "v2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
			State: &v1alpha1.RolloutStatus{Revision: "v2", Phase: v1alpha1.RolloutProgressing},
			Subsets: []coordination.Subset{
				wholeSubset("a", "v1", coordination.Held, "v1", "v1", "v1", "v1"), wholeSubset("b", "v1", coordination.Held, "v1", "v1", "v1", "v1"),
			},
		}
		for i, d := range coordination.Coordinate(in).Subsets {
			if d.Partition != 0 || d.Pace.MaxUnavailable != tc.want[i] {
				t.Errorf("%s and %q: subset %d has partition %d and pace %d, want %d", tc.most, tc.each, i, d.Partition, d.Pace.MaxUnavailable, tc.want[i])
			}
		}
	}
}

// TestMaxSkewBindsSomeSubsets: a and b stay together, c neither waits for them nor holds them back.
func TestMaxSkewBindsSomeSubsets(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.MaxUnavailable, s.MaxSkew, s.MaxSkewSubsets = amount("100%"), "25%", []string{"a", "b"}
	}), 4, 8, 20).roll("v2")
	if got, want := fmt.Sprint(waves(w, 100)), "[[1 2 20] [2 4 20] [3 6 20] [4 8 20]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// c is slow: nobody waits for it.
	w = newWorld(w.strategy, 4, 8, 20).roll("v2")
	w.decide()
	w.subsets[2].Forgot = true
	if got, want := fmt.Sprint(waves(w, 100)), "[[1 2 0] [2 4 0] [3 6 0] [4 8 0]]"; got != want {
		t.Errorf("c stands still: got %s, want %s", got, want)
	}
	// Without names, all wait for it. This is the control.
	all := *w.strategy
	all.MaxSkewSubsets = nil
	w = newWorld(&all, 4, 8, 20).roll("v2")
	w.decide()
	w.subsets[2].Forgot = true
	if got, want := fmt.Sprint(waves(w, 100)), "[[1 2 0]]"; got != want {
		t.Errorf("all are bound: got %s, want %s", got, want)
	}
}
