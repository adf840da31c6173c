// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func TestRecordedPartition(t *testing.T) {
	noted := func(text string) *childBuilder {
		b := aChild().partition(3)
		b.Meta.Annotations[v1alpha1.AnnotationPartition] = text
		return b
	}
	for _, tc := range []struct {
		name  string
		child *childBuilder
		want  int32
	}{
		{"nothing is on record", aChild().partition(3), 3},
		{"as it is", noted("3"), 3},
		{"somebody changed it", noted("1"), 1},
		{"everything is held", noted("2147483647"), 2147483647},
		{"unreadable", noted("x"), 3},
		{"negative", noted("-1"), 3},
		{"too large", noted("2147483648"), 3},
	} {
		if got := RecordedPartition(tc.child.observed()); got != tc.want {
			t.Errorf("%s: want %d, have %d", tc.name, tc.want, got)
		}
	}
}

// Whoever may edit a child can write anything into its annotations. The copy in the status of the parent is small nevertheless, and
// does not change again by itself.
func TestCopyIsSmall(t *testing.T) {
	b := aChild().recorded(2, "h1", 2)
	ours := Record(b.observed(), nil)
	for key := range b.Meta.Annotations {
		b.Meta.Annotations[key] = strings.Repeat("日<", 50_000)
	}
	o := b.observed()
	o.SpecObserved, o.UpdateHash = true, strings.Repeat("h", 1<<20)
	cut := Record(o, nil)
	for _, v := range append(slices.Collect(maps.Values(cut.Annotations)), cut.Hash) {
		if len(v) > 64 || !utf8.ValidString(v) {
			t.Errorf("%.100q", v)
		}
	}
	if !unaltered(cut) || Record(o, cut) != cut {
		t.Error("it changes again")
	}
	if len(ours.Annotations) == 0 || ours.Annotations[v1alpha1.AnnotationRevision] != RevisionOf(aChild().recorded(2, "h1", 2).observed()) {
		t.Error("ours is cut", ours)
	}
}

// A write records the child's own protected revision, and below which position its template was never released.
func TestRecord(t *testing.T) {
	staged := func(members ...string) *childBuilder { // r2, with r1 protected
		return aChild().on("r2").recorded(2, "h1", 2).hashes("h1", "h2").members(members...)
	}
	third := func(members ...string) *childBuilder { // r3, held, after r2 was released completely
		return aChild().on("r3").recorded(2147483647, "h1", 0).releasedBefore(2147483647, 0).hashes("h1", "h3").members(members...)
	}
	for _, tc := range []struct {
		name  string
		goal  *goalBuilder
		child *childBuilder
		hash  string
		// released is the recorded text of what was released.
		released string
	}{
		{"a new child knows nothing", aGoal(), nil, "", "0"},
		{"staged", aGoal(), aChild().members("0 h1", "1 h1", "2 h1", "3 h1"), "h1", "3"},
		{"staged, all held", aGoal().partition(2147483647), aChild().members("0 h1"), "h1", "2147483647"},
		{"staged, nothing held", aGoal().partition(0), aChild().members("0 h1"), "h1", "0"},
		{"staged, and one runs what is not known", aGoal(), aChild().members("0 h1", "1 h9", "2 h1", "3 h9"), "h1", "1"},
		{"staged, and one has not told what it runs", aGoal(), aChild().members("0", "1 h1"), "h1", "0"},
		{"staged, and it makes the same pods", aGoal().samePods(), aChild().members("0 h1"), "h1", "3"},
		{"staged after a seed", aGoal(), seeded(3, "0 h1", "1 h1", "2 h1"), "h1", "3"},
		{"seeded anew", aGoal().after("r1", "2"), nil, "", "2"},
		{"seeded anew, and another was protected before", aGoal().after("r0", "2"), nil, "", "0"},
		{"seeded anew, and it is not known from where", aGoal().after("r1", ""), nil, "", "0"},
		{"created anew with nothing to tell apart", aGoal().samePods().after("r1", "2"), nil, "", "0"},
		{"staged after a seed around pods, of which one had come up on the second unreleased", aGoal(),
			seeded(3, "0 h1", "1 h2", "2 h1").recorded(3, "", 2), "h1", "3"},
		{"staged after a seed around pods, of which one was released", aGoal(), seeded(3, "0 h1", "1 h1", "2 h2").recorded(3, "", 2), "h1", "2"},
		{"staged after a seed around pods of which nothing is known", aGoal(), seeded(3, "0 h1", "1 h2", "2 h1"), "h1", "1"},
		{"at rest", aGoal(), staged(), "h1", "2"},
		{"released", aGoal().partition(1), staged(), "h1", "1"},
		{"raised", aGoal().partition(4), staged(), "h1", "2"},
		{"a third revision", aGoal().update("r3").partition(4), staged("0 h1", "1 h1", "2 h2", "3 h2"), "h1", "2"},
		{"a third revision, and one had come up on the second unreleased", aGoal().update("r3").partition(4), staged("0 h1", "1 h2", "2 h1", "3 h1"), "h1", "4/2"},
		{"a third revision, before the second was seen", aGoal().update("r3").partition(4), staged("0 h1", "1 h2", "2 h1", "3 h1").replicas(0).unseen(), "h1", "4"},
		{"back to the first, and one had come up on the second unreleased", aGoal().update("r1").partition(4), staged("0 h1", "1 h2", "2 h1", "3 h2"), "h1", "3"},
		{"a third revision that makes the pods of the second", aGoal().update("r3").partition(4).sameTemplate(), staged("0 h1", "1 h1", "2 h1", "3 h2"), "h1", "2"},
		{"a third revision, and one runs what is not known", aGoal().update("r3").partition(4), staged("0 h1", "1 h1", "2 h9", "3 h2"), "h1", "2"},
		{"a third revision, and what it remembers is not what is on record", aGoal().update("r3").partition(0),
			staged("0 h1", "1 h1", "2 h2", "3 h2").hashes("h5", "h2"), "h1", "0"},
		{"back to the first", aGoal().update("r1").samePods(), staged("0 h1", "3 h2"), "h1", "3"},
		{"after the end, another", protecting(aGoal().update("r3"), "r2"), staged("0 h2", "1 h2").recorded(0, "h1", 0).hashes("h2", "h2"), "h2", "3"},
		{"after the end, the same", protecting(aGoal(), "r2"), staged("0 h2", "1 h2").recorded(0, "h1", 0).hashes("h2", "h2"), "h2", "0"},
		{"of an earlier version of United", aGoal(), aChild().on("r2").hashes("h1", "h2"), "h1", "0"},
		{"of an earlier version, not seen", aGoal(), aChild().on("r2").hashes("h1", "h2").unseen(), "", "0"},
		{"the protected one changes, and its hash is not known", protecting(aGoal().update("r2"), "r0"), staged(), "", "2"},
		{"nothing is protected yet", aGoal().uninitialized(), aChild().on("r2").protecting(""), "", "0"},
		{"goes back from 0", aGoal(), aChild().on("r2").replicas(0).recorded(2, "h1", 2).hashes("h2", "h2"), "h1", "3"},
		{"a third revision, and what was released to the second is not seen to have moved yet", aGoal().update("r3").partition(2147483647),
			staged("0 h1", "1 h1", "2 h1", "3 h1").recorded(0, "h1", 0), "h1", "2147483647/0"},
		{"a fourth, and that is not seen yet", aGoal().update("r4").partition(2147483647), third("0 h1", "1 h1", "2 h1", "3 h1"), "h1", "2147483647/0"},
		{"a fourth, and that is seen", aGoal().update("r4").partition(2147483647), third("0 h1", "1 h2", "2 h2", "3 h2"), "h1", "1/0"},
		{"a fourth, and one had come up on the third unreleased", aGoal().update("r4").partition(2147483647),
			third("0 h1", "1 h3", "2 h1", "3 h1"), "h1", "2147483647/0"},
		{"the third is released as well", aGoal().update("r3").partition(2), third("0 h1", "1 h1", "2 h1", "3 h2"), "h1", "2/0"},
		{"back to the first, and one had come up on the third unreleased beside one that was released to the second", aGoal().update("r1").partition(4),
			third("0 h3", "1 h1", "2 h1", "3 h2"), "h1", "3"},
		{"back to the first, partly released, and one of the second is missing", aGoal().update("r1").samePods().partition(3),
			staged("0 h1", "1 h1", "2 h1"), "h1", "2147483647"},
		{"the same, and it is held", aGoal().update("r1").samePods().partition(4),
			aChild().recorded(3, "h1", 2147483647).members("0 h1", "1 h1", "2 h1"), "h1", "2147483647"},
		{"the same, and that one has come up on the second before it is held", aGoal().update("r1").samePods().partition(4),
			aChild().recorded(3, "h1", 2147483647).members("0 h1", "1 h1", "2 h1", "3 h2"), "h1", "3"},
		{"the same, and one below it has, too", aGoal().update("r1").samePods().partition(4),
			aChild().recorded(3, "h1", 2147483647).members("0 h1", "1 h1", "2 h2", "3 h2"), "h1", "3"},
		{"on from there", aGoal().update("r3").partition(4), third("0 h3", "1 h1", "2 h1", "3 h2").on("r1").hashes("h1", "h1").recorded(4, "h1", 3), "h1", "3"},
		{"a second, of a child that was never released, in a moment in which its status is behind", aGoal().partition(4),
			aChild().recorded(4, "h1", 0).members("0 h1", "1 h1", "2 h1").outdated(), "h1", "4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var child *adapters.Observed
			if tc.child != nil {
				child = tc.child.observed()
			}
			s := nextStep(tc.goal.Goal, child)
			if s.Child.Name == "" {
				t.Fatal("nothing is written:", asText(s), s.Reason)
			}
			released := adapters.ReleasedText(s.Child.ReleasedFrom, s.Child.ReleasedBefore)
			if s.Child.ProtectedHash != tc.hash || released != tc.released {
				t.Errorf("%s: want %q from %s, have %q from %s", asText(s), tc.hash, tc.released, s.Child.ProtectedHash, released)
			}
		})
	}
}
