// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"testing"

	"github.com/unitedworkloads/united/adapters"
)

// byCount changes the child to one whose controller counts replicas.
func (b *childBuilder) byCount() *childBuilder {
	b.Traits = adapters.Traits{Partition: adapters.ByCount, Protection: adapters.Remembered, Hasty: true, Paced: true}
	return b
}

// In a child that counts replicas, those on other revisions than the protected one that exceed the number of released
// ones have come up unreleased, whatever their positions are.
func TestUnreleasedByCount(t *testing.T) {
	// On r3 with 4 replicas, of which two were never released; they run h1.
	child := func() *childBuilder {
		return aChild().byCount().on("r3").protecting("r1").hashes("h1", "h3").recorded(2, "h1", 2)
	}
	for _, tc := range []struct {
		name  string
		child *childBuilder
		want  string
	}{
		{"as it should be", child().members("0 h1", "1 h1", "2 h3", "3 h3"), "[]"},
		{"one of a version between, which was released", child().members("0 h1", "1 h1", "2 h2", "3 h3").partition(3), "[]"},
		{"its controller has yet to take one", child().members("0 h2", "1 h1", "2 h2", "3 h3"), "[]"},
		{"it took a protected one, and left that between", child().members("0 h2", "1 h1", "2 h3", "3 h3"), "[0]"},
		{"a protected one came back updated", child().members("0 h1", "1 h3", "2 h3", "3 h3"), "[1]"},
		{"somebody has changed the label of a protected one", child().members("0 h1", "1 h3 relabelled", "2 h3", "3 h3"), "[]"},
		{"one is missing", child().members("0 h1", "2 h3", "3 h3"), "[]"},
		{"all of them", child().members("0 h3", "1 h3", "2 h3", "3 h3"), "[0 1]"},
		{"of a version between, which was not seen to be released", child().members("0 h2", "1 h2", "2 h2", "3 h2").releasedBefore(2, 0).partition(4), "[]"},
		{"a protected one came back updated beside those", child().members("0 h1", "1 h2", "2 h2", "3 h3").releasedBefore(4, 2).partition(4), "[1]"},
		{"by ordinal the version between is in the way", child().byOrdinal().members("0 h1", "1 h2", "2 h3", "3 h3"), "[1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			positions := []int32{}
			for _, r := range Unreleased(&tc.child.Observed) {
				positions = append(positions, r.Position)
			}
			if got := fmt.Sprint(positions); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func (b *childBuilder) byOrdinal() *childBuilder {
	b.Traits = adapters.Traits{Partition: adapters.ByOrdinal, Protection: adapters.Remembered}
	return b
}

// The template of a child that counts replicas decides how many available ones are updated at a time.
func TestStuckByCount(t *testing.T) {
	barred := func() *childBuilder {
		return aChild().on("r2").partition(1).hashes("h1", "h2").members("0 h1 unready", "1 h1", "2 h1", "3 h2")
	}
	if stuck := stuckOf(&barred().byCount().Observed); len(stuck) != 0 {
		t.Errorf("deletes %v", stuck)
	}
	if stuck := stuckOf(&barred().byOrdinal().Observed); len(stuck) != 1 {
		t.Errorf("the control deletes %v", stuck)
	}
	failed := aChild().byCount().on("r2").partition(1).hashes("h1", "h2").members("0 h1", "1 h1", "2 h1 failed", "3 h2")
	if stuck := stuckOf(&failed.Observed); len(stuck) != 1 || stuck[0].Position != 2 {
		t.Errorf("of a broken one that is released it deletes %v", stuck)
	}
}

// A hasty child may settle on a revision that was never ready: it has not finished until it is.
func TestProtectedOfAHastyChild(t *testing.T) {
	settled := func() *childBuilder {
		return aChild().on("r2").protecting("r1").hashes("h2", "h2").recorded(0, "h1", 0)
	}
	for _, tc := range []struct {
		name, known string
		child       *childBuilder
		want        string
	}{
		{"none is ready", "r1", settled().byCount().members("0 h2 new", "1 h2 new", "2 h2 new", "3 h2 new"), "r1"},
		{"not all are ready", "r1", settled().byCount().members("0 h2", "1 h2", "2 h2", "3 h2 new"), "r1"},
		{"all are ready", "r1", settled().byCount().members("0 h2", "1 h2", "2 h2", "3 h2"), "r2"},
		{"all were ready, as the status knows", "r2", settled().byCount().members("0 h2", "1 h2", "2 h2", "3 h2 unready"), "r2"},
		{"another waits by itself until all were ready", "r1", settled().byOrdinal().members("0 h2", "1 h2", "2 h2", "3 h2 unready"), "r2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Protected(&tc.child.Observed, tc.known, 1); got != tc.want {
				t.Errorf("protects %s, want %s", got, tc.want)
			}
		})
	}
}

// A hasty child forgets again as soon as all replicas are updated, ready or not: then it must relearn, because a
// reminder does not help.
func TestSettles(t *testing.T) {
	unready := func() *childBuilder {
		return aChild().on("r2").hashes("h2", "h2").members("0 h2", "1 h2", "2 h2", "3 h2 unready")
	}
	if !unready().byCount().Settles() || unready().byOrdinal().Settles() {
		t.Error("only a hasty child settles before all are ready")
	}
	if aChild().byCount().hashes("h2", "h2").members("0 h1", "1 h2", "2 h2", "3 h2").Settles() || aChild().byCount().hashes("h2", "h2").members("1 h2", "2 h2", "3 h2").Settles() {
		t.Error("it does not before all are updated")
	}
}
