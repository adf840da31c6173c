// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

// How much of each world is walked through:
//
//	go test ./test/deploymentworlds -run TestWorlds -v
//	    what make test-full walks through; it prints the number of states
//	-short
//	    a quarter of that, as make test does
//	-worlds-large -timeout 0
//	    many more states (make test-nightly)
//	-worlds 5000
//	    that many states of each world
//
// One violation of each kind is reported, with a shortest way to it; see Show of a package for the format of a state.
var (
	large  = flag.Bool("worlds-large", false, "look at many more states of each world")
	states = flag.Int("worlds", 0, "how many states of each world are looked at")
)

// States returns how many states of a world to look at: usually that many, or as the flags say.
func States(usually, atLarge int) int {
	switch {
	case *large:
		return atLarge
	case *states > 0:
		return *states
	case testing.Short():
		return usually / 4
	}
	return usually
}

// Run walks through a world, up to a number of states, and fails the test for each violation, with a shortest way to
// it, and for each exception that no longer occurs; with -short, or if the time was up, it may occur only later.
func Run[S comparable](t *testing.T, g Game[S], most int) {
	t.Helper()
	k, w := Walk(g, most), g.Base()
	k.report(t)
	for _, exception := range w.Meets {
		if w.Excepted[exception] == 0 && !testing.Short() && !k.cut {
			t.Errorf("it is no exception any more: %s", exception)
		}
	}
}

// report fails the test for each violation.
func (k *Walker[S]) report(t *testing.T) {
	t.Helper()
	t.Log(k.Told())
	for _, f := range k.Found() {
		t.Errorf("%s: %s (%d times)\n%s", f.Rule, f.What, f.Count, f.Story)
	}
}

// convict walks through the world of a wrong controller until each of its rules is violated, and fails the test for each that the
// walk does not find violated.
func convict[S comparable](t *testing.T, g Game[S], most int, rules []string) {
	t.Helper()
	k := newWalker(g)
	// A violation on the way to an end is reported as part of the bad end.
	isMissing := func(rule string) bool {
		return !slices.ContainsFunc(k.Found(), func(f *Finding) bool { return f.Rule == rule || strings.Contains(f.What, "{"+rule+" ") })
	}
	for ; slices.ContainsFunc(rules, isMissing) && k.visited < min(most, len(k.nodes)); k.visited++ {
		k.visit(k.visited)
	}
	for _, rule := range rules {
		if isMissing(rule) {
			t.Errorf("it is not convicted of %s (%s), but of %v", rule, k.Told(), k.order)
		}
	}
}
