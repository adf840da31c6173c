// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"strings"
	"testing"

	"github.com/unitedworkloads/united/adapters"
)

// releasedUnseen returns a child on r2 that was released from position 1 on, which its controller has not observed.
func releasedUnseen() *childBuilder { return aChild().on("r2").recorded(1, "h1", 1).unseen() }

// back returns a goal that goes back to the protected revision.
func back() *goalBuilder { return aGoal().update("r1").samePods().has("r2") }

// A write that protects more replicas is made at once, with the child's current template, even while it cannot get its
// next one.
func TestHoldFirst(t *testing.T) {
	for _, tc := range []struct {
		name       string
		goal       *goalBuilder
		child      *childBuilder
		want, says string
	}{
		{"back, and held", back().partition(4), releasedUnseen(), "Apply r2 x4 p4 protects r1", "protecting replicas of web-zone-a before it gets r1"},
		{"back, with the same partition", back().partition(1), releasedUnseen(), "Apply r2 x4 p4 protects r1", "protecting replicas"},
		{"back, of a kind that counts, which leaves no partition", back().partition(0), releasedUnseen().byCount(), "Apply r2 x4 p4 protects r1", "protecting replicas"},
		{"on, and raised", aGoal().update("r3").has("r2"), releasedUnseen(), "Apply r2 x4 p3 protects r1", "protecting replicas of web-zone-a before it gets r3"},
		{"on, and staged by a rollout", aGoal().update("r3").has("r2").partition(2147483647), releasedUnseen(), "Apply r2 x4 p2147483647 protects r1", "protecting replicas"},
		{"on, with the same partition", aGoal().update("r3").has("r2").partition(1), releasedUnseen(), "Wait", "to observe its latest spec"},
		{"on, and lowered", aGoal().update("r3").has("r2").partition(0), releasedUnseen(), "Wait", "to observe its latest spec"},
		{"on, raised, and scaled up", aGoal().update("r3").has("r2").replicas(9), releasedUnseen(), "Wait", "to observe its latest spec"}, // see lacksOrdinals
		{"on, raised, and scaled up, of a kind that counts", aGoal().update("r3").has("r2").replicas(9), releasedUnseen().byCount(), "Apply r2 x4 p3 protects r1", "protecting replicas"},
		{"on, held, and scaled up, of a kind that counts", aGoal().update("r3").has("r2").replicas(9).partition(9), releasedUnseen().byCount(), "Apply r2 x4 p9 protects r1", "protecting replicas"},
		{"on, held, and scaled down", aGoal().update("r3").has("r2").replicas(2).partition(2), releasedUnseen(), "Apply r2 x4 p4 protects r1", "protecting replicas"},
		{"on, and scaled to 0", aGoal().update("r3").has("r2").replicas(0).partition(0), releasedUnseen(), "Wait", "to observe its latest spec"},
		{"on, and somebody has lowered it", aGoal().update("r3").has("r2").partition(1), releasedUnseen().partition(0), "Apply r2 x4 p1 protects r1", "protecting replicas"},
		{"it protects that already", aGoal().update("r3").has("r2"), releasedUnseen().recorded(3, "h1", 1), "Wait", "to observe its latest spec"},
		{"back, and it protects all already", back().partition(1), releasedUnseen().recorded(4, "h1", 1), "Wait", "to observe its latest spec"},
		{"a higher number protects no more", aGoal().update("r3").has("r2").partition(9), releasedUnseen().recorded(4, "h1", 1), "Wait", "to observe its latest spec"},
		{"what it has is lost", back().partition(4).hasLost(), releasedUnseen(), "Wait", "to observe its latest spec"},
		{"it goes to what it protects, and on from there", aGoal().has("r1"), aChild().recorded(1, "h1", 1).unseen(), "Apply r1 x4 p3 protects r1", "protecting replicas"},
		{"it never came up, and nothing is protected", aGoal().update("r1").samePods().has("r2").partition(0), releasedUnseen().protecting(""), "Wait", "to observe its latest spec"},
		{"before the first replica", back().partition(4).uninitialized(), releasedUnseen(), "Apply r1 x4 p4", ""},
		{"the same template", aGoal().has("r2"), releasedUnseen(), "Apply r2 x4 p3 protects r1", ""},
		{"observed", back().partition(4), aChild().on("r2").recorded(1, "h1", 1).hashes("h1", "h2"), "Apply r1 x4 p4 protects r1", ""},
		{"forgot, back", back(), forgetful(), "Apply r2 x4 p4 protects r1", "has forgotten r1; writing what protects its replicas first"},
		{"forgot, on, and raised", aGoal().update("r3").has("r2").partition(4), forgetful(), "Apply r2 x4 p4 protects r1", "has forgotten r1; writing what protects its replicas first"},
		{"forgot, on", aGoal().update("r3").has("r2"), forgetful(), "Remind h1", "has forgotten"},
		{"forgot, back, and all is protected", back(), forgetful().recorded(4, "h1", 3), "Remind h1", "has forgotten"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := nextStep(tc.goal.Goal, tc.child.observed())
			if got := asText(s); got != tc.want || !strings.Contains(s.Reason, tc.says) {
				t.Errorf("want %q, have %q: %s", tc.want, got, s.Reason)
			}
		})
	}
}

// It is written only once: after that, the same goal waits.
func TestHoldFirstOnce(t *testing.T) {
	for _, goal := range []*goalBuilder{back(), back().partition(0), aGoal().update("r3").has("r2"), aGoal().update("r3").has("r2").replicas(3).partition(2)} {
		child := releasedUnseen()
		s := nextStep(goal.Goal, child.observed())
		if s.Action != ActionApply {
			t.Fatalf("nothing is held: %s", asText(s))
		}
		child.recorded(s.Child.Partition, s.Child.ProtectedHash, s.Child.ReleasedFrom).replicas(s.Child.Replicas)
		if again := nextStep(goal.Goal, child.observed()); again.Action != ActionWait {
			t.Errorf("%s comes after %s", asText(again), asText(s))
		}
	}
}

// What was released remains recorded, whether it has been observed or not. Nothing is added, whatever the next template
// will release.
func TestHoldFirstRecords(t *testing.T) {
	for _, goal := range []*goalBuilder{back(), back().partition(0), back().partition(4), aGoal().update("r3").has("r2")} {
		c := nextStep(goal.Goal, releasedUnseen().recorded(2, "h1", 2).releasedBefore(2, 1).members("0 h1", "1 h1", "2 h1", "3 h1").observed()).Child
		if c.ReleasedFrom != 2 || c.ReleasedBefore != 1 || c.ProtectedHash != "h1" || c.ProtectedRevision != "r1" {
			t.Errorf("released from %d, before %d, protects %s %s", c.ReleasedFrom, c.ReleasedBefore, c.ProtectedRevision, c.ProtectedHash)
		}
	}
}

// A child with a single template does not wait for an observation: it is stopped at once.
func TestWithheldIsHeldAtOnce(t *testing.T) {
	goal := aGoal().update("r1").samePods().has("r2").partition(4)
	goal.Protection, goal.Held = adapters.Withheld, true
	s := nextStep(goal.Goal, aChild().on("r2").desires(0, 4).unseen().observed())
	if asText(s) != "Apply r2 x4 p4 protects r1" || !s.Child.Paused {
		t.Errorf("%s, paused %v", asText(s), s.Child.Paused)
	}
}
