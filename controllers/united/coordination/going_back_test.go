// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"strings"
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestTheWayBackIsAModeOfItsOwn: if a version is unready everywhere, all replicas come back at once, regardless of
// skew and order.
func TestTheWayBackIsAModeOfItsOwn(t *testing.T) {
	for _, change := range []func(*v1alpha1.RollingUpdate){
		func(*v1alpha1.RollingUpdate) {},
		func(s *v1alpha1.RollingUpdate) { s.MaxSkew = "10%" },
		func(s *v1alpha1.RollingUpdate) { s.Order = v1alpha1.SequentialOrder },
		func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amount("50%"), Pause: &v1alpha1.RolloutPause{}}}
		},
	} {
		w := newWorld(strategy(change), 4, 4).roll("v2")
		w.started(3, 2)
		w.flap(0, 1, 2, 3)
		w.flap(1, 2, 3)
		w.roll("v1").decide()
		for _, c := range w.subsets { // the sets know only v1 now
			c.Observed.CurrentHash, c.Observed.UpdateHash = "v1", "v1"
		}
		w.decide()
		if w.deleted() != "web-a-3 web-a-2 web-a-1 web-b-3 web-b-2" {
			t.Errorf("deletes %q\n%s", w.deleted(), strings.Join(w.narrative, "\n"))
		}
		w.settle()
		if w.state.Phase != v1alpha1.RolloutDone {
			t.Error(w.picture())
		}
	}
}

// TestTheWayBackKeepsReadyReplicas: a higher minReadySeconds makes all replicas unavailable, and they serve all the same.
func TestTheWayBackKeepsReadyReplicas(t *testing.T) {
	for _, flapped := range []int32{0, 2} {
		w := newWorld(nil, 3, 3).roll("v2")
		w.started(3, 3)
		for p := range flapped {
			w.flap(0, 2-p)
		}
		for _, c := range w.subsets {
			c.Observed.MinReadySeconds = 30
		}
		w.roll("v1")
		for range 5 {
			w.decide()
		}
		released := int32(0)
		for _, c := range w.subsets {
			released += c.desired - min(c.desired, c.Observed.Partition)
		}
		if want := max(1, flapped); released != want {
			t.Errorf("%d released instead of %d\n%s", released, want, strings.Join(w.narrative, "\n"))
		}
	}
}

// TestTheWayBackBlockedByAFailedReplica: the failed replica runs what all go back to, so only a person can help the others.
func TestTheWayBackBlockedByAFailedReplica(t *testing.T) {
	for _, most := range []string{"1", "2"} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount(most) }), 3, 3).roll("v2")
		w.started(3, 0)
		w.fail(1, 1)
		w.roll("v1")
		for range 3 {
			w.decide()
		}
		blocked := w.state.Phase == v1alpha1.RolloutBlocked && strings.Contains(w.state.Message, "blocked by web-b-1") &&
			strings.Contains(w.state.Message, "raise maxUnavailable, or force the rollout")
		if moves := w.subsets[0].Observed.Partition < 3; blocked == moves || moves != (most == "2") {
			t.Errorf("maxUnavailable %s: %s: %s\n%s", most, w.state.Phase, w.state.Message, w.picture())
		}
	}
}

// TestAPendingReplicaStopsNoWayBack: unready replicas are all released at once, though one that is back does not
// come up.
func TestAPendingReplicaStopsNoWayBack(t *testing.T) {
	w := newWorld(nil, 4).roll("v2")
	w.started(3)
	w.flap(0, 0, 1, 2, 3) // 0 is on v1, and will not come up
	w.roll("v1").decide()
	w.subsets[0].Observed.CurrentHash, w.subsets[0].Observed.UpdateHash = "v1", "v1"
	if w.decide(); w.deleted() != "web-a-3 web-a-2 web-a-1" {
		t.Errorf("deletes %q\n%s", w.deleted(), w.picture())
	}
}

// TestAThirdVersionRepairsTheSecond: v2 never gets ready and does not crash. On the way to v3, replicas of v2 are
// replaced, because nobody asks for v2 any more.
func TestAThirdVersionRepairsTheSecond(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		w := newWorld(nil, 3)
		if ordered {
			w.ordered()
		}
		w.roll("v2").started(2)
		c := w.subsets[0]
		c.Observed.Partition = 0
		c.drop(0)
		w.make(c, 0, "v2")
		c.member(0).NeverReady = true
		w.roll("v3").decide()
		w.decide()
		if w.deleted() != "web-a-0" {
			t.Errorf("ordered=%v: deletes %q\n%s", ordered, w.deleted(), w.picture())
		}
		w.settle()
		if w.state.Phase != v1alpha1.RolloutDone {
			t.Errorf("ordered=%v: it does not end: %s", ordered, w.picture())
		}
	}
}

// TestNewReplicasOnTheWayBack come up on the proven revision: nothing would be gained by one more replica of what is left.
func TestNewReplicasOnTheWayBack(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.MaxUnavailable = amount("1")
		s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amount("0"), Pause: &v1alpha1.RolloutPause{}}}
	}), 2, 2).roll("v2")
	if w.settle(); w.running("v2") != 2 {
		t.Fatal("the control:", w.picture())
	}
	w.roll("v1").round()
	for _, c := range w.subsets {
		c.desired = 0
	}
	if w.settle(); w.running("v2")+w.running("v1") != 0 {
		t.Fatal("the control:", w.picture())
	}
	for _, c := range w.subsets {
		c.desired = 2
	}
	for range 20 {
		if w.round(); w.running("v2") != 0 {
			t.Fatal("on v2:", w.picture())
		}
	}
	if w.running("v1") != 4 {
		t.Error(w.picture())
	}
}
