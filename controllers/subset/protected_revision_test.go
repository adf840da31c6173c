// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import "testing"

func TestProtected(t *testing.T) {
	for _, tc := range []struct {
		name  string
		child *childBuilder
		known string
		want  string
	}{
		{"settled", aChild().on("r2").protecting("r1"), "r1", "r2"},
		{"settled, and nothing was noted", aChild().on("r2").protecting(""), "", "r2"},
		{"in mid-rollout", aChild().on("r2").protecting("r1").hashes("h1", "h2"), "r1", "r1"},
		{"in mid-rollout, and the status is lost", aChild().on("r2").protecting("r1").hashes("h1", "h2"), "", "r1"},
		{"in mid-rollout, and the status knows another", aChild().on("r2").protecting("r1").hashes("h1", "h2"), "r0", "r1"},
		{"finished, written again and not seen", aChild().on("r2").protecting("r1").unseen(), "r2", "r2"},
		{"finished, then a replica became unready", aChild().on("r2").protecting("r1").hashes("h1", "h2"), "r2", "r2"},
		{"written and not seen", aChild().on("r2").protecting("r1").unseen(), "r1", "r1"},
		{"goes back to what the status of an earlier generation knows", aChild().on("r1").protecting("r2").hashes("h2", "h1").writtenFrom(10), "r1", "r2"},
		{"in mid-rollout, and the status claims its end", aChild().on("r2").recorded(2, "h1", 2).hashes("h1", "h2"), "r2", "r1"},
		{"in mid-rollout and not seen, and the status claims its end", aChild().on("r2").recorded(2, "h1", 2).hashes("h1", "h2").unseen(), "r2", "r1"},
		{"staged and not seen, and the status is from before", aChild().on("r1").protecting("r2").recorded(2, "h2", 2).hashes("h2", "h2").unseen(), "r1", "r2"},
		{"all released, and the status is ahead", aChild().on("r2").recorded(0, "h1", 0).hashes("h1", "h2"), "r2", "r2"},
		{"settled, and no replica is known that its status counts", aChild().on("r2").protecting("r1").replicas(2).outdated(), "r1", "r1"},
		{"settled, and another is known than its status counts", aChild().on("r2").protecting("r1").replicas(2).members("0 h1", "1 h2").outdated(), "r1", "r1"},
		{"settled, and only its status lags", aChild().on("r2").protecting("r1").replicas(2).members("0 h1", "1 h1 unready").outdated(), "r1", "r2"},
		{"coming up for the first time", aChild().on("r1").protecting("").hashes("h0", "h1"), "", "r1"},
		{"new", aChild().on("r1").protecting("").unseen().hashes("", ""), "", "r1"},
		{"no replicas, and settled on what it had last", aChild().on("r2").protecting("r1").replicas(0), "", "r1"},
		{"no replicas, and it had finished when it had some, as the status says", aChild().on("r2").protecting("r1").replicas(0), "r2", "r2"},
		{"no replicas, and a status of an earlier generation", aChild().on("r2").protecting("r1").replicas(0).writtenFrom(10), "r2", "r1"},
		{"no replicas, and nothing was noted", aChild().on("r2").protecting("").replicas(0), "r1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Protected(tc.child.observed(), tc.known, 9); got != tc.want {
				t.Errorf("want %q, have %q", tc.want, got)
			}
		})
	}
}

func TestFirstRolloutPending(t *testing.T) {
	for _, tc := range []struct {
		name  string
		child *childBuilder
		want  bool
	}{
		{"new", aChild().protecting("").unseen().hashes("", ""), true},
		{"corrected", aChild().protecting("").hashes("h0", "h1"), true},
		{"written and not seen", aChild().protecting("").unseen(), true},
		{"settled", aChild().protecting(""), false},
		{"corrected without replicas", aChild().protecting("").replicas(0).hashes("h0", "h1"), true},
		{"protecting", aChild().hashes("h0", "h1"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := FirstRolloutPending(tc.child.observed()); got != tc.want {
				t.Error(got)
			}
		})
	}
}

func TestProtects(t *testing.T) {
	for _, tc := range []struct {
		name  string
		child *childBuilder
		want  bool
	}{
		{"another revision than it has", aChild().on("r2").protecting("r1"), true},
		{"the one it has", aChild().on("r1").protecting("r1"), false},
		{"nothing", aChild().protecting(""), false},
	} {
		if got := Protects(tc.child.observed()); got != tc.want {
			t.Error(tc.name, got)
		}
	}
}

func TestWrittenLater(t *testing.T) {
	for _, tc := range []struct {
		name  string
		child *childBuilder
		want  bool
	}{
		{"earlier", aChild().writtenFrom(4), false},
		{"as early", aChild().writtenFrom(5), false},
		{"later", aChild().writtenFrom(6), true},
		{"unknown", withAnnotation(aChild(), ""), false},
		{"unreadable", withAnnotation(aChild(), "6x"), false},
	} {
		if got := WrittenLater(tc.child.observed(), 5); got != tc.want {
			t.Error(tc.name, got)
		}
	}
}

func TestMissedProtectedRevision(t *testing.T) {
	for _, tc := range []struct {
		name    string
		child   *childBuilder
		known   string
		knownAt int64
		want    bool
	}{
		{"it missed what came up elsewhere", aChild(), "r2", 5, true},
		{"it missed that, and protects nothing", aChild().protecting(""), "r2", 5, true},
		{"it was written since", aChild().writtenFrom(5), "r2", 5, false},
		{"it has it", aChild().on("r2").protecting(""), "r2", 5, false},
		{"it protects it", aChild().on("r3").protecting("r2"), "r2", 5, false},
		{"it protects another than it has, so was written since", aChild().on("r3").protecting("r2"), "r9", 5, false},
		{"the status says nothing", aChild(), "", 5, false},
	} {
		if got := MissedProtectedRevision(tc.child.observed(), tc.known, tc.knownAt); got != tc.want {
			t.Error(tc.name, got)
		}
	}
}

func TestRevisionOf(t *testing.T) {
	if got := RevisionOf(aChild().on("r7").observed()); got != "r7" {
		t.Error(got)
	}
}
