// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"slices"
	"strings"
	"testing"
)

// Run walks through a world, up to a number of states, and fails the test for each violation, with a shortest way to
// it, and for each exception that no longer occurs.
func Run[S comparable](t *testing.T, g Game[S], most int) {
	t.Helper()
	k, w := Walk(g, most), g.Base()
	t.Log(k.Told())
	for _, f := range k.Found() {
		t.Errorf("%s: %s (%d times)\n%s", f.Rule, f.What, f.Count, f.Story)
	}
	for _, exception := range w.Meets {
		if w.Excepted[exception] == 0 {
			t.Errorf("it is no exception any more: %s", exception)
		}
	}
}

// Convict walks through the world of a wrong controller, and fails the test for each rule that the walk does not find
// violated.
func Convict[S comparable](t *testing.T, g Game[S], most int, rules []string) {
	t.Helper()
	k := Walk(g, most)
	for _, rule := range rules {
		// A violation on the way to an end is reported as part of the bad end.
		if !slices.ContainsFunc(k.Found(), func(f *Finding) bool { return f.Rule == rule || strings.Contains(f.What, "{"+rule+" ") }) {
			t.Errorf("it is not convicted of %s (%s), but of %v", rule, k.Told(), k.order)
		}
	}
}
