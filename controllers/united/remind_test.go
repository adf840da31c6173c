// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/simulation"
)

// forgets makes the child of a subset forget what its protected replicas run, as its controller does if it does not see
// its revisions.
func (s *scene) forgets(subset string) *scene {
	u := s.API.Live.Sets["web-"+subset].DeepCopy()
	update, _, _ := unstructured.NestedString(u.Object, "status", "updateRevision")
	if err := unstructured.SetNestedField(u.Object, update, "status", "currentRevision"); err != nil {
		panic(err)
	}
	s.API.PutSet(u)
	return s
}

// comesUp lets a pod come up on v2, whatever its partition.
func (s *scene) comesUp(name string) {
	pod := s.API.Live.Pods[name].DeepCopy()
	set := s.API.Live.Sets[name[:strings.LastIndex(name, "-")]]
	update, _, _ := unstructured.NestedString(set.Object, "status", "updateRevision")
	pod.UID, pod.Labels[appsv1.ControllerRevisionHashLabelKey], pod.Spec.Containers[0].Image = types.UID(s.API.Next()), update, "v2"
	s.API.PutPod(pod)
}

// contents returns what the pods of a subset run, the lowest first.
func (s *scene) contents(subset string) string {
	var list []string
	for _, p := range s.PodsOf("web-" + subset) {
		list = append(list, simulation.PodContent(p))
	}
	return strings.Join(list, " ")
}

// remembers reports whether the child of a subset creates protected replicas from another revision than the others.
func (s *scene) remembers(subset string) bool {
	status, _, _ := unstructured.NestedMap(s.API.Live.Sets["web-"+subset].Object, "status")
	return status["currentRevision"] != status["updateRevision"]
}

func (s *scene) phase(subset string) v1alpha1.SubsetPhase {
	for _, sub := range s.status().Subsets {
		if sub.Name == subset {
			return sub.Phase
		}
	}
	return ""
}

// events returns those with a reason.
func (s *scene) events(reason string) []string {
	return slices.DeleteFunc(slices.Clone(s.Recorded.Events), func(e string) bool { return !strings.Contains(e, " "+reason+" ") })
}

// A child that forgets its protected revision is reminded, and none of its pods is replaced. This is reported while it
// lasts, and meanwhile nothing counts as complete or held.
func TestForgottenProtection(t *testing.T) {
	for _, s := range []*scene{newScene(t), newScene(t).ordered()} {
		s.settled().image("v2").partition("a", "1").settled()
		s.forgets("a").pass()
		if got := s.phase("a"); got != v1alpha1.PhaseRestoring || !s.remembers("a") {
			t.Errorf("phase %s, remembers %v\n%s", got, s.remembers("a"), s.told())
		}
		if got := s.events("ProtectionLost"); len(got) != 1 || !strings.HasPrefix(got[0], "Warning ProtectionLost web-a: a: web-a has forgotten that its protected replicas run web-") {
			t.Error(got)
		}
		s.settled()
		if got := s.contents("a"); got != "v1 v2" || s.phase("a") != v1alpha1.PhaseHeld {
			t.Errorf("%s\n%s", got, s.told())
		}
		if got := s.events("ProtectionRestored"); len(got) != 1 || !strings.HasPrefix(got[0], "Normal ProtectionRestored web-a: a: protected replicas run web-") {
			t.Error(got)
		}
		s.API.DeletePod(s.API.Live.Pods["web-a-0"])
		if s.settled().contents("a") != "v1 v2" {
			t.Error("it came back wrong:", s.contents("a"))
		}
	}
}

// If it keeps forgetting, it is reminded again, later each time.
func TestForgetsAgain(t *testing.T) {
	s := newScene(t)
	s.settled().image("v2").settled()
	reminded := 0
	for seconds := range 40 {
		s.forgets("a")
		writes := len(s.API.Writes)
		s.pass() // one second each
		if slices.ContainsFunc(s.API.Writes[writes:], func(w string) bool { return strings.HasPrefix(w, "remind web-a") }) {
			reminded++
		}
		want := v1alpha1.PhaseRestoring
		if seconds > 31 { // after six reminders without effect
			want = v1alpha1.PhaseStalled
		}
		if got := s.phase("a"); got != want {
			t.Fatalf("after %d s: %s\n%s", seconds, got, s.told())
		}
	}
	if reminded != 6 { // 1, 2, 4, 8, 16 seconds apart
		t.Errorf("reminded %d times in 40 seconds", reminded)
	}
	s.later(time.Minute).pass().pass().later(2 * time.Minute).pass()
	if got := s.phase("a"); got != v1alpha1.PhaseHeld {
		t.Errorf("%s\n%s", got, s.told())
	}
	reminded = len(s.API.Writes)
	if s.forgets("a").pass(); len(s.API.Writes) == reminded || !s.remembers("a") {
		t.Error("a later time is put off by the ones before")
	}
}

// Replicas that came up on the update revision meanwhile go back, one at a time, even if all replicas were such ones,
// so that the child considered itself finished.
func TestUnreleasedGoesBack(t *testing.T) {
	for name, tc := range map[string]struct {
		lost []string
		want string
	}{
		"one of two": {[]string{"web-a-0"}, "v1 v2"},
		"all":        {[]string{"web-b-0", "web-b-1"}, "v1 v1"},
	} {
		for _, s := range []*scene{newScene(t), newScene(t).ordered()} {
			subset := tc.lost[0][4:5]
			s.settled().image("v2").partition("a", "1").settled()
			s.Excuse()
			for _, pod := range tc.lost {
				s.comesUp(pod)
			}
			s.forgets(subset)
			if got := s.contents(subset); got != "v2 v2" {
				t.Fatal(name, "the scene is set wrong:", got)
			}
			current := s.status().CurrentRevision
			s.settled()
			if got := s.contents(subset); got != tc.want || s.status().CurrentRevision != current {
				t.Errorf("%s: %s\n%s", name, got, s.told())
			}
			if len(s.events("ReplicaDeleted")) != len(tc.lost) || len(s.events("RolloutFinished")) > 0 {
				t.Error(name, s.Recorded.Events)
			}
		}
	}
}

// If a child's own revision is gone, it cannot be reminded of it. The child returns to the template of the protected
// revision, and its controller creates that revision again.
func TestForgottenRevisionIsMadeAnew(t *testing.T) {
	for _, unreleased := range []bool{false, true} {
		s := newScene(t)
		s.settled().image("v2").settled()
		s.Excuse()
		if unreleased {
			s.comesUp("web-a-0")
		}
		s.forgets("a")
		s.Sets.LoseRevision("web-a", "v1")
		s.settled()
		if s.contents("a") != "v1 v1" || s.phase("a") != v1alpha1.PhaseHeld {
			t.Errorf("%v: %s\n%s", unreleased, s.contents("a"), s.told())
		}
		s.partition("a", "0").settled()
		if s.contents("a") != "v2 v2" || s.phase("a") != v1alpha1.PhaseComplete {
			t.Errorf("%v: %s\n%s", unreleased, s.contents("a"), s.told())
		}
	}
}

// If the parent's revision is gone as well, this is reported with a solution, and the solution works.
func TestForgottenForGood(t *testing.T) {
	s := newScene(t)
	s.settled().image("v2").settled().forgets("a")
	s.Excuse()
	s.Sets.LoseRevision("web-a", "v1")
	s.lose("v1")
	s.pass()
	if got := s.told(); !strings.Contains(got, "Stalled True RevisionLost") || !strings.Contains(got, "lower the partition to 0 with updateStrategy.type Manual") {
		t.Error(got)
	}
	s.partition("a", "0").settled()
	if s.contents("a") != "v2 v2" || s.phase("a") != v1alpha1.PhaseComplete {
		t.Errorf("%s\n%s", s.contents("a"), s.told())
	}
}

// While paused, no replica is deleted. But a child whose replicas all came up unreleased returns to its protected
// revision, so that lost replicas come back on that.
func TestPausedRelearns(t *testing.T) {
	s := newScene(t)
	s.settled().image("v2").partition("a", "1").settled()
	s.Excuse()
	s.comesUp("web-b-0")
	s.comesUp("web-b-1")
	s.forgets("b").paused(true)
	writes := len(s.API.Writes)
	s.settled()
	for _, w := range s.API.Writes[writes:] {
		if strings.HasPrefix(w, "delete ") {
			t.Error(w)
		}
	}
	if s.contents("b") != "v2 v2" || s.phase("b") != v1alpha1.PhaseRestoring {
		t.Errorf("%s %s\n%s", s.contents("b"), s.phase("b"), s.told())
	}
	s.paused(false).settled()
	if s.contents("b") != "v1 v1" || s.phase("b") != v1alpha1.PhaseHeld {
		t.Errorf("%s %s\n%s", s.contents("b"), s.phase("b"), s.told())
	}
}

// A child in the cache can be older than its pods: a replica that was released since looks as if it had come up
// unreleased, and is left alone.
func TestReleasedBehindAStaleChild(t *testing.T) {
	for _, stale := range []bool{true, false} {
		s := newScene(t)
		s.settled().image("v2").settled()
		s.Excuse()
		if stale {
			// The response to a write was lost: the partition is 1, and its controller has acted on it.
			u := s.API.Live.Sets["web-a"].DeepCopy()
			if err := unstructured.SetNestedField(u.Object, int64(1), "spec", "updateStrategy", "rollingUpdate", "partition"); err != nil {
				t.Fatal(err)
			}
			annotations := u.GetAnnotations()
			annotations[v1alpha1.AnnotationPartition] = "1"
			u.SetAnnotations(annotations)
			u.SetGeneration(u.GetGeneration() + 1)
			s.API.PutSet(u)
		}
		s.comesUp("web-a-1")
		writes := len(s.API.Writes)
		s.API.RefreshKind("pods")
		s.Reconcile()
		deleted := slices.ContainsFunc(s.API.Writes[writes:], func(w string) bool { return strings.HasPrefix(w, "delete ") && strings.Contains(w, "web-a-1") })
		if deleted == stale {
			t.Errorf("stale %v, deleted %v: %v\n%s", stale, deleted, s.API.Writes[writes:], s.told())
		}
	}
}
