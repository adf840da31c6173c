// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/simulation"
)

// asked returns the total of the replicas in the specs of the children.
func (s *scene) asked() int64 {
	total := int64(0)
	for _, name := range []string{"a", "b", "c"} {
		if u := s.API.Live.Sets["web-"+name]; u != nil && u.GetLabels()[v1alpha1.LabelName] == "web" {
			spec, _ := u.Object["spec"].(map[string]any)
			replicas, _ := spec["replicas"].(int64)
			total += replicas
		}
	}
	return total
}

// TestARefusedChildCostsTheOthersNothing: the child of a third subset is rejected, and the first two keep the replicas
// that it should take over, until it can be created, or until the parent itself should have fewer.
func TestARefusedChildCostsTheOthersNothing(t *testing.T) {
	for _, change := range []func(*scene) *scene{
		func(s *scene) *scene { return s },
		func(s *scene) *scene { return s.rolling() },
	} {
		s := change(newScene(t).replicas(6)).settled()
		s.stranger("web-c").comeOrGo("c")
		for range 5 {
			s.pass().moves("a", "b")
			if n := s.asked(); n < 6 {
				t.Fatalf("%d replicas are left:\n%s", n, s.told())
			}
		}
		if told := s.told(); !strings.Contains(told, "until c can grow") {
			t.Error("nothing is said of it:\n" + told)
		}
		s.replicas(3).pass().pass()
		for range 20 {
			s.pass().moves("a", "b").kubelets("a-0", "a-1", "a-2", "b-0", "b-1", "b-2")
		}
		if n := s.asked(); n > 3 {
			t.Errorf("a control: the parent is to have 3, and there are %d:\n%s", n, s.told())
		}
		delete(s.API.Live.Sets, "web-c")
		s.passes(1).settled()
		if n := s.asked(); n != 3 || s.API.Live.Sets["web-c"] == nil {
			t.Errorf("it does not even out:\n%s", s.told())
		}
	}
}

// TestARemovalWaitsForARefusedChild: a subset is not removed either if the rejected one should replace it.
func TestARemovalWaitsForARefusedChild(t *testing.T) {
	s := newScene(t).settled().stranger("web-c").comeOrGo("c").comeOrGo("b")
	s.passes(3)
	if s.API.Live.Sets["web-b"] == nil || s.asked() < 4 {
		t.Fatal(s.told())
	}
	delete(s.API.Live.Sets, "web-c")
	s.passes(2)
	if s.API.Live.Sets["web-b"] != nil {
		t.Error("a control: b goes when c can come:\n" + s.told())
	}
}

// TestARevisionThatCannotBeKeptStopsTheRolloutAlone: scaling and repair continue.
func TestARevisionThatCannotBeKeptStopsTheRolloutAlone(t *testing.T) {
	s := newScene(t).settled()
	s.API.Unkept = errors.New("exceeded quota")
	s.image("v2").replicas(6)
	for range 12 {
		s.passes(1)
		s.Everybody()
	}
	for _, name := range []string{"a", "b"} {
		for _, p := range s.PodsOf(s.Child(name)) {
			if simulation.PodContent(p) != "v1" {
				t.Errorf("%s runs %s", p.Name, simulation.PodContent(p))
			}
		}
	}
	if s.asked() != 6 || !meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionStalled) {
		t.Errorf("%d replicas\n%s", s.asked(), s.told())
	}
	s.API.Unkept = nil
	s.passes(1).settled()
	if told := s.told(); !strings.Contains(told, "update v2") || strings.Contains(told, "Stalled") {
		t.Error("a control: it goes on when the quota is lifted:\n" + told)
	}
}

// TestARevisionThatCannotBeAmendedStopsTheRolloutAlone: a new subset must be added to the revision in use.
func TestARevisionThatCannotBeAmendedStopsTheRolloutAlone(t *testing.T) {
	s := newScene(t).settled().comeOrGo("c")
	s.API.Fail = errors.New("etcd is away") // the result of the next write, which is that amendment
	if s.pass(); s.status().ObservedGeneration != s.Parent().Generation {
		t.Error(s.told())
	}
	if s.passes(1).settled(); s.API.Live.Sets["web-c"] == nil {
		t.Error("a control: it goes on:\n" + s.told())
	}
}

// TestWithoutReplicasItIsReady: there is nothing to wait for, and no rollout is completed.
func TestWithoutReplicasItIsReady(t *testing.T) {
	s := newScene(t).rolling().settled()
	s.replicas(0).settled().image("v2").settled()
	if ready := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionReady); ready.Status != "True" || s.status().Rollout.Phase == v1alpha1.RolloutDone {
		t.Error(s.told())
	}
	if s.status().CurrentRevision == s.status().UpdateRevision {
		t.Error("it has finished:", s.told())
	}
	s.replicas(4).settled()
	if told := s.told(); !strings.Contains(told, "current v2, update v2") {
		t.Error("it does not go on from 0:\n" + told)
	}
}

// TestAFrozenRolloutSaysWhy: the status says that it is paused only if the user paused it.
func TestAFrozenRolloutSaysWhy(t *testing.T) {
	s := newScene(t).rolling().settled().image("v2")
	s.API.Fail = errAway
	if message := s.pass().status().Rollout.Message; !strings.HasPrefix(message, "the rollout is frozen: create revision web-") {
		t.Errorf("have %q", message)
	}
	s.API.Fail = nil
	s.pass().image("v3").pass().paused(true).pass()
	if message := s.status().Rollout.Message; message != "the rollout is paused (spec.paused)" {
		t.Errorf("have %q", message)
	}
}

// TestPausedWithAnotherTemplate: a rollout is paused in the middle, and gets another template. That is a deliberate
// stop, and Ready; when resumed, it continues with that template, or goes back to the previous one.
func TestPausedWithAnotherTemplate(t *testing.T) {
	for name, then := range map[string]string{"it goes on to the other": "v3", "it goes on": "v2"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).rolling().settled().image("v2")
			for range 100 {
				if s.status().UpdatedReadyReplicas == 1 && s.status().ReadyReplicas == 4 {
					break
				}
				s.Everybody()
			}
			s.paused(true).image("v3").settled()
			if told := s.told(); !strings.Contains(told, "Ready True Paused") || s.status().Rollout.Phase != v1alpha1.RolloutPaused {
				t.Error(told, s.status().Rollout)
			}
			s.image(then).settled()
			if told := s.told(); !strings.Contains(told, "Ready True Paused") {
				t.Error(told)
			}
			s.paused(false).settled()
			if told := s.told(); !strings.Contains(told, "current "+then+", update "+then) {
				t.Error(told)
			}
		})
	}
}

// TestPausedWithoutReplicas: a rollout is scaled to zero and paused at the same time. That is a deliberate stop, and
// Ready; when resumed with replicas, it continues. (test/deploymentworlds found it.)
func TestPausedWithoutReplicas(t *testing.T) {
	for name, before := range map[string]int{"just begun": 1, "on its way": 20} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).rolling().settled().image("v2").passes(before)
			if phase := s.status().Rollout.Phase; phase == v1alpha1.RolloutDone {
				t.Fatal("the control: it is under way, and not ", phase)
			}
			s.replicas(0).paused(true).settled()
			if told := s.told(); !strings.Contains(told, "Ready True Paused") || s.status().Rollout.Phase != v1alpha1.RolloutPaused {
				t.Error(told, s.status().Rollout)
			}
			s.paused(false).settled()
			if told := s.told(); !strings.Contains(told, "Ready True RolloutHeld") {
				t.Error(told, s.status().Rollout)
			}
			s.replicas(4).settled()
			if told := s.told(); !strings.Contains(told, "Ready True RolloutComplete") || !strings.Contains(told, "update v2") {
				t.Error(told)
			}
		})
	}
}
