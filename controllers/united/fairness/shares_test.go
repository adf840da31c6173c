// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package fairness_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/controllers/united/fairness"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

const much = fairness.Allowance + time.Second

// full returns Shares with two places that are taken, by a and b.
func full(t *testing.T, now time.Time) (s *fairness.Shares, a, b *fairness.Turn, woken *[]string) {
	t.Helper()
	s, woken = fairness.New(8), &[]string{}
	s.OnWake(func(p types.NamespacedName) { *woken = append(*woken, p.Name) })
	a, _ = s.Begin(named("a"), now)
	b, _ = s.Begin(named("b"), now)
	if !a.MayContinue(much) || !b.MayContinue(much) {
		t.Fatal("there were places")
	}
	return s, a, b, woken
}

func TestAShortPassNeedsNoPlace(t *testing.T) {
	now := time.Now()
	s, _, _, _ := full(t, now)
	for range 3 {
		turn, _ := s.Begin(named("short"), now)
		if turn == nil || !turn.MayContinue(fairness.Allowance) {
			t.Fatal("it was held up")
		}
		turn.End(fairness.Allowance, now)
	}
}

func TestALongPassWaitsInLine(t *testing.T) {
	now := time.Now()
	s, a, b, woken := full(t, now)
	for _, name := range []string{"c", "d"} {
		turn, _ := s.Begin(named(name), now)
		if turn.MayContinue(much) {
			t.Fatal("it goes on without a place")
		}
		turn.End(much, now)
	}
	if turn, wait := s.Begin(named("c"), now); turn != nil || wait <= 0 {
		t.Fatal("it began without a place, or is never looked at again", turn, wait)
	}
	a.End(much, now)
	if !slices.Equal(*woken, []string{"c"}) {
		t.Fatal("woken", *woken)
	}
	if turn, _ := s.Begin(named("d"), now); turn != nil {
		t.Error("it went past the first in line")
	}
	turn, _ := s.Begin(named("c"), now)
	if turn == nil || !turn.MayContinue(time.Hour) {
		t.Fatal("it has a place, and may not go on")
	}
	b.End(much, now)
	if !slices.Equal(*woken, []string{"c", "d"}) {
		t.Error("woken", *woken)
	}
}

func TestWhoHasWorkedRestsAsLong(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct{ used, rest time.Duration }{
		{fairness.Allowance, 0}, {2 * time.Second, 2 * time.Second}, {time.Hour, fairness.MaxRest},
	} {
		s := fairness.New(4)
		turn, _ := s.Begin(named("a"), now)
		turn.MayContinue(tc.used)
		turn.End(tc.used, now)
		turn, wait := s.Begin(named("a"), now)
		if (turn == nil) != (tc.rest > 0) || wait != tc.rest {
			t.Errorf("after %s it waits %s", tc.used, wait)
		}
		if turn, _ := s.Begin(named("a"), now.Add(tc.rest)); turn == nil {
			t.Errorf("after %s and its rest it may not begin", tc.used)
		}
	}
}

// Nobody waits for a parent that is gone.
func TestForget(t *testing.T) {
	now := time.Now()
	s, a, _, woken := full(t, now)
	for _, name := range []string{"c", "d"} {
		turn, _ := s.Begin(named(name), now)
		turn.MayContinue(much)
		turn.End(much, now)
	}
	a.End(much, now)
	s.Forget(named("c"))
	if !slices.Equal(*woken, []string{"c", "d"}) {
		t.Error("woken", *woken)
	}
}

func TestWithoutShares(t *testing.T) {
	var s *fairness.Shares
	turn, _ := s.Begin(named("a"), time.Now())
	if turn == nil || !turn.MayContinue(time.Hour) {
		t.Error("it is bounded")
	}
	turn.End(time.Hour, time.Now())
	s.Forget(named("a"))
}

// In any sequence of passes: no more passes exceed their allowance than there are places, short passes can always
// start, and each waiting parent is woken, or knows when to try again, and gets a turn once the others are done.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 16).Draw(t, "workers")
		places := max(1, workers/4)
		s, now := fairness.New(workers), time.Unix(0, 0)
		woken := map[string]bool{}
		s.OnWake(func(p types.NamespacedName) { woken[p.Name] = true })
		under, long := map[string]*fairness.Turn{}, map[string]bool{}
		name := rapid.Map(rapid.IntRange(0, 9), func(i int) string { return fmt.Sprint("p", i) })
		waits := map[string]bool{}
		end := func(p string, used time.Duration) {
			under[p].End(used, now)
			delete(under, p)
			delete(long, p)
		}
		begin := func(p string) {
			turn, wait := s.Begin(named(p), now)
			if turn == nil && wait <= 0 {
				t.Fatal(p, "is put off for ever")
			}
			if delete(waits, p); turn == nil {
				waits[p] = true
				return
			}
			under[p] = turn
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := name.Draw(t, "parent")
			switch {
			case rapid.IntRange(0, 9).Draw(t, "forget") == 0 && under[p] == nil:
				s.Forget(named(p))
				delete(waits, p)
			case under[p] == nil:
				begin(p)
			case rapid.Bool().Draw(t, "long") && !long[p]:
				if under[p].MayContinue(much) {
					long[p] = true
				} else {
					end(p, much)
				}
			default:
				used := fairness.Allowance
				if long[p] {
					used = much
				}
				end(p, used)
			}
			if len(long) > places {
				t.Fatal("more pass than there are places:", len(long))
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms")) * time.Millisecond)
		}
		for p := range under {
			end(p, fairness.Allowance)
		}
		now = now.Add(fairness.MaxRest)
		for range 10 { // in each round at least the first in the queue
			for p := range woken {
				delete(woken, p)
				waits[p] = true
			}
			for p := range waits {
				if begin(p); under[p] != nil {
					end(p, fairness.Allowance)
				}
			}
		}
		if len(waits) > 0 {
			t.Fatal("never had a turn:", waits)
		}
	})
}
