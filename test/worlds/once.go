// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"strings"
)

// onceIsEnough: at rest under Manual an edit of the partitions costs each child one write (design.md, section 5).
// This is checked in a world without faults.
func (k *Walker[S]) onceIsEnough(n int, s *S) {
	w, core := k.w, k.Core(s)
	if w.Bad != 0 || w.Rolling(core) || core.Paused || !w.Initialized(core) || !k.rests(s) {
		return
	}
	for v := range w.Strategies {
		if uint8(v) == core.Strategy {
			continue
		}
		edited := *s
		after := k.Core(&edited)
		after.Strategy, after.Race, after.Budget = uint8(v), true, Budget{}
		after.Generation++
		k.Tidy(&edited)
		if w.Rolling(after) {
			continue
		}
		if wrong := k.countWrites(edited); wrong != "" {
			k.record(n, Breach{"one write", fmt.Sprintf("%q to %q: %s", w.Strategies[core.Strategy], w.Strategies[v], wrong)}, "")
		}
	}
}

// rests reports whether everything is done, and all replicas are ready.
func (k *walk[S]) rests(s *S) bool {
	after, x, _ := k.passWhole(s)
	if len(x.Does()) > 0 || k.Core(&after).Status != k.Core(s).Status || !k.settled(s) {
		return false
	}
	l := k.Look(s)
	return l.AllReady && l.Left == "" && l.Total == int(k.Core(s).Replicas)
}

// countWrites runs a world until it rests, and counts the writes of each child.
func (k *walk[S]) countWrites(s S) string {
	kind := k.kindnesses()[1]
	writes := map[int]int{}
	for range mostKindSteps {
		x := k.decide(&s, &s)
		what, next, _ := k.next(kind, &s)
		if what == "" {
			break
		}
		if strings.HasPrefix(what, "pass") {
			for _, wr := range x.Writes {
				writes[wr.Child]++
			}
		}
		s = next
	}
	for i, n := range writes {
		if n > 1 {
			return fmt.Sprintf("%s is written %d times", SubsetName(i), n)
		}
	}
	return ""
}
