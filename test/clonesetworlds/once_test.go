// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"
	"strings"
)

// onceIsEnough: at rest under Manual an edit of the partitions costs each child one write (design.md, section 5). It is
// asked in a world in which nothing fails.
func (k *walker) onceIsEnough(n int, s *state) {
	w := k.w
	if w.bad != 0 || w.rolling(s) || s.Paused || !w.initialized(s) || !k.rests(s) {
		return
	}
	for v := range w.strategies {
		if uint8(v) == s.Strategy {
			continue
		}
		edited := *s
		edited.Strategy, edited.Race = uint8(v), true
		edited.Budget = budget{}
		edited.Generation++
		w.tidy(&edited)
		if w.rolling(&edited) {
			continue
		}
		if wrong := k.countWrites(edited); wrong != "" {
			k.tell(n, breach{"one write", fmt.Sprintf("%q to %q: %s", w.strategies[s.Strategy], w.strategies[v], wrong)}, "")
		}
	}
}

// rests reports whether all is done, and all pods are ready.
func (k *walker) rests(s *state) bool {
	after, x, _ := k.w.passWhole(s)
	if len(x.does()) > 0 || after.Status != s.Status || !k.w.settled(s) {
		return false
	}
	for i := range s.Children {
		if c := &s.Children[i]; c.count(not(isReady)) > 0 || s.has(i) != c.Exists {
			return false
		}
	}
	return true
}

// countWrites lets a kind world come to rest, and counts what is written to each child.
func (k *walker) countWrites(s state) string {
	kind := kindnesses()[1]
	var writes [maxChildren]int
	for range mostKindSteps {
		x := k.w.decide(&s, &s)
		what, next, _ := kind.next(k.w, &s)
		if what == "" {
			break
		}
		if strings.HasPrefix(what, "pass") {
			for _, wr := range x.writes {
				writes[wr.child]++
			}
		}
		s = next
	}
	for i, n := range writes {
		if n > 1 {
			return fmt.Sprintf("%s is written %d times", subsetName(i), n)
		}
	}
	return ""
}
