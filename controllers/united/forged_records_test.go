// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// forges sets annotations on the child of a subset, and leaves no trace in its managedFields, as admission does during
// a write. "-" removes one.
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
	s.Restart() // so that the controller does not remember the previous state
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

// TestForged: in the middle of a canary, the plan and the status are the same if the record of a child is forged: the
// copy in the status counts.
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

// TestForgedAndNoCopy: without a copy the protected revision is unknown, and nothing is changed.
func TestForgedAndNoCopy(t *testing.T) {
	s := newScene(t).settled().image("v2").settled()
	revision := s.API.Live.Sets["web-b"].GetAnnotations()[v1alpha1.AnnotationRevision]
	s.forges("b", v1alpha1.AnnotationProtectedRevision, revision)
	s.forgesStatus(func(status *v1alpha1.UnitedDeploymentStatus) { status.Subsets[1].ChildRecord = nil })
	if have := s.planned(); !strings.Contains(have, "b Halt") {
		t.Error(have)
	}
}

// TestForgedAndGone: the child of a subset with a forged status is deleted. It is created again on the revision in the
// copy.
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

// TestForgedCurrent: somebody changes in the status which revision all replicas ran last, while a step waits for
// approval. The revisions have their own record of that, so this does not become a rollback, which would skip the
// steps.
func TestForgedCurrent(t *testing.T) {
	for name, forge := range map[string]func(*v1alpha1.UnitedDeploymentStatus){
		"nothing":        func(*v1alpha1.UnitedDeploymentStatus) {},
		"all ran it":     func(status *v1alpha1.UnitedDeploymentStatus) { status.CurrentRevision = status.UpdateRevision },
		"nobody knows":   func(status *v1alpha1.UnitedDeploymentStatus) { status.CurrentRevision = "" },
		"what never was": func(status *v1alpha1.UnitedDeploymentStatus) { status.CurrentRevision = "web-never" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).stepwise().settled().image("v2").settled()
			want := s.told()
			s.forgesStatus(forge).settled()
			if diff := cmp.Diff(want, s.told()); diff != "" || !strings.Contains(want, "current v1, update v2") || !strings.Contains(want, "AwaitingApproval") {
				t.Error("want -, have +\n", diff)
			}
			s.image("v1").settled() // this is a rollback
			if s.status().CurrentRevision != s.status().UpdateRevision || s.status().UpdatedReplicas != 4 {
				t.Error("it does not go back:", s.told())
			}
		})
	}
}

// TestCurrentRecordTaken: somebody removes the record of the revision that all replicas ran last. Then the previous
// revision is not a rollback, and no replica comes up on it.
func TestCurrentRecordTaken(t *testing.T) {
	for name, record := range map[string]string{"removed": "", "unreadable": "x", "of another parent": "u-0/9"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).rolling()
			s.Edit("history", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.RevisionHistoryLimit = ptr.To[int32](5) })
			s.settled().image("v2").settled().stepwise().image("v3").settled()
			s.Edit("rollback", func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.UpdateStrategy.RollingUpdate.RollbackRevisions = ptr.To[int32](0)
			})
			cr := s.API.Live.Revisions[s.status().CurrentRevision].DeepCopy()
			if cr.Annotations[v1alpha1.AnnotationCurrent] = record; record == "" {
				delete(cr.Annotations, v1alpha1.AnnotationCurrent)
			}
			s.API.Live.Revisions[cr.Name] = cr
			s.Restart()
			s.settled().replicas(6).comeOrGo("c").settled()
			if told := s.told(); !strings.Contains(told, "current v2, update v3") || s.contents("c") != "v2 v3" {
				t.Error(told, s.contents("c"))
			}
			s.image("v1").settled()
			if told := s.told(); !strings.Contains(told, "current v2, update v1") || !strings.Contains(told, "AwaitingApproval") {
				t.Error("the one before it is taken for the way back:", told)
			}
			s.image("v2").settled() // the children show it
			if told := s.told(); !strings.Contains(told, "current v2, update v2") {
				t.Error(told)
			}
			if now := s.API.Live.Revisions[cr.Name].Annotations[v1alpha1.AnnotationCurrent]; now == record {
				t.Error("it is not recorded again:", now)
			}
		})
	}
}

// TestCurrentIsRecorded: the revision that all replicas ran last is recorded once, and the status has it only after
// that.
func TestCurrentIsRecorded(t *testing.T) {
	s := newScene(t).rolling().settled()
	record := func() []string {
		var have []string
		for _, cr := range s.API.Live.Revisions {
			if r := cr.Annotations[v1alpha1.AnnotationCurrent]; r != "" {
				have = append(have, s.words(cr.Name)+" "+strings.TrimPrefix(r, string(s.Parent().UID)))
			}
		}
		slices.Sort(have)
		return have
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, record()); diff != "" {
			t.Error(what, diff)
		}
	}
	expect("settled", "v1 /1")
	s.API.Unpatched = errAway
	_ = s.image("v2")
	for range 60 {
		s.Everybody()
		s.later(time.Minute)
	}
	expect("refused", "v1 /1")
	if have := s.words(s.status().CurrentRevision); have != "v1" || s.status().UpdatedReadyReplicas != 4 {
		t.Error("the status is ahead of the record:", have, s.told())
	}
	s.API.Unpatched = nil
	s.settled()
	expect("rolled", "v1 /1", "v2 /2")
	s.image("v1").settled()
	expect("back", "v1 /3", "v2 /2")
}
