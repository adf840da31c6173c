// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/simulation"
)

// adaptive lets replicas that fit on no node go to another subset.
func (s *scene) adaptive(strategy v1alpha1.ScheduleStrategyType) *scene {
	s.Edit("schedule strategy "+string(strategy), func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.Topology.ScheduleStrategy = &v1alpha1.ScheduleStrategy{Type: strategy}
	})
	return s
}

// askedEach returns the replicas in the specs of the children.
func (s *scene) askedEach() string {
	s.API.Refresh()
	var said []string
	for _, subset := range s.status().Subsets {
		replicas, _, _ := unstructured.NestedInt64(s.API.Live.Sets["web-"+subset.Name].Object, "spec", "replicas")
		said = append(said, fmt.Sprint(replicas))
	}
	return strings.Join(said, ",")
}

func schedulable(s v1alpha1.SubsetStatus) metav1.Condition {
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSchedulable); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// A subset without room is capped: first the status reports that, then its new replicas go elsewhere, and it keeps
// those that it has. When the cap ends, no replica is moved. All of this is reported once.
func TestAdaptive(t *testing.T) {
	for _, rolling := range []bool{false, true} {
		t.Run(fmt.Sprintf("rolling %t", rolling), func(t *testing.T) {
			s := newScene(t).settled().adaptive(v1alpha1.AdaptiveScheduleStrategy)
			if rolling {
				s.rolling()
			}
			s.settled()
			if got := s.askedEach(); got != "2,2" {
				t.Fatal("what there is stays:", got)
			}
			s.replicas(6).pass().moves("a", "b").fitsOnNoNode("a-2").fitsOnNoNode("a-3").pass()
			if got := s.askedEach(); got != "4,2" {
				t.Fatal("in list order:", got)
			}
			s.later(25 * time.Second).pass()
			if s.subset("a").Cap != nil {
				t.Error("too soon")
			}
			s.later(5 * time.Second).pass()
			was := s.subset("a")
			if was.Cap == nil || was.Cap.Replicas != 2 || was.Cap.ClearedTime != nil || s.askedEach() != "4,2" {
				t.Fatalf("it is put on record first: %+v, %s", was.Cap, s.askedEach())
			}
			s.pass()
			if got := s.askedEach(); got != "2,4" {
				t.Error("half a minute later:", got)
			}
			if c := schedulable(s.subset("a")); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonUnschedulable ||
				!strings.HasPrefix(c.Message, "Capped at 2 replicas: no node fits web-a-2 (unschedulable since ") || !strings.Contains(c.Message, "6 Insufficient cpu") {
				t.Errorf("%+v", c)
			}
			s.settled()
			if c := schedulable(s.subset("a")); c.Reason != v1alpha1.ReasonRetryLater || s.conditionOf(v1alpha1.ConditionReady).Status != metav1.ConditionTrue {
				t.Errorf("%+v; %s", c, s.told())
			}

			s.restIsQuiet(t)
			s.replicas(7).settled()
			if got := s.askedEach(); got != "2,5" {
				t.Error("capped:", got)
			}
			s.later(301 * time.Second).pass().pass()
			if c := schedulable(s.subset("a")); s.askedEach() != "2,5" || s.subset("a").Cap != nil || c.Status != metav1.ConditionTrue {
				t.Errorf("over: %s, %+v", s.askedEach(), c)
			}
			s.restIsQuiet(t)
			s.replicas(8).settled()
			if got := s.askedEach(); got != "3,5" {
				t.Error("tried again:", got)
			}
			for _, reason := range []string{"Warning " + v1alpha1.EventSubsetCapped, "Normal " + v1alpha1.EventSubsetUncapped} {
				if got := slices.DeleteFunc(slices.Clone(s.Recorded.Events), func(e string) bool { return !strings.Contains(e, reason) }); len(got) != 1 {
					t.Errorf("%s: %v", reason, s.Recorded.Events)
				}
			}
			s.adaptive(v1alpha1.FixedScheduleStrategy).settled()
			if a := s.subset("a"); s.askedEach() != "4,4" || len(a.Conditions) > 0 {
				t.Errorf("Fixed: %s, %+v", s.askedEach(), a)
			}
		})
	}
}

// restIsQuiet checks that passes write nothing.
func (s *scene) restIsQuiet(t *testing.T) {
	t.Helper()
	s.pass()
	writes := len(s.API.Writes)
	if s.pass().pass(); len(s.API.Writes) > writes {
		t.Error("at rest:", s.API.Writes[writes:])
	}
}

// Replicas without a node stay, others are made beside them, and a new image reaches all. When they have a node, the others go.
func TestReserve(t *testing.T) {
	for _, strategy := range []v1alpha1.UpdateStrategyType{v1alpha1.ManualUpdateStrategy, v1alpha1.RollingUpdateStrategy} {
		t.Run(string(strategy), func(t *testing.T) { testReserve(t, strategy) })
	}
}

func testReserve(t *testing.T, strategy v1alpha1.UpdateStrategyType) {
	s := newScene(t).replicas(2).settled()
	s.Edit("reserve", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.Topology.ScheduleStrategy = &v1alpha1.ScheduleStrategy{
			Type: v1alpha1.AdaptiveScheduleStrategy, Adaptive: &v1alpha1.AdaptiveScheduling{ReserveUnschedulablePods: true},
		}
		spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: strategy, ManualUpdate: simulation.Released()}
		if strategy == v1alpha1.RollingUpdateStrategy {
			spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: strategy, RollingUpdate: &v1alpha1.RollingUpdate{}}
		}
	})
	s.settled()
	if got := s.askedEach(); got != "2,0" {
		t.Fatal("it is filled in order:", got)
	}
	s.replicas(4).pass().moves("a", "b").fitsOnNoNode("a-2").fitsOnNoNode("a-3").pass()
	s.later(31 * time.Second).pass().pass()
	if a := s.subset("a"); s.askedEach() != "4,2" || a.Cap == nil || a.Cap.Replicas != 2 || a.Cap.Reserved != 2 {
		t.Fatalf("%s, %+v", s.askedEach(), a.Cap)
	}
	for range 5 {
		s.moves("a", "b").kubelets("b-0", "b-1").pass()
	}
	if c := s.conditionOf(v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || s.subset("a").Phase != v1alpha1.PhaseComplete {
		t.Fatal("what is reserved is outside of Ready:", s.told())
	}
	s.later(time.Hour).pass()
	if c := s.conditionOf(v1alpha1.ConditionStalled); c.Status != metav1.ConditionFalse {
		t.Error("it never fails:", s.told())
	}
	s.restIsQuiet(t)

	s.image("v2").pass()
	for range 20 {
		s.moves("a", "b").kubelets("a-0", "a-1", "b-0", "b-1")
		for _, name := range []string{"a-2", "a-3"} {
			if pod := s.API.Live.Pods["web-"+name]; pod != nil && pod.DeletionTimestamp != nil {
				s.Sets.Kubelet("web-" + name)
			} else if pod != nil && len(pod.Status.Conditions) == 0 {
				s.fitsOnNoNode(name)
			}
		}
		s.later(2 * time.Second).pass()
	}
	if c := s.conditionOf(v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonRolloutComplete || s.status().UpdatedReplicas != 6 || s.askedEach() != "4,2" {
		t.Fatal("a new image reaches all:", s.askedEach(), s.told())
	}
	s.restIsQuiet(t)
	s.settled()
	if a := s.subset("a"); s.askedEach() != "4,2" && s.askedEach() != "4,0" || a.ReadyReplicas != 4 {
		t.Error(s.askedEach(), s.told())
	}
	s.later(301 * time.Second).settled()
	if got := s.askedEach(); got != "4,0" {
		t.Error("a node has come:", got)
	}
}
