// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"strconv"
	"testing"
)

// firstSeed is where the random worlds of make test begin, so that the same code
// gets the same answer every time; make fuzz plays others.
const firstSeed = 20261120

// worldsFrom lets the next rapid.Check begin with the worlds of a round, unless
// -rapid.seed says where; 0 there is the time.
func worldsFrom(t *testing.T, round int) {
	t.Helper()
	if seedChosen() {
		return
	}
	if err := flag.Set("rapid.seed", strconv.Itoa(firstSeed+round)); err != nil {
		t.Fatal(err)
	}
}

// chosen remembers what the command line said: flag.Set counts as a visit too.
var chosen *bool

func seedChosen() bool {
	if chosen == nil {
		found := false
		flag.Visit(func(f *flag.Flag) { found = found || f.Name == "rapid.seed" })
		chosen = &found
	}
	return *chosen
}
