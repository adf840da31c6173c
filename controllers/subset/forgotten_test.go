// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
)

func TestForgot(t *testing.T) {
	for _, tc := range []struct {
		name  string
		child *childBuilder
		want  bool
	}{
		{"it has", forgetful(), true},
		{"it has, and made its replicas anew", forgetful("0 h2", "1 h2", "2 h2", "3 h2"), true},
		{"it has, and has none now", forgetful("9 h2"), true},
		{"it has not", forgetful().hashes("h1", "h2"), false},
		{"not known, since its controller has not looked", forgetful().unseen(), false},
		{"new", forgetful().hashes("", ""), false},
		{"without replicas it forgets, and is seeded", forgetful().replicas(0), false},
		{"it has what it protects", forgetful().on("r1"), false},
		{"it protects nothing yet", forgetful().protecting(""), false},
		{"nothing is on record", forgetful().recorded(3, "", 3), false},
		{"both make the same pods", forgetful().recorded(3, "h2", 3), false},
		{"it remembers something else than is on record", forgetful().hashes("h5", "h2"), true},
		{"the same, and protects nothing yet", forgetful().protecting("").hashes("h5", "h2"), false},
		{"it has the template that it protects, and remembers another", forgetful().on("r1").hashes("h2", "h1"), true},
		{"it has the template that it protects", relearning(), false},
		{"it has finished", forgetful("0 h2", "1 h2", "2 h2", "3 h2").recorded(0, "h1", 0), false},
		{"it may have finished, and is held since", forgetful("0 h2", "1 h2", "2 h2", "3 h2").recorded(3, "h1", 0), false},
		{"it cannot have finished, one is of before", forgetful("0 h1", "1 h2", "2 h2", "3 h2").recorded(0, "h1", 0), true},
		{"one that is surplus says nothing", forgetful("0 h2", "1 h2", "2 h2", "3 h2", "4 h1").recorded(0, "h1", 0), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Forgot(tc.child.observed()); got != tc.want {
				t.Error(got)
			}
		})
	}
}

// relearning returns a child whose replicas all run h2, most of them unreleased, and that was returned to the template
// of its protected revision.
func relearning(members ...string) *childBuilder {
	if len(members) == 0 {
		members = []string{"0 h2", "1 h2", "2 h2", "3 h2"}
	}
	return forgetful(members...).on("r1").hashes("h1", "h1").partition(4).recorded(4, "h1", 3)
}

// A child that has forgotten looks as if it had finished: that must not lead to conclusions.
func TestForgottenIsNotFinished(t *testing.T) {
	for _, known := range []string{"", "r1"} {
		if got := Protected(forgetful().observed(), known, 9); got != "r1" {
			t.Errorf("status says %q: %s", known, got)
		}
	}
	if got := Protected(forgetful("0 h2", "1 h2", "2 h2", "3 h2").recorded(0, "h1", 0).observed(), "r1", 9); got != "r2" {
		t.Error("it has finished, and is said to protect", got)
	}
}

func names(list []adapters.Replica) string {
	var text []string
	for _, r := range list {
		text = append(text, strings.TrimPrefix(r.Name, "web-zone-a-"))
	}
	return strings.Join(text, " ")
}

func TestUnreleased(t *testing.T) {
	reminded := func(members ...string) *childBuilder { return forgetful(members...).hashes("h1", "h2") }
	for _, tc := range []struct {
		name  string
		child *childBuilder
		want  string
		// undo is the one that is deleted first.
		undo string
	}{
		{"none", reminded(), "", ""},
		{"one", reminded("0 h1", "1 h2", "2 h1", "3 h2"), "1", "1"},
		{"two, the highest goes first", reminded("0 h2", "1 h2", "2 h1", "3 h2"), "0 1", "1"},
		{"two, one of them is not ready", reminded("0 h2 unready", "1 h2", "2 h1", "3 h2"), "0 1", "0"},
		{"two, both are not ready: one at a time", reminded("0 h2 unready", "1 h2 unready", "2 h1", "3 h2"), "0 1", "0"},
		{"another is not ready", reminded("0 h1 unready", "1 h2", "2 h1", "3 h2"), "1", ""},
		{"another is not ready, nor is it", reminded("0 h1 unready", "1 h2 unready", "2 h1", "3 h2"), "1", "1"},
		{"in order, a lower one is not ready", reminded("0 h1 unready", "1 h2 unready", "2 h1", "3 h2").ordered(), "1", ""},
		{"in order, the lowest is not ready", reminded("0 h2 unready", "1 h2", "2 h1", "3 h2").ordered(), "0 1", "0"},
		{"another is missing", reminded("0 h1", "1 h2", "3 h2"), "1", ""},
		{"another is on its way", reminded("0 h2 terminating", "1 h2", "2 h1", "3 h2"), "1", ""},
		{"somebody has changed the label of a protected one", reminded("0 h1", "1 h2 relabelled", "2 h1", "3 h2"), "", ""},
		{"somebody has changed it, and another is unreleased", reminded("0 h2", "1 h9 relabelled", "2 h1", "3 h2"), "0", "0"},
		{"released ones are where they belong", reminded("0 h1", "1 h1", "2 h1", "3 h2"), "", ""},
		{"what ran it before stays", reminded("0 h1", "1 h2", "2 h2", "3 h2").recorded(3, "h1", 1), "", ""},
		{"released since", reminded("0 h1", "1 h2", "2 h1", "3 h2").recorded(1, "h1", 1), "", ""},
		{"on what was before the template, and not released then either", reminded("0 h9", "1 h1", "2 h1", "3 h2"), "0", "0"},
		{"on that, and the template is the protected one again", reminded("0 h9", "1 h1", "2 h1", "3 h1").on("r1").hashes("h1", "h1"), "0", "0"},
		{"released to what was before the template", reminded("0 h1", "1 h9", "2 h1", "3 h2").recorded(3, "h1", 1), "", ""},
		{"released to what was before the template, which was not seen then", reminded("0 h1", "1 h9", "2 h9", "3 h2").releasedBefore(3, 1), "", ""},
		{"never released to what was before the template", reminded("0 h9", "1 h9", "2 h1", "3 h2").releasedBefore(3, 1), "0", "0"},
		{"on the template, which only earlier ones were released to", reminded("0 h1", "1 h2", "2 h9", "3 h2").releasedBefore(3, 1), "1", "1"},
		{"surplus", reminded("0 h1", "1 h2").replicas(1), "", ""},
		{"somebody has lowered the partition: put back first", reminded("0 h1", "1 h2", "2 h1", "3 h2").partition(0), "", ""},
		{"not seen", reminded("0 h1", "1 h2", "2 h1", "3 h2").unseen(), "", ""},
		{"nothing is on record", reminded("0 h1", "1 h2", "2 h1", "3 h2").recorded(3, "", 3), "", ""},
		{"it remembers something else", reminded("0 h1", "1 h2", "2 h1", "3 h2").hashes("h7", "h2"), "", ""},
		{"it has forgotten: they would come back as they are", forgetful("0 h1", "1 h2", "2 h1", "3 h2"), "", ""},
		{"it has forgotten, and would again", forgetful("0 h2", "1 h2", "2 h2", "3 h2"), "", ""},
		{"it relearns what it protects", relearning(), "0 1 2", "2"},
		{"it relearns, the only one", relearning("0 h2").replicas(1), "0", "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := names(Unreleased(tc.child.observed())); got != tc.want {
				t.Errorf("want %q, have %q", tc.want, got)
			}
			if got := names(DeletableUnreleased(tc.child.observed(), epoch().Add(time.Hour))); got != tc.undo {
				t.Errorf("first: want %q, have %q", tc.undo, got)
			}
		})
	}
}

// It is not known what a replica runs if somebody has changed the label for that. It is reported if the replica would
// count as unreleased, and otherwise not.
func TestRelabelled(t *testing.T) {
	reminded := func(members ...string) *childBuilder { return forgetful(members...).hashes("h1", "h2") }
	counted := func(members ...string) *childBuilder {
		return aChild().byCount().on("r3").protecting("r1").hashes("h1", "h3").recorded(2, "h1", 2).members(members...)
	}
	for _, tc := range []struct {
		name  string
		child *childBuilder
		want  string
	}{
		{"a protected one, to the template", reminded("0 h1", "1 h2 relabelled", "2 h1", "3 h2"), "1"},
		{"a protected one, to something else", reminded("0 h1", "1 h9 relabelled", "2 h1", "3 h2"), "1"},
		{"a protected one, back to what it was", reminded("0 h1", "1 h1 relabelled", "2 h1", "3 h2"), ""},
		{"a released one", reminded("0 h1", "1 h1", "2 h1", "3 h9 relabelled"), ""},
		{"nobody has changed it", reminded("0 h1", "1 h2", "2 h1", "3 h2"), ""},
		{"by count", counted("0 h1", "1 h3 relabelled", "2 h3", "3 h3"), "1"},
		{"by count, back to what it was", counted("0 h1", "1 h1 relabelled", "2 h3", "3 h3"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := names(Relabelled(tc.child.observed())); got != tc.want {
				t.Errorf("want %q, have %q", tc.want, got)
			}
			// Nor does it count as a sign that the child has forgotten, or as a released replica.
			o := tc.child.observed()
			goal := aGoal().partition(o.Partition)
			c := goal.child(versionOf("r3"))
			goal.Facts = FactsOf(o)
			goal.ProtectedRevision = "r1"
			goal.record(&c, o)
			if c.ReleasedFrom < releasedFrom(o) {
				t.Errorf("released from %d on, and it was from %d on", c.ReleasedFrom, releasedFrom(o))
			}
		})
	}
	finished := aChild().on("r2").hashes("h2", "h2").recorded(0, "h1", 0).members("0 h2", "1 h9 relabelled", "2 h2", "3 h2")
	if Forgot(finished.observed()) {
		t.Error("it is taken for one that has forgotten")
	}
	if !Forgot(aChild().on("r2").hashes("h2", "h2").recorded(0, "h1", 0).members("0 h2", "1 h9", "2 h2", "3 h2").observed()) {
		t.Error("the scene shows nothing: a label that nobody has changed tells")
	}
}

func TestHeededBy(t *testing.T) {
	now := epoch()
	entry := func(manager, subresource string, ago time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: ptr.To(metav1.NewTime(now.Add(-ago)))}
	}
	for _, tc := range []struct {
		name    string
		managed []metav1.ManagedFieldsEntry
		in      time.Duration
	}{
		{"never reminded", nil, 0},
		{"just now", []metav1.ManagedFieldsEntry{entry("united", "status", 0)}, 3 * time.Second},
		{"a second ago, after another one", []metav1.ManagedFieldsEntry{entry("united", "status", time.Hour), entry("united", "status", time.Second)}, 2 * time.Second},
		{"three seconds ago", []metav1.ManagedFieldsEntry{entry("united", "status", 3*time.Second)}, 0},
		{"by a clock that is a second ahead", []metav1.ManagedFieldsEntry{entry("united", "status", -time.Second)}, 4 * time.Second},
		{"by a clock that is far ahead", []metav1.ManagedFieldsEntry{entry("united", "status", -time.Hour)}, 0},
		{"written, not reminded", []metav1.ManagedFieldsEntry{entry("united", "", 0)}, 0},
		{"by its controller", []metav1.ManagedFieldsEntry{entry("kube-controller-manager", "status", 0)}, 0},
		{"without a time", []metav1.ManagedFieldsEntry{{Manager: "united", Subresource: "status"}}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := time.Time{}
			if tc.in > 0 {
				want = now.Add(tc.in)
			}
			if got := ReminderSeenBy(tc.managed, now); !got.Equal(want) {
				t.Error(got)
			}
		})
	}
}

// A replica that is ready but not available yet may be deleted like one that is not ready.
func TestUndoCountsAvailability(t *testing.T) {
	child := forgetful("0 h1", "1 h2", "2 h1", "3 h2").hashes("h1", "h2").observed()
	child.MinReadySeconds = 60
	for after, want := range map[time.Duration]string{time.Second: "", 2 * time.Minute: "1"} {
		child.Pods[1].ReadySince = epoch().Add(-time.Hour)
		if got := names(DeletableUnreleased(child, epoch().Add(after))); got != want {
			t.Errorf("after %s: want %q, have %q", after, want, got)
		}
	}
}
