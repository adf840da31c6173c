// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// forges sets annotations on the child of a subset, and leaves no trace in its
// managedFields, as admission does while it is written. "-" removes one.
func (s *scene) forges(subset string, pairs ...string) *scene {
	u := s.API.Live.Sets["web-"+subset].DeepCopy()
	annotations := u.GetAnnotations()
	for i := 0; i < len(pairs); i += 2 {
		if annotations[pairs[i]] = pairs[i+1]; pairs[i+1] == "-" {
			delete(annotations, pairs[i])
		}
	}
	u.SetAnnotations(annotations)
	s.API.PutSet(u)
	s.Restart() // nor does the controller know it as it was
	return s
}

// forgesStatus changes the status of the parent.
func (s *scene) forgesStatus(change func(*v1alpha1.UnitedDeploymentStatus)) *scene {
	parent := s.Parent().DeepCopy()
	change(&parent.Status)
	s.API.Live.Parents["web"] = parent
	s.Restart()
	return s
}

// TestForged: what is planned in mid-canary, and what is told, is the same when the record
// of a child is forged: the copy in the status counts.
func TestForged(t *testing.T) {
	canary := func(t *testing.T) *scene {
		return newScene(t).settled().image("v2").partition("a", "1").settled()
	}
	control := canary(t)
	revision := control.API.Live.Sets["web-b"].GetAnnotations()[v1alpha1.AnnotationRevision]
	protected, generation := v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationParentGeneration
	for name, forge := range map[string]func(*scene) *scene{
		"nothing":                            func(s *scene) *scene { return s },
		"it protects the update revision":    func(s *scene) *scene { return s.forges("b", protected, revision) },
		"it protects nothing":                func(s *scene) *scene { return s.forges("b", protected, "") },
		"it does not say what":               func(s *scene) *scene { return s.forges("b", protected, "-") },
		"it says nothing, nor its checksum":  func(s *scene) *scene { return s.forges("b", protected, "-", v1alpha1.AnnotationRecordChecksum, "-") },
		"it was written from a later parent": func(s *scene) *scene { return s.forges("b", generation, "99999") },
		"all of it was released":             func(s *scene) *scene { return s.forges("a", v1alpha1.AnnotationReleasedFrom, "0") },
		"its partition is 0":                 func(s *scene) *scene { return s.forges("b", v1alpha1.AnnotationPartition, "0") },
		"the status says that it has finished": func(s *scene) *scene {
			return s.forgesStatus(func(status *v1alpha1.UnitedDeploymentStatus) { status.Subsets[1].CurrentRevision = revision })
		},
		"the status names another": func(s *scene) *scene {
			return s.forgesStatus(func(status *v1alpha1.UnitedDeploymentStatus) { status.Subsets[1].CurrentRevision = "web-0" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, then := range []struct {
				name string
				do   func(*scene) *scene
			}{
				{"at rest", func(s *scene) *scene { return s }},
				{"scaled", func(s *scene) *scene { return s.replicas(6) }},
				{"another template", func(s *scene) *scene { return s.image("v3") }},
			} {
				want, have := then.do(canary(t)).planned(), then.do(forge(canary(t))).planned()
				if diff := cmp.Diff(want, have); diff != "" || !strings.Contains(want, "protects v1") {
					t.Error(then.name, "want -, have +\n", diff)
				}
			}
			s := forge(canary(t)).settled()
			if diff := cmp.Diff(control.told(), s.told()); diff != "" {
				t.Error("told: want -, have +\n", diff)
			}
			if have := s.API.Live.Sets["web-b"].GetAnnotations()[protected]; have == revision || have == "" {
				t.Error("it is not written again:", have)
			}
		})
	}
}

// TestForgedAndNoCopy: without a copy nobody knows what is protected, and nothing is
// changed.
func TestForgedAndNoCopy(t *testing.T) {
	s := newScene(t).settled().image("v2").settled()
	revision := s.API.Live.Sets["web-b"].GetAnnotations()[v1alpha1.AnnotationRevision]
	s.forges("b", v1alpha1.AnnotationProtectedRevision, revision)
	s.forgesStatus(func(status *v1alpha1.UnitedDeploymentStatus) { status.Subsets[1].ChildRecord = nil })
	if have := s.planned(); !strings.Contains(have, "b Halt") {
		t.Error(have)
	}
}

// TestForgedAndGone: the child of a subset of which the status is forged is deleted. It is
// made again on what its copy says.
func TestForgedAndGone(t *testing.T) {
	for name, forged := range map[string]string{"finished": "v2", "something else": "-"} {
		s := newScene(t).settled().image("v2").settled()
		update := s.Parent().Status.UpdateRevision
		if forged == "-" {
			update = "web-0"
		}
		s.forgesStatus(func(status *v1alpha1.UnitedDeploymentStatus) { status.Subsets[1].CurrentRevision = update })
		delete(s.API.Live.Sets, "web-b")
		for _, p := range s.PodsOf("web-b") {
			delete(s.API.Live.Pods, p.Name)
		}
		s.Restart()
		if have := s.planned(); !strings.Contains(have, "b Seed v1") {
			t.Error(name, have)
		}
	}
}
