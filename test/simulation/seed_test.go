// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"strconv"
	"testing"
)

// firstSeed is the first seed of the random worlds of make test, so that the same code always gets the same result; make
// fuzz plays others.
const firstSeed = 20261120

// worldsFrom lets the next rapid.Check begin with the worlds of a round, unless -rapid.seed is set; 0 there means the
// time.
func worldsFrom(t *testing.T, round int) {
	t.Helper()
	if seedChosen() {
		return
	}
	if err := flag.Set("rapid.seed", strconv.Itoa(firstSeed+round)); err != nil {
		t.Fatal(err)
	}
}

// chosen records whether the command line has the flag, because flag.Set counts as a visit too.
var chosen *bool

func seedChosen() bool {
	if chosen == nil {
		found := false
		flag.Visit(func(f *flag.Flag) { found = found || f.Name == "rapid.seed" })
		chosen = &found
	}
	return *chosen
}
