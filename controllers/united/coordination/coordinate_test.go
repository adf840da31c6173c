// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// waves returns the waves in which replicas are released when updates are instant: after one planner pass, all
// released replicas are updated and available.
func waves(w *world, most int) [][]int {
	if w.state == nil || w.state.Revision != w.update {
		w.decide() // stages
	}
	var all [][]int
	for range most {
		w.decide()
		moved := false
		for _, c := range w.subsets {
			for p := c.Observed.Partition; p < c.Observed.Replicas; p++ {
				if m := c.member(p); m == nil || m.Hash != w.update {
					c.drop(p)
					w.make(c, p, w.update)
					moved = true
				}
			}
		}
		w.ready()
		if !moved {
			return all
		}
		all = append(all, w.updated())
	}
	return all
}

func TestWavesOfSkew(t *testing.T) {
	skewed := func(percent string) *v1alpha1.RollingUpdate {
		return strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable, s.MaxSkew = amount("100%"), percent })
	}
	t.Run("10%", func(t *testing.T) {
		got := waves(newWorld(skewed("10%"), 40, 20).roll("v2"), 100)
		var want [][]int
		for i := 1; i <= 10; i++ {
			want = append(want, []int{4 * i, 2 * i})
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
	t.Run("25%", func(t *testing.T) {
		if got := waves(newWorld(skewed("25%"), 40, 20).roll("v2"), 100); len(got) != 4 {
			t.Error(got)
		}
	})
	t.Run("from (10,3)", func(t *testing.T) {
		w := newWorld(skewed("10%"), 40, 20).roll("v2")
		w.started(10, 3)
		if got := waves(w, 1); fmt.Sprint(got) != "[[10 5]]" {
			t.Error(got)
		}
	})
	t.Run("10:10:10 at 1% from (1,2,3)", func(t *testing.T) {
		w := newWorld(skewed("1%"), 10, 10, 10).roll("v2")
		w.started(1, 2, 3)
		got := waves(w, 100)
		if last := got[len(got)-1]; fmt.Sprint(last) != "[10 10 10]" {
			t.Error(got)
		}
		for _, wave := range got {
			if slices.Max(wave)-slices.Min(wave) > 2 { // 1/10 + 1%, from 2/10 on
				t.Error(wave)
			}
		}
	})
}

// started puts the world into the middle of a rollout: the given number of replicas of each subset are updated.
func (w *world) started(updated ...int32) {
	w.decide()
	for i, c := range w.subsets {
		c.Observed.Partition = c.desired - updated[i]
		for p := c.Observed.Partition; p < c.desired; p++ {
			c.drop(p)
			w.make(c, p, w.update)
		}
	}
	w.ready()
}

func TestEveryPairOfSizesEnds(t *testing.T) {
	for _, percent := range []string{"1%", "10%", "50%"} {
		for a := int32(1); a <= 40; a++ {
			for b := int32(1); b <= 40; b++ {
				w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable, s.MaxSkew = amount("100%"), percent }), a, b).roll("v2")
				got := waves(w, 1000)
				if last := got[len(got)-1]; last[0] != int(a) || last[1] != int(b) {
					t.Fatalf("%d:%d at %s ends with %v", a, b, percent, last)
				}
				bound := parsePercent(percent) + 100/float64(min(a, b)) + 1e-9
				for _, wave := range got {
					if gap := 100*float64(wave[0])/float64(a) - 100*float64(wave[1])/float64(b); gap > bound || -gap > bound {
						t.Fatalf("%d:%d at %s is skewed: %v", a, b, percent, wave)
					}
				}
			}
		}
	}
}

func parsePercent(s string) float64 {
	var f float64
	if _, err := fmt.Sscanf(s, "%f%%", &f); err != nil {
		panic(err)
	}
	return f
}

func TestFloor(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Partition, s.MaxUnavailable = amount("80%"), amount("10%") }), 200, 100).roll("v2")
	w.settle()
	for i, from := range []int32{160, 80} {
		for _, m := range w.subsets[i].Observed.Pods {
			if (m.Position >= from) != (m.Hash == "v2") {
				t.Fatalf("%s runs %s", m.Name, m.Hash)
			}
		}
	}
	if w.state.Phase != v1alpha1.RolloutDone {
		t.Error(w.state)
	}
	before := w.updated()
	w.strategy.Partition = amount("100%")
	w.settle()
	if fmt.Sprint(w.updated()) != fmt.Sprint(before) {
		t.Error(w.updated())
	}
	w.strategy.Partition = amount("0")
	w.settle()
	if fmt.Sprint(w.updated()) != "[200 100]" || w.mostUnavailable > 30 {
		t.Error(w.updated(), w.mostUnavailable)
	}
}

func TestBrokenBefore(t *testing.T) {
	all := []int32{0, 1, 2, 3}
	for _, tt := range []struct {
		name    string
		ordered bool
		sick    []int32
		most    string
		force   bool
		ends    bool
	}{
		{"all, parallel", false, all, "1", false, true},
		{"all, ordered", true, all, "1", false, true},
		{"highest, parallel", false, []int32{3}, "1", false, true},
		{"highest, ordered", true, []int32{3}, "1", false, true},
		{"lowest, parallel", false, []int32{0}, "1", false, false},
		{"lowest, ordered", true, []int32{0}, "1", false, false},
		{"middle, parallel", false, []int32{1}, "1", false, false},
		{"middle, ordered", true, []int32{1}, "1", false, false},
		{"lowest, parallel, 2", false, []int32{0}, "2", false, true},
		{"middle, parallel, 2", false, []int32{1}, "2", false, true},
		{"lowest, ordered, 2", true, []int32{0}, "2", false, false},
		{"lowest, parallel, force", false, []int32{0}, "1", true, true},
		{"lowest, ordered, force", true, []int32{0}, "1", true, true},
		{"middle, parallel, force", false, []int32{2}, "1", true, true},
		{"middle, ordered, force", true, []int32{2}, "1", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount(tt.most) }), 4)
			if tt.ordered {
				w.ordered()
			}
			w.fail(0, tt.sick...)
			w.roll("v2")
			if tt.force {
				w.forced = "v2"
			}
			w.settle()
			if w.complete() != tt.ends {
				t.Fatalf("ends %v\n%s", w.complete(), strings.Join(w.story, "\n"))
			}
			if !tt.ends {
				if w.down() != len(tt.sick) || w.state.Phase != v1alpha1.RolloutBlocked || !strings.Contains(w.state.Message, fmt.Sprintf("web-a-%d ", tt.sick[0])) || !w.last.Stalled {
					t.Error(w.down(), w.state)
				}
			}
		})
	}
}

// TestSkewKeepsNothingThatIsDown: skew leaves nothing to a small subset and something to the others, and a replica
// of the small one, which is down, uses up the ledger. That replica goes first: it costs nothing, and the others
// wait for it.
func TestSkewKeepsNothingThatIsDown(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprint("ordered ", ordered), func(t *testing.T) {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable, s.MaxSkew = amount("1"), "34%" }), 3, 3, 2)
			if ordered {
				w.ordered()
			}
			w.fail(2, 1)
			w.roll("v2").settle()
			if !w.complete() || w.mostUnavailable > 1 {
				t.Errorf("%d down at most, %v\n%s", w.mostUnavailable, w.state, strings.Join(w.narrative, "\n"))
			}
		})
	}
}

// TestBlockedAdvice: the message advises to raise maxUnavailable only if that lets something continue, which it
// does not in an ordered child.
func TestBlockedAdvice(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ordered bool
		order   v1alpha1.RolloutOrder
		sick    []int32 // by subset: positions from 0 on
		raise   bool
	}{
		{"its own low one, parallel", false, v1alpha1.SequentialOrder, []int32{1, 0}, true},
		{"its own low one, ordered", true, v1alpha1.SequentialOrder, []int32{1, 0}, false},
		{"of all, ordered", true, v1alpha1.ParallelOrder, []int32{1, 1}, false},
		{"of another subset, ordered", true, v1alpha1.ParallelOrder, []int32{0, 1}, true},
		{"of a subset to come, ordered", true, v1alpha1.SequentialOrder, []int32{0, 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Order = tt.order }), 3, 3)
			if tt.ordered {
				w.ordered()
			}
			for i, n := range tt.sick {
				for p := range n {
					w.fail(i, p)
				}
			}
			w.roll("v2").settle()
			if w.state.Phase != v1alpha1.RolloutBlocked || strings.Contains(w.state.Message, "raise maxUnavailable") != tt.raise {
				t.Error(w.state)
			}
			before := w.updated()
			w.strategy.MaxUnavailable = amount("3")
			w.settle()
			if moved := !slices.Equal(before, w.updated()); moved != tt.raise {
				t.Errorf("raising maxUnavailable moves something: %v, %v", moved, w.state)
			}
		})
	}
}

func TestBrokenImage(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for _, order := range []v1alpha1.RolloutOrder{v1alpha1.ParallelOrder, v1alpha1.SequentialOrder} {
			for most := 1; most <= 5; most++ {
				for _, then := range []string{"v3", "v1"} {
					t.Run(fmt.Sprint(ordered, order, most, then), func(t *testing.T) {
						w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
							s.Order, s.MaxUnavailable = order, amount(fmt.Sprint(most))
						}), 4, 4, 4)
						if ordered {
							w.ordered()
						}
						w.broken["v2"] = true
						w.roll("v2").settle()
						if w.mostUnavailable > most || w.state.Phase != v1alpha1.RolloutFailed || !w.last.Stalled {
							t.Errorf("%d down, %+v", w.mostUnavailable, w.state)
						}
						w.roll(then).settle()
						if !w.complete() || w.mostUnavailable > most {
							t.Errorf("%d down\n%s", w.mostUnavailable, strings.Join(w.story, "\n"))
						}
					})
				}
			}
		}
	}
}

func TestSequentialIsOneAfterTheOther(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Order, s.MaxUnavailable = v1alpha1.SequentialOrder, amount("2") }), 3, 3, 3, 3).roll("v2")
	for range 100 {
		w.round()
		for i := 1; i < len(w.subsets); i++ {
			if w.subsets[i].Observed.Partition < 3 && w.updated()[i-1] < 3 {
				t.Fatal(w.picture())
			}
		}
	}
	if !w.complete() || w.mostUnavailable > 2 {
		t.Error(w.mostUnavailable, strings.Join(w.story, "\n"))
	}
}

func TestMove(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		w := newWorld(nil, 6, 3)
		if ordered {
			w.ordered()
		}
		w.subsets[0].desired, w.subsets[1].desired = 3, 6
		w.now = w.now.Add(1)
		for range 50 {
			w.round()
			available := 0
			for _, c := range w.subsets {
				for _, m := range c.Observed.Pods {
					if m.Ready {
						available++
					}
				}
			}
			if available < 8 {
				t.Fatal(w.picture())
			}
		}
		if len(w.subsets[0].Observed.Pods) != 3 || len(w.subsets[1].Observed.Pods) != 6 {
			t.Error(w.picture())
		}
	}
}

// TestMoveUnobserved: a surplus replica of a child whose controller has not observed its spec counts like any
// other, and is removed only as the ledger allows.
func TestMoveUnobserved(t *testing.T) {
	w := newWorld(nil, 6, 3)
	w.subsets[0].desired, w.subsets[1].desired = 3, 6
	w.decide()
	if got := w.subsets[0].Observed.Replicas; got != 5 {
		t.Fatalf("%d replicas after the first pass, want 5", got)
	}
	w.subsets[0].Observed.SpecObserved = false
	for range 3 {
		w.decide()
		if got := w.subsets[0].Observed.Replicas; got != 5 {
			t.Fatalf("%d replicas, though none has come in the other subset", got)
		}
	}
	w.subsets[0].Observed.SpecObserved = true
	w.settle()
	if len(w.subsets[0].Observed.Pods) != 3 || len(w.subsets[1].Observed.Pods) != 6 {
		t.Error(w.picture())
	}
}

// TestMissingInOrder: missing replicas of several ordered children are not released all at once. One may exist by
// now, on the old revision, and its controller then takes it down.
func TestMissingInOrder(t *testing.T) {
	w := newWorld(nil, 3, 3, 3).ordered()
	w.roll("v2")
	for range 2 {
		w.decide() // staged
	}
	for _, c := range w.subsets {
		c.drop(2)
	}
	w.decide()
	released := 0
	for _, c := range w.subsets {
		if c.Observed.Partition < 3 {
			released++
		}
	}
	if released != 1 {
		t.Errorf("%d subsets have released a replica, want 1\n%s", released, w.picture())
	}
	w.settle()
	if !w.complete() {
		t.Error(w.picture())
	}
}

// TestCorrectedAndScaledUp: the broken replica is no longer the highest one, and runs neither the protected nor
// the update revision.
func TestCorrectedAndScaledUp(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		w := newWorld(nil, 3, 3)
		if ordered {
			w.ordered()
		}
		w.broken["v2"] = true
		w.roll("v2").settle()
		w.subsets[0].desired, w.subsets[1].desired = 5, 5
		w.roll("v3").settle()
		if !w.complete() {
			t.Errorf("ordered %v: %s\n%s", ordered, w.picture(), strings.Join(w.narrative, "\n"))
		}
	}
}

// TestSurplusOfASubsetThatShrinksToNothing: it serves until others exist, and is not updated before it is removed.
func TestSurplusOfASubsetThatShrinksToNothing(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Partition = amount("100%") }), 2, 1, 1)
	w.fail(2, 0)
	w.subsets[1].desired, w.subsets[2].desired = 0, 2
	w.slow = 5 * time.Second
	w.roll("v2")
	for range 4 {
		w.decide()
		if o := w.subsets[1].Observed; o.Replicas == 1 && o.Partition == 0 {
			t.Fatalf("a surplus replica is released\n%s", strings.Join(w.narrative, "\n"))
		}
	}
	w.settle()
}

// TestSurplusInFlight: a released replica that is surplus now is in flight as long as it is kept, because its controller
// updates it all the same. So replicas that others get meanwhile come up protected.
func TestSurplusInFlight(t *testing.T) {
	for name, removed := range map[string]bool{"scaled to 0": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(nil, 1, 1).roll("v2")
			for range 2 {
				w.decide() // staged
			}
			a, b := w.subsets[0], w.subsets[1]
			if a.Observed.Partition != 0 || b.Observed.Partition == 0 {
				t.Fatal(w.picture())
			}
			a.Removed, a.desired, b.desired = removed, 0, 3
			a.Observed.SpecObserved = false
			w.decide()
			if a.Observed.Replicas != 1 || b.Observed.Replicas != 3 || b.Observed.Partition < 3 {
				t.Errorf("%s\n%s", w.picture(), strings.Join(w.narrative, "\n"))
			}
			w.sync(b)
			w.ready()
			w.decide()
			if a.Observed.Replicas != 0 || b.Observed.Partition != 2 {
				t.Errorf("it is not in flight once it is removed: %s\n%s", w.picture(), strings.Join(w.narrative, "\n"))
			}
		})
	}
}

// TestStepsEdited: whoever edits the completed steps decides again, also if so few are left that the running one
// is not among them.
func TestStepsEdited(t *testing.T) {
	approval := func(subset string) v1alpha1.RolloutStep {
		return v1alpha1.RolloutStep{Subsets: []string{subset}, Partition: amount("0%"), Pause: &v1alpha1.RolloutPause{}}
	}
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Steps = []v1alpha1.RolloutStep{approval("a"), approval("b")}
	}), 2, 2, 2)
	w.roll("v2").settle()
	w.approved = w.state.ApprovalKey
	w.settle()
	if w.state.Step != 1 || w.state.Phase != v1alpha1.RolloutAwaitingApproval {
		t.Fatal(w.state)
	}
	w.strategy.Steps = []v1alpha1.RolloutStep{approval("b")}
	w.settle()
	if fmt.Sprint(w.updated()) != "[2 2 0]" || w.state.Step != 0 || w.state.Phase != v1alpha1.RolloutAwaitingApproval {
		t.Error("a shorter list releases the rest", w.updated(), w.state)
	}
	w.strategy.Steps = nil
	w.settle()
	if !w.complete() {
		t.Error("without steps it does not go on", w.updated(), w.state)
	}
}

// If the controller of a child has not observed its spec, the replicas of the child cannot be relied on, but they
// are not removed either.
func TestNothingIsRemovedFromAChildThatIsBehind(t *testing.T) {
	w := newWorld(nil, 6, 0)
	w.subsets[0].desired, w.subsets[1].desired = 3, 3
	w.decide()
	if o := w.subsets[0].Observed; o.Replicas != 5 {
		t.Fatal(w.picture())
	}
	w.subsets[0].drop(5)
	w.subsets[0].Observed.SpecObserved = false
	for range 3 {
		w.decide()
	}
	if o := w.subsets[0].Observed; o.Replicas != 5 {
		t.Error(w.picture())
	}
}

// The first template of a child was corrected, and nothing comes up on the correction, though a replica of the
// first template is ready by now. The child has nothing to protect: a further template reaches it at once, as long
// as the user protects nothing.
func TestAFirstTemplateIsCorrectedTwice(t *testing.T) {
	type scene struct {
		*world
		b *adapters.Observed
	}
	alsoReady := func(s scene) { s.b.Pods[0].Hash = "v1" }
	const stuck = "blocked by web-b-2 (CrashLoopBackOff since 2026-01-01T00:00:03Z): b is waiting to come up on v1 before it gets another revision; repair it, "
	for _, c := range []struct {
		name    string
		change  func(s scene)
		open    bool
		message string
	}{
		{"broken", func(scene) {}, true, ""},
		{"starting", func(s scene) { s.b.Pods[2].Failure = "" }, true, ""},
		{"not seen by its controller", func(s scene) { s.b.SpecObserved = false }, false, ""},
		{"protected", func(s scene) { s.strategy.Partition = amount("1") }, false, stuck + "or protect none of its replicas (partition 0, no steps)"},
		{"halted", func(s scene) {
			s.subsets[0].Revision, s.subsets[0].Observed.UpdateHash = "v2", "v2"
			s.subsets[0].Observed.Pods[1].Hash = "v2"
			s.subsets[0].Observed.Pods[1].Created = s.now.Add(time.Hour)
			s.fail(0, 1)
		}, false, "web-a-1 (CrashLoopBackOff since 2026-01-01T00:00:03Z) failed; no more replicas are released: fix the template, or go back"},
		{"half starting", func(s scene) { alsoReady(s); s.b.Pods[2].Failure = "" }, false, ""},
		{"half broken", alsoReady, false, stuck + "or force the rollout: kubectl annotate --overwrite united -n shop web united.dev/force-update=v2/$(date +%s)"},
		{"half overdue", func(s scene) {
			alsoReady(s)
			s.b.Pods[2].Failure, s.b.Pods[2].Since = "", s.now.Add(-time.Hour)
		}, false, ""},
		{"half broken, forced", func(s scene) { alsoReady(s); s.forced = "v2" }, true, ""},
		{"half overdue, forced", func(s scene) {
			alsoReady(s)
			s.b.Pods[2].Failure, s.b.Pods[2].Since = "", s.now.Add(-time.Hour)
			s.forced = "v2"
		}, true, ""},
		{"half starting, forced", func(s scene) { alsoReady(s); s.b.Pods[2].Failure, s.forced = "", "v2" }, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(strategy(nil), 2, 3)
			b := w.subsets[1]
			b.FirstRolloutPending, b.Observed.CurrentHash, b.Observed.Partition = true, "v0", 0
			for i := range b.Observed.Pods[:2] {
				b.Observed.Pods[i].Hash = "v0"
			}
			w.fail(1, 2)
			c.change(scene{w, b.Observed})
			in := w.roll("v2").input()
			in.State = coordination.Coordinate(in).State // the new state is put on record first
			p := coordination.Coordinate(in)
			if a := p.Subsets[0]; w.subsets[0].Revision != "v2" && a.Partition != coordination.Held {
				t.Error("what works is not staged first:", a.DesiredPartition)
			}
			if open := p.Subsets[1].Partition == 0; open != c.open {
				t.Error("open", open, p.Subsets[1])
			}
			if c.message != "" && (p.State.Message != c.message || !p.Stalled) {
				t.Error(p.State)
			}
		})
	}
}

// The reason for a partition that goes up: the user's floor, or an edited step.
func TestWhyAPartitionGoesUp(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Partition = amount("1") }), 3)
	w.roll("v2").settle()
	w.strategy.Partition = amount("2")
	if does := w.decide().Subsets[0].ChangeReason; does != "set by spec.updateStrategy: partition 2 of 3 replicas protects 2" {
		t.Error(does)
	}
	w = newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("1"), Pause: &v1alpha1.RolloutPause{}}}
	}), 3)
	w.roll("v2").settle()
	w.strategy.Steps[0].Partition = amount("2")
	if does := w.decide().Subsets[0].ChangeReason; does != "step 1 of 1 releases no more" {
		t.Error(does)
	}
}

func TestSteps(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Steps = []v1alpha1.RolloutStep{
			{Subsets: []string{"a"}, Partition: amount("90%"), Pause: &v1alpha1.RolloutPause{}},
			{Subsets: []string{"a"}, Partition: amount("0%"), Pause: &v1alpha1.RolloutPause{Duration: "10m"}},
		}
	}), 4, 4).roll("v2")
	w.settle()
	if fmt.Sprint(w.updated()) != "[1 0]" || w.state.Phase != v1alpha1.RolloutAwaitingApproval || w.state.ApprovalKey == "" {
		t.Fatal(w.picture())
	}
	w.approved = "stale"
	w.settle()
	if w.state.Step != 0 {
		t.Fatal(w.picture())
	}
	w.approved = w.state.ApprovalKey
	for range 20 {
		w.round()
	}
	if fmt.Sprint(w.updated()) != "[4 0]" || w.state.Phase != v1alpha1.RolloutPaused {
		t.Fatal(w.picture())
	}
	w.now = w.last.Wake
	w.settle()
	if !w.complete() {
		t.Fatal(strings.Join(w.story, "\n"))
	}
	w.roll("v3").settle()
	if w.state.Step != 0 || w.state.Phase != v1alpha1.RolloutAwaitingApproval {
		t.Error("an old approval opens a step of another revision", w.state)
	}
	w.approved = w.state.ApprovalKey
	w.roll("v2").settle() // the steps are skipped: all replicas ran v2 last
	if !w.complete() {
		t.Error("going back waits", w.state)
	}
	w.roll("v3").settle()
	if w.state.Phase != v1alpha1.RolloutAwaitingApproval {
		t.Error("an approval of the last time opens a step of the same revision", w.state)
	}
}
