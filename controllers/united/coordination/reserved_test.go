// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"testing"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// starve takes the node from the top replicas of a subset that are reserved.
func (w *world) starve() {
	for _, c := range w.subsets {
		for i := range c.Observed.Pods {
			if m := &c.Observed.Pods[i]; m.Position >= c.desired-c.Reserved {
				m.Ready, m.ReadySince, m.NeverReady = false, time.Time{}, true
				m.Unschedulable, m.UnschedulableSince = "0/6 nodes are available", m.Created
			}
		}
	}
}

// Reserved replicas neither use the ledger nor hold up a step or skew, and never fail. The new revision reaches
// them, and the replicas behind them.
func TestReservedReplicas(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.RollingUpdate)
		most int
	}{
		"one at a time": {func(*v1alpha1.RollingUpdate) {}, 1},
		"a percentage":  {func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("50%") }, 3}, // of 6
		"of each subset": {func(s *v1alpha1.RollingUpdate) { // one of two, and one of four
			s.MaxUnavailable, s.MaxUnavailablePerSubset = amount("100%"), amount("25%")
		}, 2},
		"skew":    {func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable, s.MaxSkew = amount("2"), "10%" }, 2},
		"in turn": {func(s *v1alpha1.RollingUpdate) { s.Order = v1alpha1.SequentialOrder }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(strategy(tc.edit), 4, 4).roll("v2")
			w.subsets[0].Reserved = 2
			w.starve()
			w.mostUnavailable = 0
			for range 60 {
				w.round()
				w.starve()
			}
			if w.state.Phase != v1alpha1.RolloutDone || w.last.Stalled || w.running("v2") != 8 {
				t.Fatalf("%s: %s; %d of 8\n%v", w.state.Phase, w.state.Message, w.running("v2"), w.narrative)
			}
			if most := w.mostUnavailable - 2; most > tc.most {
				t.Errorf("%d beside what is reserved are unavailable\n%v", most, w.narrative)
			}
			w.now = w.now.Add(time.Hour)
			if w.decide(); w.state.Phase != v1alpha1.RolloutDone || w.last.Stalled {
				t.Errorf("an hour later: %s: %s", w.state.Phase, w.state.Message)
			}
			w.subsets[0].Reserved = 0 // the control: then they are missed
			if w.decide(); w.state.Phase == v1alpha1.RolloutDone {
				t.Error("they are not missed")
			}
		})
	}
}

// If no subset has room for a replica, there are more replicas without a node than reserved ones. Those count as
// unavailable: with one of them, and maxUnavailable 1, no available replica is released. The highest one of them is
// released first, because the new revision may need less room.
func TestMissingBesideReservedReplicas(t *testing.T) {
	w := newWorld(strategy(nil), 3, 3).roll("v2")
	a := w.subsets[0]
	starve := func() {
		a.Reserved = 2
		w.starve()
		a.Reserved = 1
	}
	starve()
	w.mostUnavailable = 0
	for range 30 {
		w.round()
		starve()
	}
	if w.mostUnavailable > 2 || w.running("v2") != 1 || a.member(2).Hash != "v2" {
		t.Fatalf("two have no node, and %d are unavailable; %d are updated\n%v", w.mostUnavailable, w.running("v2"), w.narrative)
	}
	a.Reserved = 0 // the control: nodes have room again
	for i := range a.Observed.Pods {
		a.Observed.Pods[i].Unschedulable = ""
	}
	for range 60 {
		w.ready()
		w.round()
	}
	if w.state.Phase != v1alpha1.RolloutDone {
		t.Errorf("%s: %s\n%v", w.state.Phase, w.state.Message, w.narrative)
	}
}
