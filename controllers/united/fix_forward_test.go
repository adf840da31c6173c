// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"

	"github.com/unitedworkloads/united/test/simulation"
)

// With OrderedReady a StatefulSet waits for a failed replica, and so never replaces it by itself.
func TestFixForward(t *testing.T) {
	for name, s := range map[string]*scene{"Parallel": newScene(t), "OrderedReady": newScene(t).ordered()} {
		s.settled().partition("", "0").image("broken1").settled().image("v2").settled()
		s.Judge(true)
		if current := s.words(s.status().CurrentRevision); current != "v2" {
			t.Error(name, current)
		}
		told := strings.Contains(strings.Join(s.heard(), "\n"), "Normal StuckReplicaDeleted web-a: a: deleted web-a-1, because it is broken or was released and does not run v2")
		if told != (name == "OrderedReady") {
			t.Error(name, "deleted", told)
		}
	}
}

func TestStuckReplicasAreNotDeletedWhilePaused(t *testing.T) {
	s := newScene(t).ordered().settled().partition("", "0").image("broken1").settled().image("v2").pass().paused(true).settled()
	if heard := strings.Join(s.heard(), "\n"); strings.Contains(heard, "StuckReplicaDeleted") {
		t.Error(heard)
	}
	if pod := s.API.Live.Pods["web-a-1"]; simulation.PodContent(pod) != "broken1" {
		t.Error("web-a-1 is on", simulation.PodContent(pod))
	}
	if s.paused(false).settled(); !strings.Contains(strings.Join(s.heard(), "\n"), "StuckReplicaDeleted web-a: a: deleted web-a-1") {
		t.Error("it is not deleted afterwards")
	}
}

// A first template that never worked is replaced by a corrected one, whatever the partitions are.
func TestCorrectedFirstTemplate(t *testing.T) {
	for name, s := range map[string]*scene{"Parallel": newScene(t), "OrderedReady": newScene(t).ordered()} {
		s.image("broken1").settled().image("v2").settled()
		s.Judge(true)
		if got := s.told(); !strings.Contains(got, "4/4/4/4/4 of 4; current v2, update v2") {
			t.Error(name, got)
		}
	}
}
