// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"testing"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// TestForceDoesNotWaitForHealth: force ignores health. So the turn of a subset is over when everything is released
// and all replicas that are not available have failed, but not before that.
func TestForceDoesNotWaitForHealth(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Order, s.MaxUnavailable = v1alpha1.SequentialOrder, amount("100%")
	}), 2, 2).roll("v2")
	w.forced, w.slow = "v2", time.Hour
	for range 9 {
		w.round()
	}
	second := w.subsets[1].Observed
	for _, replica := range w.subsets[0].Observed.Pods {
		if replica.Hash != "v2" || replica.Ready || second.Partition != coordination.Held {
			t.Fatal("it is on its way:", w.picture())
		}
	}
	if w.fail(0, 1); w.decide().Subsets[1].Partition != coordination.Held {
		t.Fatal("one is on its way:", w.picture())
	}
	w.fail(0, 0)
	w.forced = ""
	if w.decide().Subsets[1].Partition != coordination.Held {
		t.Fatal("not without force:", w.picture())
	}
	w.forced = "v2"
	if w.decide().Subsets[1].Partition != 0 {
		t.Error("all of it has failed:", w.picture())
	}
}

// TestAStepThatHoldsNothing: a step is over when no replica of any subset runs, or could come up on, anything but
// the update revision, even if a replica is missing. As long as one could come up on another revision, or a step has
// a pause, it is not over.
func TestAStepThatHoldsNothing(t *testing.T) {
	for _, knows := range []string{"v1", "v2"} {
		for _, pause := range []*v1alpha1.RolloutPause{nil, {}} {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
				s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("0%"), Pause: pause}}
			}), 1, 1).roll("v2")
			w.round()
			w.round()
			for _, c := range w.subsets {
				c.drop(0)
				c.Observed.CurrentHash = knows
			}
			w.decide()
			if over := w.state.Step == 1 && w.state.Phase == v1alpha1.RolloutDone; over != (knows == "v2" && pause == nil) {
				t.Errorf("of children that know only %s, pause %v: %s", knows, pause, w.picture())
			}
		}
	}
}

// TestAPauseOfTheLastWave: whoever approves the last wave decides whether the revision becomes the current one, though nothing is
// left to release.
func TestAPauseOfTheLastWave(t *testing.T) {
	for name, pause := range map[string]*v1alpha1.RolloutPause{"approval": {}, "timed": {Duration: "10m"}} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("0"), Pause: pause}}
		}), 2, 1).roll("v2")
		w.settle()
		if w.running("v2") != 3 || w.state.Phase == v1alpha1.RolloutDone || !w.last.Unfinished || w.current != "v1" {
			t.Fatal(name, w.picture())
		}
		w.state = nil
		if w.settle(); !w.last.Unfinished || w.current != "v1" {
			t.Fatal(name, "without the status", w.picture())
		}
		if w.approved = w.state.ApprovalKey; name == "timed" {
			w.after(11 * time.Minute)
		}
		if w.settle(); w.state.Phase != v1alpha1.RolloutDone || w.last.Unfinished || w.current != "v2" {
			t.Error(name, w.picture())
		}
	}
}
