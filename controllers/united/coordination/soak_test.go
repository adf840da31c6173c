// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"testing"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// soaking returns a world in which the first of two steps stands, with a pause of 10 minutes.
func soaking() *world {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("1"), Pause: &v1alpha1.RolloutPause{Duration: "10m"}}}
	}), 2).roll("v2")
	w.settle()
	return w
}

func (w *world) after(d time.Duration) *world {
	w.now = w.now.Add(d)
	w.decide()
	return w
}

func TestSoakCountsWhileTheStepStands(t *testing.T) {
	w := soaking().after(4 * time.Minute)
	w.flap(0, 1)
	w.after(time.Minute)
	if w.state.ReachedTime != nil || w.state.SoakedSeconds < 240 || w.state.SoakedSeconds > 310 {
		t.Fatalf("%+v", w.state)
	}
	w.after(8 * time.Minute) // does not count
	w.ready()
	w.after(0).after(4 * time.Minute)
	if w.state.Phase != v1alpha1.RolloutPaused {
		t.Fatalf("after 9 minutes: %+v", w.state)
	}
	w.after(3 * time.Minute)
	if w.state.Phase == v1alpha1.RolloutPaused || w.state.Step != 1 {
		t.Errorf("after 12 minutes: %+v", w.state)
	}
}

func TestAFailureSetsSoakBack(t *testing.T) {
	w := soaking().after(9 * time.Minute)
	w.fail(0, 1)
	w.after(time.Second)
	if w.state.SoakedSeconds != 0 || w.state.ReachedTime != nil || w.state.Phase != v1alpha1.RolloutFailed {
		t.Fatalf("%+v", w.state)
	}
	w.subsets[0].member(1).Failure = ""
	w.ready()
	w.after(0)
	if w.after(9*time.Minute).state.Step != 0 {
		t.Errorf("it is over after 9 minutes: %+v", w.state)
	}
	if w.after(2*time.Minute).state.Step != 1 {
		t.Errorf("it is not over after 11: %+v", w.state)
	}
}

// TestSoakKnowsWhatItDidNotSee: a replica was not ready for a moment between two passes.
func TestSoakKnowsWhatItDidNotSee(t *testing.T) {
	w := soaking()
	w.now = w.now.Add(9 * time.Minute)
	w.subsets[0].member(1).ReadySince = w.now
	if w.after(5*time.Minute).state.Step != 0 {
		t.Errorf("it stood for 5 minutes: %+v", w.state)
	}
	if w.after(6*time.Minute).state.Step != 1 {
		t.Errorf("it stood for 11 minutes: %+v", w.state)
	}
}

// TestSoakCountsWhatIsAvailable: a replica that came back between two passes is available minReadySeconds later.
func TestSoakCountsWhatIsAvailable(t *testing.T) {
	w := soaking()
	w.subsets[0].Observed.MinReadySeconds = 60
	w.now = w.now.Add(9 * time.Minute)
	w.subsets[0].member(1).ReadySince = w.now
	if w.after(10*time.Minute+30*time.Second).state.Step != 0 {
		t.Errorf("it stood for 9 minutes and a half: %+v", w.state)
	}
	if w.after(time.Minute).state.Step != 1 {
		t.Errorf("it stood for 10 minutes and a half: %+v", w.state)
	}
}

// TestSoakEndsWhenAReplicaCeased: a replica is not ready, or gone, and there was no pass since the step stood. The
// time counts until the replicas show that it ended, and no longer.
func TestSoakEndsWhenAReplicaCeased(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(w *world, c *child, then time.Time)
		stood   int64 // seconds
	}{
		"not ready": {func(_ *world, c *child, then time.Time) {
			c.member(1).Ready, c.member(1).ReadySince, c.member(1).Since = false, time.Time{}, then
		}, 240},
		"is being deleted": {func(_ *world, c *child, then time.Time) {
			c.member(1).Terminating, c.member(1).Since = true, then
		}, 240},
		"gone":               {func(_ *world, c *child, _ time.Time) { c.drop(1) }, 0},
		"made anew":          {func(w *world, c *child, _ time.Time) { c.drop(1); w.make(c, 1, "v2") }, 0},
		"its child is gone":  {func(_ *world, c *child, _ time.Time) { c.Observed, c.LastPartition = nil, 1 }, 0},
		"more are asked for": {func(_ *world, c *child, _ time.Time) { c.desired = 3 }, 540},
	} {
		t.Run(name, func(t *testing.T) {
			w := soaking().after(0)
			then := w.state.ReachedTime.Add(4 * time.Minute)
			w.now = then.Add(5 * time.Minute)
			tc.happens(w, w.subsets[0], then)
			if state := coordination.Coordinate(w.input()).State; state.ReachedTime != nil || state.SoakedSeconds != tc.stood {
				t.Errorf("want %d seconds, have %+v", tc.stood, state)
			}
		})
	}
}

// TestSoakOfAStepThatIsAdded: the time before the step was added does not count.
func TestSoakOfAStepThatIsAdded(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Partition = amount("100%") }), 2).roll("v2")
	w.settle()
	if w.state.Phase != v1alpha1.RolloutDone {
		t.Fatal(w.picture())
	}
	w.strategy.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("0%"), Pause: &v1alpha1.RolloutPause{Duration: "10m"}}}
	if w.after(time.Hour).after(9 * time.Minute); w.state.Step != 0 || w.state.Phase != v1alpha1.RolloutPaused {
		t.Errorf("it stood for 9 minutes: %+v", w.state)
	}
	if w.after(2 * time.Minute); w.state.Step != 1 {
		t.Errorf("it stood for 11 minutes: %+v", w.state)
	}
}

// A rollout is complete, is paused, gets a step with a pause, and is resumed: the time before the step was added does
// not count.
func TestSoakOfAStepThatIsAddedWhilePaused(t *testing.T) {
	for name, seen := range map[string]bool{"in the same patch": false, "after United has seen that it is paused": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Partition = amount("100%") }), 2).roll("v2")
			w.settle()
			if w.state.Phase != v1alpha1.RolloutDone {
				t.Fatal(w.picture())
			}
			w.paused = true
			if seen {
				w.after(time.Hour)
			}
			w.strategy.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("0%"), Pause: &v1alpha1.RolloutPause{Duration: "10m"}}}
			w.after(time.Hour)
			w.paused = false
			if w.after(0).after(9 * time.Minute); w.state.Step != 0 {
				t.Errorf("it stood for 9 minutes: %+v", w.state)
			}
			if w.after(2 * time.Minute); w.state.Step != 1 {
				t.Errorf("it stood for 11 minutes: %+v", w.state)
			}
		})
	}
}
