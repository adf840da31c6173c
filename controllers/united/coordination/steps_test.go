// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestWakesWhenACrashIsForGood: a replica that crashed once, then runs and does not become ready, causes no more
// events. It is still reported in time that it will not become ready.
func TestWakesWhenACrashIsForGood(t *testing.T) {
	w := newWorld(nil, 2).roll("v2")
	w.slow = 24 * time.Hour
	for range 5 {
		w.round()
	}
	m := w.subsets[0].member(1)
	if m.Hash != "v2" || m.Ready {
		t.Fatal(w.picture())
	}
	m.Crashed = true
	w.decide()
	if w.state.Phase != v1alpha1.RolloutFailed || w.last.Stalled {
		t.Fatal("it may come up yet", w.last.Stalled, w.state)
	}
	if end := m.Since.Add(10 * time.Minute); !w.last.Wake.Equal(end) {
		t.Fatal("want", end, "have", w.last.Wake)
	}
	w.now = w.last.Wake
	w.decide()
	if w.state.Phase != v1alpha1.RolloutFailed || !w.last.Stalled {
		t.Error("it did not come up", w.last.Stalled, w.state)
	}
}

// TestAWrongApprovalIsQuoted: completely if it is short, otherwise only its beginning, because an annotation can
// be larger than a status.
func TestAWrongApprovalIsQuoted(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("1"), Pause: &v1alpha1.RolloutPause{}}}
	}), 2).roll("v2")
	w.settle()
	for approved, want := range map[string]string{
		"stale":                    `; the annotation is "stale", which is for another step or rollout`,
		strings.Repeat("x", 40):    `; the annotation is "` + strings.Repeat("x", 40) + `", which is for another step or rollout`,
		strings.Repeat("ö", 9_999): `; the annotation begins with "` + strings.Repeat("ö", 40) + `", which is for another step or rollout`,
	} {
		w.approved = approved
		w.decide()
		if w.state.Phase != v1alpha1.RolloutAwaitingApproval || !strings.HasSuffix(w.state.Message, want) {
			t.Errorf("want ...%s\nhave %s", want, w.state.Message)
		}
	}
}

// TestWhatAnApprovalIsFor: an approval is for the running step of this rollout. Editing a later step does not
// revoke it, nor does removing a subset that a completed step names, with or without that step. Editing a
// completed step does.
func TestWhatAnApprovalIsFor(t *testing.T) {
	approve := func(subsets ...string) v1alpha1.RolloutStep {
		return v1alpha1.RolloutStep{Subsets: subsets, Pause: &v1alpha1.RolloutPause{}, Partition: amount("0%")}
	}
	for _, tc := range []struct {
		name string
		edit func(*world)
		kept bool
	}{
		{"a later step", func(w *world) { w.strategy.Steps[3] = approve("b", "c") }, true},
		{"a passed step names one less, which goes", func(w *world) {
			w.subsets = w.subsets[:2]
			w.strategy.Steps[0].Subsets = []string{"a"}
			w.strategy.Steps = slices.Delete(w.strategy.Steps, 1, 2)
		}, true},
		{"a passed step", func(w *world) { w.strategy.Steps[0].Partition = amount("1") }, false},
		{"the running step", func(w *world) { w.strategy.Steps[2].Partition = amount("1") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
				s.Steps = []v1alpha1.RolloutStep{
					{Subsets: []string{"a", "c"}, Partition: amount("2")}, {Subsets: []string{"c"}, Partition: amount("1")},
					approve("a"), approve("b"),
				}
			}), 3, 3, 3).roll("v2")
			w.settle()
			key := w.state.ApprovalKey
			if key == "" || w.state.Step != 2 {
				t.Fatalf("%+v", w.state)
			}
			tc.edit(w)
			w.settle()
			if kept := w.state.ApprovalKey == key; kept != tc.kept {
				t.Errorf("kept: %v; %+v", kept, w.state)
			}
		})
	}
}

// TestEachStepHasAnApprovalOfItsOwn, even if it asks for the same as the previous one.
func TestEachStepHasAnApprovalOfItsOwn(t *testing.T) {
	step := v1alpha1.RolloutStep{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("1"), Pause: &v1alpha1.RolloutPause{}}
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Steps = []v1alpha1.RolloutStep{step, step} }), 2).roll("v2")
	w.settle()
	w.approved = w.state.ApprovalKey
	w.settle()
	if w.state.Step != 1 || w.state.ApprovalKey == w.approved {
		t.Errorf("%+v", w.state)
	}
}

// TestEveryStepReleases: a step is reached only when it has released something in each of its subsets that has replicas, unless it
// says 100%. A number that is as large as the subset is no hold.
func TestEveryStepReleases(t *testing.T) {
	for partition, want := range map[string][]int{"2": {1, 2}, "4": {1, 1}, "99": {1, 1}, "99%": {1, 1}, "1": {1, 3}, "100%": {0, 0}} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount(partition), Pause: &v1alpha1.RolloutPause{}}}
		}), 2, 4, 0).roll("v2").settled()
		if got := w.updated(); w.state.Phase != v1alpha1.RolloutAwaitingApproval || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s released %v, want %v, %s: %s", partition, got, want, w.state.Phase, w.picture())
		}
	}
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Partition = amount("100%")
		s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("4"), Pause: &v1alpha1.RolloutPause{}}}
	}), 2, 4).roll("v2").settled()
	if got := w.updated(); got[0]+got[1] != 0 {
		t.Errorf("below the floor %v were released", got)
	}
}
