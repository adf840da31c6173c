// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"strings"
	"testing"
	"time"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// Disturbances that are not caused by the rollout: readiness that flaps, zones that fail for a moment, scaling
// during a rollout, and users who change their mind.

// flap makes ready replicas unready; they have not failed.
func (w *world) flap(subset int, positions ...int32) {
	for _, p := range positions {
		m := w.subsets[subset].member(p)
		m.Ready, m.ReadySince, m.Since = false, time.Time{}, w.now
	}
}

// deleted returns the names of the replicas that the last pass deletes.
func (w *world) deleted() string {
	var names []string
	for _, d := range w.last.Subsets {
		for _, r := range d.Delete {
			names = append(names, r.Name)
		}
	}
	return strings.Join(names, " ")
}

// begun returns a world with a rollout to v2 whose first replicas are released and starting.
func begun(s *v1alpha1.RollingUpdate, ordered bool, sizes ...int32) *world {
	w := newWorld(s, sizes...)
	if ordered {
		w.ordered()
	}
	w.roll("v2").slow = 24 * time.Hour
	for range 3 {
		w.round()
	}
	return w
}

func TestAnUnreadyReplicaIsNeitherDeletedNorReleased(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		w := begun(nil, ordered, 3)
		before := w.picture()
		if w.subsets[0].Observed.Partition != 2 || w.subsets[0].member(2).Hash != "v2" {
			t.Fatal("it has not begun", before)
		}
		w.flap(0, 1)
		w.decide()
		if w.subsets[0].Observed.Partition != 2 || w.deleted() != "" {
			t.Errorf("ordered=%v: deletes %q\n%s", ordered, w.deleted(), w.picture())
		}
	}
	// What failed is released and deleted first, even if there is room for two.
	w := begun(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("2") }), true, 3)
	w.subsets[0].Observed.Partition = 2
	w.fail(0, 1)
	w.decide()
	w.decide()
	if w.deleted() != "web-a-1" {
		t.Errorf("deletes %q\n%s", w.deleted(), w.picture())
	}
}

func TestAZoneThatBlinksIsNotReleased(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxSkew = "10%" }), 4, 4)
		if ordered {
			w.ordered()
		}
		w.roll("v2").decide()
		w.flap(0, 0, 1, 2, 3)
		for range 5 {
			w.decide()
		}
		if p := w.subsets[0].Observed.Partition; p != 3 || w.deleted() != "" {
			t.Errorf("ordered=%v: partition %d, deletes %q: one may be on its way", ordered, p, w.deleted())
		}
	}
}

func TestGrowthIsARelease(t *testing.T) {
	w := begun(nil, false, 4)
	w.subsets[0].desired = 12
	w.decide()
	if o := w.subsets[0].Observed; o.Replicas != 12 || o.Partition != 12 {
		t.Errorf("one is on its way already: %s", w.picture())
	}

	w = newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("3") }), 8).roll("v2")
	w.started(2)
	w.subsets[0].desired = 16
	w.decide()
	if o := w.subsets[0].Observed; o.Replicas != 16 || o.Partition != 13 {
		t.Errorf("nothing is on its way, and 3 may be: %s", w.picture())
	}
	w.settle()
	if w.state.Phase != v1alpha1.RolloutDone || w.subsets[0].Observed.Partition != 0 {
		t.Error("it does not end", w.picture())
	}
}

func TestAFailedRolloutDoesNotGrow(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("50%") }), 4)
	w.broken["v2"] = true
	w.roll("v2").settle()
	if w.state.Phase != v1alpha1.RolloutFailed {
		t.Fatal(w.picture())
	}
	w.subsets[0].desired = 12
	w.settle()
	if on := w.running("v2"); on != 1 || w.running("v1") != 11 {
		t.Errorf("%d of 12 run what failed: %s", on, w.picture())
	}
}

// running returns how many replicas run a revision.
func (w *world) running(revision string) int {
	n := 0
	for _, c := range w.subsets {
		for _, m := range c.Observed.Pods {
			if m.Hash == revision {
				n++
			}
		}
	}
	return n
}

func TestZeroFinishesNothing(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("50%"), Pause: &v1alpha1.RolloutPause{}}}
	}), 4).roll("v2")
	w.settle()
	key := w.state.ApprovalKey
	if w.state.Phase != v1alpha1.RolloutAwaitingApproval || key == "" {
		t.Fatal(w.picture())
	}
	w.subsets[0].desired = 0
	w.settle()
	if w.state.Phase == v1alpha1.RolloutDone || w.state.Step != 0 {
		t.Fatal("it has finished without replicas:", w.picture())
	}
	w.subsets[0].desired = 4
	if d := w.decide().Subsets[0]; d.Partition != coordination.Held {
		t.Errorf("it comes back with partition %d: what it protected is forgotten", d.Partition)
	}
	w.settle()
	if w.state.Phase != v1alpha1.RolloutAwaitingApproval || w.state.ApprovalKey != key {
		t.Errorf("it waits for %q no more: %s", key, w.picture())
	}
}

func TestATemplateThatChangesAtZeroIsStaged(t *testing.T) {
	w := newWorld(nil, 4)
	w.subsets[0].desired = 0
	w.settle()
	w.roll("v2").settle()
	if w.state.Revision != "v2" || w.state.Phase == v1alpha1.RolloutDone {
		t.Fatal(w.picture())
	}
	w.subsets[0].desired = 4
	if d := w.decide().Subsets[0]; d.Partition != coordination.Held {
		t.Errorf("it comes up with partition %d", d.Partition)
	}
	w.settle()
	if w.state.Phase != v1alpha1.RolloutDone {
		t.Error("it does not end", w.picture())
	}
}

func TestAStepIsWhatCameBeforeIt(t *testing.T) {
	approve := &v1alpha1.RolloutPause{}
	steps := func() []v1alpha1.RolloutStep {
		return []v1alpha1.RolloutStep{
			{Subsets: []string{"b"}, Partition: amount("1")},
			{Subsets: []string{"a", "b"}, Partition: amount("1"), Pause: approve},
			{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("50%")},
		}
	}
	for _, tc := range []struct {
		name string
		edit func(*world)
		want int32
	}{
		{"nothing", func(*world) {}, 1},
		{"the running step", func(w *world) { w.strategy.Steps[1].Pause = &v1alpha1.RolloutPause{Duration: "5m"} }, 1},
		{"a later step", func(w *world) { w.strategy.Steps[2].Partition = amount("90%") }, 1},
		{"later steps go", func(w *world) { w.strategy.Steps = w.strategy.Steps[:2] }, 1},
		{"a step before", func(w *world) { w.strategy.Steps[0].Partition = amount("0") }, 0},
		{"a step more before", func(w *world) {
			w.strategy.Steps = append([]v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("3"), Pause: approve}}, w.strategy.Steps...)
		}, 0},
		{"a subset goes, of which the first step alone spoke", func(w *world) {
			w.subsets[1].Removed = true
			w.strategy.Steps = w.strategy.Steps[1:]
			w.strategy.Steps[0].Subsets = []string{"a"}
		}, 0},
		{"a subset goes, and the first step names another too", func(w *world) {
			w.subsets[1].Removed = true
			w.strategy.Steps[0].Subsets = []string{"c"}
			w.strategy.Steps[1].Subsets = []string{"a"}
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Steps = steps() }), 2, 2, 2).roll("v2")
			if tc.name == "a subset goes, and the first step names another too" {
				w.strategy.Steps[0].Subsets = []string{"b", "c"}
			}
			w.settle()
			if w.state.Step != 1 || w.state.Phase != v1alpha1.RolloutAwaitingApproval {
				t.Fatalf("%+v", w.state)
			}
			tc.edit(w)
			w.decide()
			w.decide()
			if w.state.Step != tc.want || tc.want == 0 && len(w.strategy.Steps) == 3 && w.state.Phase == v1alpha1.RolloutDone {
				t.Errorf("want step %d: %+v", tc.want, w.state)
			}
		})
	}
}

// TestBrokenReplicasGoOutOfTurn: in a subset that has to wait for its turn, broken replicas are released, and
// unready ones are not.
func TestBrokenReplicasGoOutOfTurn(t *testing.T) {
	sequential := func(s *v1alpha1.RollingUpdate) {
		s.Order, s.MaxUnavailable = v1alpha1.SequentialOrder, amount("2")
	}
	w := newWorld(strategy(sequential), 3, 3).roll("v2")
	w.decide()
	w.fail(1, 2)
	w.decide()
	if p := w.subsets[1].Observed.Partition; p != 2 {
		t.Errorf("partition %d: %s", p, w.picture())
	}
	w = newWorld(strategy(sequential), 3, 3).roll("v2")
	w.decide()
	w.flap(1, 2)
	w.decide()
	if p := w.subsets[1].Observed.Partition; p != coordination.Held {
		t.Errorf("partition %d: %s", p, w.picture())
	}
}

// TestWhatTheSetsTakeIsCountedFirst: three replicas are released in three subsets, and one more fails meanwhile.
// Each set is about to take one.
func TestWhatTheSetsTakeIsCountedFirst(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("3") }), 3, 3).roll("v2")
	w.decide()
	w.decide() // releases 2 of a and 1 of b
	if a, b := w.subsets[0].Observed.Partition, w.subsets[1].Observed.Partition; a != 1 || b != 2 {
		t.Fatal(w.picture())
	}
	w.decide()
	if w.deleted() != "web-a-1" {
		t.Fatalf("a control: 2 are about to be taken, and 3 may be: deletes %q", w.deleted())
	}
	w = newWorld(w.strategy, 3, 3).roll("v2")
	w.decide()
	w.decide()
	w.fail(1, 0)
	w.decide()
	if strings.Contains(w.deleted(), "web-a-1") {
		t.Errorf("4 down: deletes %q", w.deleted())
	}
}

// TestABarredSetIsHelped: from Kubernetes 1.37 on, a StatefulSet replaces nothing while a protected replica is not
// available. The replica that it would have replaced is deleted, if the ledger has room.
func TestABarredSetIsHelped(t *testing.T) {
	for most, want := range map[string]string{"2": "web-a-3", "1": ""} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			s.Partition, s.MaxUnavailable = amount("2"), amount(most)
		}), 4).roll("v2")
		w.decide()
		w.flap(0, 0)
		w.decide()
		w.decide()
		if w.deleted() != want {
			t.Errorf("maxUnavailable %s: deletes %q\n%s", most, w.deleted(), w.picture())
		}
	}
	w := newWorld(nil, 3).roll("v2")
	w.decide()
	w.fail(0, 0)
	w.settle()
	if w.state.Phase != v1alpha1.RolloutBlocked {
		t.Fatal(w.picture())
	}
	w.forced = "v2"
	deleted := ""
	for range 4 {
		w.decide()
		deleted += w.deleted()
	}
	if deleted != "web-a-2" {
		t.Errorf("forced: deletes %q\n%s", deleted, w.picture())
	}
}

// TestForceReplacesWhatAnOrderedSetWaitsFor: a replica is not ready, and has not failed. An ordered set moves
// nothing before it is ready, and force is the only way out.
func TestForceReplacesWhatAnOrderedSetWaitsFor(t *testing.T) {
	w := newWorld(nil, 3).ordered().roll("v2")
	w.decide()
	w.flap(0, 0)
	for _, pass := range []struct{ forced, want string }{{"", ""}, {"v2", "web-a-0"}} {
		w.forced = pass.forced
		deleted := ""
		for range 3 {
			w.decide()
			deleted += w.deleted()
		}
		if deleted != pass.want {
			t.Errorf("forced %q: deletes %q, want %q\n%s", pass.forced, deleted, pass.want, w.picture())
		}
	}
}

// TestAForeignReleaseIsPutRight: somebody lowers the partition of a child.
func TestAForeignReleaseIsPutRight(t *testing.T) {
	w := newWorld(nil, 3, 3).roll("v2")
	w.decide()
	w.decide()
	in := w.input()
	recorded := in.Subsets[1].Observed.Partition
	in.Subsets[1].Recorded = &recorded
	foreign := *in.Subsets[1].Observed
	foreign.Partition = 0
	in.Subsets[1].Observed = &foreign
	if d := coordination.Coordinate(in).Subsets[1]; d.Partition != recorded {
		t.Errorf("partition %d, on record is %d", d.Partition, recorded)
	}
}

// TestWhatIsTakenBackIsNotReleased: a replica came up on the update revision without having been released, and is
// being deleted because of that. It has to come back on the protected revision.
func TestWhatIsTakenBackIsNotReleased(t *testing.T) {
	w := newWorld(nil, 3, 3).roll("v2")
	w.decide()
	w.decide()
	c := w.subsets[1]
	before := c.Observed.Partition
	m := c.member(2)
	m.Hash, m.Ready, m.ReadySince, m.Terminating = c.Observed.UpdateHash, false, time.Time{}, true
	w.decide()
	if c.Observed.Partition < min(before, 3) {
		t.Errorf("partition %d, was %d\n%s", c.Observed.Partition, before, w.picture())
	}
}

// TestAChildThatForgotIsNotReleased: its protected replicas would come back on the update revision. Those that did
// are deleted when it remembers.
func TestAChildThatForgotIsNotReleased(t *testing.T) {
	w := newWorld(nil, 3).roll("v2")
	w.decide()
	c := w.subsets[0]
	c.Forgot = true
	w.decide()
	if c.Observed.Partition != coordination.Held {
		t.Error(w.picture())
	}
	c.Forgot = false
	c.Unreleased = []adapters.Replica{*c.member(0)}
	w.decide()
	if w.deleted() != "web-a-0" {
		t.Errorf("deletes %q", w.deleted())
	}
}

// TestAFailureIsToldWithoutAClock: the controller's clock is ahead of the API server's.
func TestAFailureIsToldWithoutAClock(t *testing.T) {
	w := newWorld(nil, 2).roll("v2")
	w.now = w.now.Add(time.Hour)
	w.decide()
	w.now = w.now.Add(-time.Hour)
	w.broken["v2"] = true
	w.settle()
	if w.state.Phase != v1alpha1.RolloutFailed {
		t.Error(w.picture())
	}
}
