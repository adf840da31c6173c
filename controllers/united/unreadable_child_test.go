// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/unreadable"
)

// standsIn returns a stand-in when it reads a child.
type standsIn struct {
	client.Client
	name string
}

func (c standsIn) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	sets, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return err
	}
	for i := range sets.Items {
		if sets.Items[i].GetName() == c.name {
			standIn := sets.Items[i].DeepCopy()
			delete(standIn.Object, "spec")
			standIn.SetAnnotations(map[string]string{unreadable.Annotation: "it is nested too deep"})
			sets.Items[i] = *standIn
		}
	}
	return err
}

// unreadable makes the child of a subset unreadable for the controller, until the returned function is called.
func (s *scene) unreadable(subset string) (readable func()) {
	all := s.Reconciler.Client
	s.Reconciler.Client = standsIn{all, s.Child(subset)}
	return func() { s.Reconciler.Client = all }
}

// goesOn runs everything for a while, but only the StatefulSets of the given subsets.
func (s *scene) goesOn(subsets ...string) *scene {
	for range 6 {
		s.pass().moves(subsets...)
		for name := range s.API.Live.Pods {
			s.kubelets(strings.TrimPrefix(name, "web-"))
		}
	}
	return s.pass()
}

// specOf identifies a child and its version.
func (s *scene) specOf(subset string) string {
	set := s.API.Live.Sets[s.Child(subset)]
	if set == nil {
		return "gone"
	}
	return string(set.GetUID()) + " " + set.GetResourceVersion()
}

func (s *scene) condition(conditionType string) string {
	c := meta.FindStatusCondition(s.status().Conditions, conditionType)
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func (s *scene) subset(name string) v1alpha1.SubsetStatus {
	for _, sub := range s.status().Subsets {
		if sub.Name == name {
			return sub
		}
	}
	return v1alpha1.SubsetStatus{}
}

const cannotBeRead = "StatefulSet web-a cannot be read: it is nested too deep; United leaves the subset unchanged until it can read it again"

// A child that cannot be read affects only its own subset.
func TestAnUnreadableChild(t *testing.T) {
	s := newScene(t).settled()
	readable := s.unreadable("a")
	was := s.specOf("a")
	s.image("v2").partition("a", "0").partition("b", "0").goesOn("b")
	if got := s.specOf("a"); got != was {
		t.Errorf("it was written: %s, %s", was, got)
	}
	a, b := s.subset("a"), s.subset("b")
	if b.Phase != v1alpha1.PhaseComplete || b.UpdatedReadyReplicas != 2 {
		t.Errorf("b does not go on: %+v", b)
	}
	if a.Phase != v1alpha1.PhaseStalled || a.Message != cannotBeRead || a.AvailableReplicas != 2 || a.UpdatedReplicas != 0 || a.Partition != 2 || a.ChildRecord == nil {
		t.Errorf("a is told as %+v", a)
	}
	if got, want := s.condition(v1alpha1.ConditionStalled), "True Unreadable: a: "+cannotBeRead; got != want {
		t.Errorf("want %s\nhave %s", want, got)
	}
	if got := s.condition(v1alpha1.ConditionAvailable); !strings.HasPrefix(got, "Unknown Unreadable: 4 of 4 replicas were available when last seen: ") {
		t.Error(got)
	}
	if status := s.status(); status.CurrentRevision == status.UpdateRevision {
		t.Error("the rollout is taken for finished")
	}
	readable()
	s.settled()
	if a := s.subset("a"); a.Phase != v1alpha1.PhaseComplete || meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionStalled) {
		t.Errorf("it does not go on when it can be read again: %+v", a)
	}
}

// No other subset loses replicas that a subset with an unreadable child would have to replace, and a smaller total
// removes replicas only from the others.
func TestNothingGoesForAnUnreadableChild(t *testing.T) {
	s := newScene(t).settled()
	s.unreadable("a")
	s.wish("a", "3").wish("b", "1").goesOn("b")
	if got, want := s.subset("b").Replicas, int32(2); got != want {
		t.Errorf("b has %d replicas, not %d: %s", got, want, s.message("b"))
	}
	if !strings.Contains(s.message("b"), "keeping 2 replicas until a can grow") {
		t.Error(s.message("b"))
	}
	s.wish("a", "1").wish("b", "1").replicas(2).goesOn("b")
	if got, want := s.subset("b").Replicas, int32(1); got != want {
		t.Errorf("b has %d replicas, not %d: %s", got, want, s.message("b"))
	}
}

// The child of a removed subset stays until it can be read.
func TestAnUnreadableChildIsNotRemoved(t *testing.T) {
	for _, strategy := range []v1alpha1.UpdateStrategyType{v1alpha1.ManualUpdateStrategy, v1alpha1.RollingUpdateStrategy} {
		t.Run(string(strategy), func(t *testing.T) {
			s := newScene(t)
			if strategy == v1alpha1.RollingUpdateStrategy {
				s.rolling()
			}
			s.settled()
			readable := s.unreadable("a")
			was := s.specOf("a")
			s.comeOrGo("a").replicas(2).goesOn("b")
			if got := s.specOf("a"); got != was || s.subset("a").Message != cannotBeRead {
				t.Errorf("%s, %s, %q", was, got, s.subset("a").Message)
			}
			readable()
			s.settled()
			if s.specOf("a") != "gone" || len(s.status().Subsets) != 1 {
				t.Error("it is still there", s.status().Subsets)
			}
		})
	}
}

// A coordinated rollout releases nothing while a child cannot be read, because it does not know what is available.
// Force does not help.
func TestNothingIsReleasedBesideAnUnreadableChild(t *testing.T) {
	s := newScene(t).rolling().settled()
	readable := s.unreadable("a")
	s.image("v2").pass()
	s.Edit("force", func(*v1alpha1.UnitedDeploymentSpec) {
		metav1.SetMetaDataAnnotation(&s.API.Live.Parents["web"].ObjectMeta, v1alpha1.AnnotationForceUpdate, s.status().UpdateRevision)
	})
	s.goesOn("b")
	if b := s.subset("b"); b.UpdatedReplicas != 0 || b.UpdateRevision == b.CurrentRevision {
		t.Errorf("b was released: %+v", b)
	}
	if r := s.status().Rollout; r.Phase != v1alpha1.RolloutBlocked || !strings.Contains(r.Message, "StatefulSet web-a cannot be read") {
		t.Errorf("%+v", r)
	}
	readable()
	s.settled()
	if r := s.status().Rollout; r.Phase != v1alpha1.RolloutDone {
		t.Errorf("it does not go on: %+v", r)
	}
}

// If the status is lost too, the child that cannot be read may be the one that protects.
func TestAnUnreadableChildAndALostStatus(t *testing.T) {
	s := newScene(t).image("broken1").settled()
	s.API.Live.Parents["web"].Status = v1alpha1.UnitedDeploymentStatus{}
	s.unreadable("a")
	s.image("v2").pass()
	for _, sub := range s.status().Subsets {
		if sub.Name == "b" && sub.Partition == 0 {
			t.Errorf("b is opened, as if nothing had ever been protected: %+v", sub)
		}
	}
}
