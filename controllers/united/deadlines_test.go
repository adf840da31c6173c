// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"testing"
	"time"
)

func TestWakeUp(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(*scene) *scene
		want time.Duration
	}{
		{"at rest", func(s *scene) *scene { return s.settled().pass() }, 0},
		{"held", func(s *scene) *scene { return s.settled().image("v2").settled().pass() }, 0},
		{"paused", func(s *scene) *scene { return s.settled().paused(true).image("v2").settled().pass() }, 0},
		{"the deadline, from now on", func(s *scene) *scene { return s.settled().deadline(60).image("v2").pass() }, time.Minute},
		{"the deadline, a while later", func(s *scene) *scene {
			return s.settled().deadline(60).image("v2").pass().later(19 * time.Second).pass()
		}, 40 * time.Second},
		{"the deadline that nobody set", func(s *scene) *scene { return s.settled().image("v2").pass() }, 10 * time.Minute},
		{"the deadline has passed", func(s *scene) *scene { return s.settled().deadline(60).image("v2").pass().later(time.Hour).pass() }, 0},
		{"a replica is ready for too short a time", func(s *scene) *scene {
			return s.settled().minReady(30).settled().later(time.Hour).ready("a-1", true).later(3 * time.Second).pass()
		}, 26 * time.Second},
		{"the sooner of two", func(s *scene) *scene {
			return s.settled().minReady(30).settled().later(time.Hour).ready("a-1", true).later(3*time.Second).ready("b-1", true).pass()
		}, 26 * time.Second},
		{"a write that failed once", func(s *scene) *scene { return s.settled().refuses("a", errAway).image("v2").pass() }, time.Second},
		{"a write that failed twice", func(s *scene) *scene { return s.settled().refuses("a", errAway).image("v2").pass().pass() }, 2 * time.Second},
		{"a write that is refused", func(s *scene) *scene { return s.settled().refuses("a", errRefused).image("v2").pass() }, time.Second},
		{"a write that is refused, while it waits", func(s *scene) *scene {
			return s.settled().refuses("a", errRefused).image("v2").passes(9).later(9 * time.Second).pass()
		}, 20 * time.Second},
		{"the revision cannot be kept", func(s *scene) *scene {
			s.settled().image("v2").API.Fail = errAway
			return s.pass()
		}, time.Second},
		{"the cluster moved on", func(s *scene) *scene {
			s.settled().image("v2").API.Fail = nil
			s.API.Refresh()
			s.ready("a-0", true)
			touched := s.API.Live.Sets["web-a"].DeepCopy()
			s.API.PutSet(touched)
			s.Reconcile()
			return s
		}, time.Second},
		{"a spec that is not understood", func(s *scene) *scene { return s.settled().partition("a", "200%").pass() }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.play(newScene(t)).Wake; got != tc.want {
				t.Errorf("want %v, have %v", tc.want, got)
			}
		})
	}
}

// The progress deadline starts again with a new generation, with progress, and if the parent was ready in between.
func TestProgressDeadline(t *testing.T) {
	stalled := func(s *scene) bool { return kstatus(s.Parent()) == "Failed" }
	s := newScene(t).deadline(60).settled().image("v2").partition("a", "0").pass().moves("a", "b").pass()
	if s.later(57 * time.Second).pass(); stalled(s) {
		t.Error("stalled too early:", s.told())
	}
	if s.pass(); !stalled(s) {
		t.Error("not stalled after a minute:", s.told())
	}
	if s.kubelets("a-1").moves("a").kubelets("a-1").pass(); stalled(s) {
		t.Error("stalled, though a replica came up:", s.told())
	}
	if s.later(time.Minute).pass(); !stalled(s) {
		t.Error("not stalled a minute later:", s.told())
	}
	if s.image("v3").pass(); stalled(s) {
		t.Error("a new generation is stalled:", s.told())
	}
	s.settled().later(time.Hour)
	if s.ready("b-0", false).pass(); stalled(s) {
		t.Error("stalled at once, though it was well until now:", s.told())
	}
	if s.later(time.Minute).pass(); !stalled(s) {
		t.Error("a replica is not ready for a minute:", s.told())
	}
	if s.ready("b-0", true).pass(); stalled(s) {
		t.Error("stalled, though all is well again:", s.told())
	}
}
