// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"math"
	"testing"

	"github.com/unitedworkloads/united/controllers/united/known"

	"github.com/unitedworkloads/united/adapters"
)

// whole returns a child that has one template: finished on r1, unless edits change that.
func whole(edit ...func(*childBuilder)) *adapters.Observed {
	b := aChild()
	b.Traits = adapters.Traits{Partition: adapters.AllOrNothing, Protection: adapters.Withheld}
	for _, e := range edit {
		e(b)
	}
	return &b.Observed
}

// TestWithheld: r1 is protected, r2 is the update revision, and the child may be a mix with r3.
func TestWithheld(t *testing.T) {
	moving := func(b *childBuilder) { b.on("r2").hashes("", "h2").desires(1, 3) }
	// Its controller had not started with r2 when it was paused.
	stopped := func(members ...string) func(b *childBuilder) {
		return func(b *childBuilder) {
			b.on("r2").hashes("", "").recorded(0, "h1", 0).desires(0, int32(len(members))).members(members...)
			b.Paused = true
		}
	}
	third := func(b *childBuilder) { b.on("r3").hashes("", "h3").desires(1, 3) }
	// Its controller has given up what it had, and has asked for nothing else yet.
	givenUp := func(members ...string) func(b *childBuilder) {
		return func(b *childBuilder) { moving(b); b.desires(0, 0).members(members...) }
	}
	frozen := func(held bool) func(*Goal) {
		return func(g *Goal) { g.Held, g.Frozen = held, true }
	}
	for _, tc := range []struct {
		name  string
		child *adapters.Observed
		edit  func(*Goal)
		want  string
	}{
		{"none, held", nil, nil, "Create r1"},
		{"none, held at 0 replicas", nil, func(g *Goal) { g.Child.Replicas, g.Child.Partition = 0, 0 }, "Create r1"},
		{"none, released", nil, func(g *Goal) { g.Child.Partition, g.Held = 0, false }, "Create r2"},
		{"none, and what is protected is lost", nil, func(g *Goal) { g.Protected = nil }, "Halt "},
		{"none, nothing was ever ready", nil, func(g *Goal) { g.Initialized = false }, "Create r2"},
		{"held", whole(), nil, "Apply r1"},
		{"held at 0 replicas", whole(func(b *childBuilder) { b.replicas(0) }), func(g *Goal) { g.Child.Replicas, g.Child.Partition = 0, 0 }, "Apply r1"},
		{"held whatever the scale", whole(), func(g *Goal) { g.Child.Partition = math.MaxInt32 }, "Apply r1"},
		{"released", whole(), func(g *Goal) { g.Child.Partition, g.Held = 0, false }, "Apply r2"},
		{"on its way", whole(moving), func(g *Goal) { g.Child.Partition, g.Held = 0, false }, "Apply r2"},
		{"on its way, and held", whole(moving), nil, "Apply r2 paused"},
		{"on its way, and frozen", whole(moving), func(g *Goal) { g.Child.Partition, g.Held, g.Frozen = 0, false, true }, "Apply r2 paused"},
		{"on its way to another, and held", whole(third), nil, "Apply r3 paused"},
		{"on its way to another, and released", whole(third), func(g *Goal) { g.Child.Partition, g.Held = 0, false }, "Apply r2"},
		{"on its way, held, and what it has is lost", whole(moving), func(g *Goal) { g.Has = nil }, "Halt "},
		{"on its way, held, and gone to 0", whole(moving, func(b *childBuilder) { b.replicas(0) }), nil, "Apply r1"},
		{"on its way back, and held", whole(func(b *childBuilder) { b.hashes("", "h1") }), nil, "Apply r1"},
		{"stopped before it began, and held", whole(stopped("0 h1", "1 h1")), nil, "Apply r1"},
		{"stopped before it began, and frozen", whole(stopped("0 h1", "1 h1")), func(g *Goal) { g.Child.Partition, g.Held, g.Frozen = 0, false, true }, "Apply r2 paused"},
		{"stopped before it began, of a mix, and held", whole(stopped("0 h1", "1 h0")), nil, "Apply r2 paused"},
		{"paused without replicas, and held", whole(stopped()), nil, "Apply r1"},
		{"paused without replicas, and frozen", whole(stopped()), func(g *Goal) { g.Child.Partition, g.Held, g.Frozen = 0, false, true }, "Apply r2"},
		{"all given up, and held", whole(givenUp()), nil, "Apply r1"},
		{"all given up, some still there, and held", whole(givenUp("0 h1 terminating", "1 h1")), nil, "Apply r1"},
		{"all given up, and held while it is frozen", whole(givenUp()), frozen(true), "Apply r1"},
		{"all given up, and only frozen", whole(givenUp()), frozen(false), "Apply r2 paused"},
		{"all given up, held, and the protected revision is lost", whole(givenUp()), func(g *Goal) { g.Protected = nil }, "Halt "},
		{"all given up, paused a moment ago, and held", whole(givenUp(), func(b *childBuilder) { b.Paused = true; b.unseen() }), nil, "Apply r1"},
		{"only updated ones are asked for, and held", whole(givenUp(), func(b *childBuilder) { b.desires(1, 0) }), nil, "Apply r2 paused"},
		{"only others are asked for, and held", whole(givenUp(), func(b *childBuilder) { b.desires(0, 1) }), nil, "Apply r2 paused"},
		{"finished, and frozen", whole(), func(g *Goal) { g.Frozen = true }, "Apply r1"},
		{"being deleted", whole(func(b *childBuilder) { b.deleted() }), nil, "Wait "},
		{"written later", whole(func(b *childBuilder) { b.writtenFrom(9) }), nil, "Wait "},
		{"what it runs is not known", whole(func(b *childBuilder) { b.on("") }), nil, "Halt "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := Goal{
				Child:  adapters.Child{Name: "web-zone-a", Parent: "web", Subset: "zone-a", Replicas: 4, Partition: 4, ParentGeneration: 2},
				Update: Version{Revision: "r2"}, Facts: known.Facts{ProtectedRevision: "r1"}, Protected: &Version{Revision: "r1"},
				Initialized: true, Held: true, Protection: adapters.Withheld,
			}
			if tc.child != nil {
				g.Has = &Version{Revision: RevisionOf(tc.child)}
			}
			if tc.edit != nil {
				tc.edit(&g)
			}
			s := nextStep(g, tc.child)
			got := fmt.Sprintf("%s %s", s.Action, s.Child.Revision)
			if s.Child.Paused {
				got += " paused"
			}
			if got != tc.want {
				t.Errorf("want %q, have %q: %s", tc.want, got, s.Reason)
			}
			if s.Child.ReleasedFrom != 0 || s.Child.Seeding {
				t.Error("there is nothing to remember:", s.Child)
			}
		})
	}
}
