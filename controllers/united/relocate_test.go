// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/simulation"
)

// relocated gives subsets another nodeSelector, as if they had been removed and added again.
func (s *scene) relocated(subsets ...string) *scene {
	s.Oracle.LeaveToTest()
	for _, name := range subsets {
		s.EditSubset("nodeSelector", name, func(sub *v1alpha1.Subset) {
			sub.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"new-" + name}}},
			}}}
		})
	}
	return s
}

// placed returns which children have their new placement.
func (s *scene) placed() (names []string) {
	for name, set := range s.API.Live.Sets {
		if strings.Contains(fmt.Sprint(set.Object["spec"]), "new-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *scene) readyPods() (n int) {
	for _, p := range s.API.Live.Pods {
		if simulation.IsReady(p) && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// untilMoved lets everything happen, and checks after each step how many pods are ready, and what they run.
func (s *scene) untilMoved(t *testing.T, least int, want ...string) {
	t.Helper()
	runs := simulation.PodContent(s.API.Live.Pods["web-b-0"])
	check := func() {
		t.Helper()
		if n := s.readyPods(); n < least {
			t.Fatalf("%d replicas are ready, want %d:\n%s", n, least, s.told())
		}
		for name, p := range s.API.Live.Pods {
			if simulation.PodContent(p) != runs {
				t.Fatalf("%s runs what is not released:\n%s", name, s.told())
			}
		}
	}
	for range 80 {
		s.pass()
		check()
		for _, name := range []string{"a", "b"} {
			for range 3 {
				s.moves(name)
				check()
			}
		}
		s.kubelets("a-0", "a-1", "a-2", "a-3", "b-0", "b-1", "b-2", "b-3")
		check()
	}
	s.settled()
	if got := s.placed(); !slices.Equal(got, want) {
		t.Errorf("%v are on their new nodes, want %v:\n%s", got, want, s.told())
	}
}

// TestRelocated: subsets that were removed and added again with another nodeSelector while nobody looked are drained and
// made anew, one after the other, within maxUnavailable, and on the version that they protect.
func TestRelocated(t *testing.T) {
	for name, change := range map[string]func(*scene) *scene{
		"at rest":          func(s *scene) *scene { return s },
		"a version staged": func(s *scene) *scene { return s.holding().image("v2").settled() },
	} {
		t.Run(name, func(t *testing.T) {
			s := change(newScene(t).rolling().settled()).relocated("a", "b")
			s.untilMoved(t, 3, "web-a", "web-b")
			if ready := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionReady); ready.Status != "True" {
				t.Error(s.told())
			}
		})
	}
	t.Run("one of them", func(t *testing.T) {
		newScene(t).rolling().settled().relocated("b").untilMoved(t, 3, "web-b")
	})
	t.Run("by hand, held", func(t *testing.T) { // a removed child is deleted at once
		newScene(t).settled().image("v2").settled().relocated("a", "b").untilMoved(t, 2, "web-a", "web-b")
	})
	t.Run("there is no other", func(t *testing.T) {
		s := newScene(t).rolling().settled().comeOrGo("a")
		s.passes(2).settled()
		s.relocated("b").untilMoved(t, 4)
		stalled := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionStalled)
		if stalled.Reason != v1alpha1.ReasonNodeSelectorChanged || !strings.Contains(stalled.Message, "no other subset can take its replicas meanwhile") {
			t.Errorf("%s: %s", stalled.Reason, stalled.Message)
		}
		s.replicas(6).passes(2).settled()
		if n := s.readyPods(); n != 6 {
			t.Errorf("it does not scale: %d\n%s", n, s.told())
		}
		s.replicas(0).passes(3).settled()
		s.replicas(2).passes(3).settled()
		if got := s.placed(); !slices.Equal(got, []string{"web-b"}) || s.readyPods() != 2 {
			t.Errorf("scaled to 0, it is made anew: %v\n%s", got, s.told())
		}
	})
}
