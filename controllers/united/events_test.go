// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// heard returns the events since its last call.
func (s *scene) heard() []string {
	var list []string
	for _, e := range s.Recorded.Events {
		list = append(list, s.words(e))
	}
	s.Recorded.Events = nil
	return list
}

// There is one event for each transition, and none at rest. This is a story with its events.
func TestEvents(t *testing.T) {
	s := newScene(t)
	for _, move := range []struct {
		what string
		play func()
		want []string
	}{
		{"it comes up", func() { s.Settle() }, []string{
			"Normal FirstReplicaReady: First replica became ready; partitions now take effect",
			"Normal RolloutComplete: 4 of 4 replicas run v1 (v1)",
		}},
		{"nothing happens", func() { s.Settle() }, nil},
		{"the controller restarts", func() { s.Restart(); s.Settle() }, nil},
		{"a template is staged", func() { s.image("v2").settled() }, []string{
			"Normal RolloutStarted: Rolling out v2; the current revision is v1",
			"Normal RolloutHeld: 0 of 4 replicas run v2 (v2); to release, set manualUpdate.partitions",
		}},
		{"it scales", func() { s.replicas(2).settled().replicas(4).settled() }, []string{
			"Normal PartitionChanged web-a: a: partition changed from 2 to 1 (1 replica)",
			"Normal PartitionChanged web-b: b: partition changed from 2 to 1 (1 replica)",
			"Normal RolloutHeld: 0 of 2 replicas run v2 (v2); to release, set manualUpdate.partitions",
			"Normal PartitionChanged web-a: a: partition changed from 1 to 2 (2 replicas)",
			"Normal PartitionChanged web-b: b: partition changed from 1 to 2 (2 replicas)",
			"Normal RolloutHeld: 0 of 4 replicas run v2 (v2); to release, set manualUpdate.partitions",
		}},
		{"a subset is released", func() { s.partition("a", "0").settled() }, []string{
			"Normal PartitionChanged web-a: a: partition changed from 2 to 0 (2 replicas)",
			"Normal RolloutHeld: 2 of 4 replicas run v2 (v2); partitions hold 2",
		}},
		{"a subset is refused for a while", func() {
			s.refuses("b", errRefused).partition("b", "0").settled().passes(3).refuses("b", nil).settled()
		}, []string{
			"Warning ApplyRefused: b: spec.replcas: no such field",
			"Normal PartitionChanged web-b: b: partition changed from 2 to 0 (2 replicas)",
			"Normal RolloutFinished: All replicas run v2 and are ready",
			"Normal RolloutComplete: 4 of 4 replicas run v2 (v2)",
		}},
		{"a template that fails", func() { s.deadline(60).image("broken1").settled().passes(3) }, []string{
			"Normal RolloutStarted: Rolling out broken1; the current revision is v2",
			"Warning ReplicaFailed: web-a-1 (not ready since then), web-b-1 (not ready since then) failed; fix the template, or go back to the previous one",
		}},
		{"is taken back", func() { s.image("v2").settled() }, []string{
			"Normal RolloutStarted: Going back to v2, the current revision",
		}},
		{"a subset goes, and the wishes do not fit", func() { s.comeOrGo("a").wish("b", "3").settled() }, []string{
			"Normal SubsetRemoved web-a: a: deleted the child workload, because the subset was removed from the spec",
			"Warning ScaledInProportion: ",
			"Normal ReplicasNotHonored: 4 of 4 replicas run v2 (v2); the subsets ask for 3 replicas, but spec.replicas is 4; replicas are split in proportion; b gets 4 (asks for 3)",
		}},
		{"a spec that is not understood", func() { s.partition("b", "200%").passes(2) }, []string{
			"Warning InvalidSpec: spec.updateStrategy.manualUpdate",
		}},
		{"is put right", func() { s.partition("b", "0").settled() }, []string{
			"Normal ReplicasNotHonored: 4 of 4 replicas run v2 (v2); the subsets ask for 3 replicas, but spec.replicas is 4; replicas are split in proportion; b gets 4 (asks for 3)",
		}},
		{"a template that comes while it is paused", func() { s.paused(true).image("v3").settled() }, []string{
			"Normal RolloutStarted: Rolling out v3; the current revision is v2",
			"Normal PartitionChanged web-b: b: partition changed from 0 to 4 (4 replicas): paused: v3 is not applied yet, and replicas come back as they are; asks for 3 replicas, gets 4",
		}},
	} {
		s.later(time.Second)
		move.play()
		got := s.heard()
		if diff := cmp.Diff(move.want, got, cmp.Comparer(startsLike)); diff != "" {
			t.Errorf("%s: want -, have +\n%s", move.what, diff)
		}
	}
}

// If a first template is corrected, there is nothing to go back to, and a rollback skips the steps. There must be no
// event as if a step had been completed.
func TestEventsOfSteps(t *testing.T) {
	s := newScene(t).stepwise()
	has := func(what, event string, want bool) {
		t.Helper()
		heard := s.heard()
		if got := slices.ContainsFunc(heard, func(e string) bool { return strings.HasPrefix(e, event) }); got != want {
			t.Errorf("%s: %s is told %v, not %v: %v", what, event, got, want, heard)
		}
	}
	s.pass().image("v2").pass()
	has("a first template is corrected", "Normal RolloutStarted: v2 replaces v1, which never had a ready replica", true)
	s.settled().image("v3").settled()
	has("a step is reached", "Normal StepReached", true)
	s.image("v2").settled()
	has("it goes back", "Normal StepPassed", false)
	s.image("v3").settled()
	s.Annotate(v1alpha1.AnnotationApproved, "mistyped")
	s.settled()
	if message := s.status().Rollout.Message; !strings.HasSuffix(message, `; the annotation is "mistyped", which is for another step or rollout`) {
		t.Error(message)
	}
	s.Annotate(v1alpha1.AnnotationApproved, s.status().Rollout.ApprovalKey)
	s.settled()
	has("the step is approved", "Normal StepPassed: Continuing after step 1 of 1", true)
}

// startsLike reports whether an event is the wanted one: if want ends with a colon, any text may follow.
func startsLike(want, got string) bool {
	if len(want) > len(got) {
		want, got = got, want
	}
	return want == got || strings.HasPrefix(want, "Warning InvalidSpec") && strings.HasPrefix(got, want) ||
		strings.HasPrefix(got, want) && (strings.HasSuffix(want, ": ") || strings.HasSuffix(want, "manualUpdate"))
}

// A change by somebody else in a child is corrected, and an event reports once what was changed and by whom.
func TestChildCorrected(t *testing.T) {
	s := newScene(t).settled().image("v2").settled()
	s.heard()
	s.opens("b").settled()
	want := []string{
		`Normal ChildCorrected web-b: b: restored spec.updateStrategy.rollingUpdate.partition of web-b, which "other" had changed`,
		"Normal RolloutHeld: 0 of 4 replicas run v2 (v2); to release, set manualUpdate.partitions",
	}
	if diff := cmp.Diff(want, s.heard()); diff != "" {
		t.Error("want -, have +\n", diff)
	}
	if s.partition("b", "1").settled(); slices.ContainsFunc(s.heard(), func(e string) bool { return strings.Contains(e, "ChildCorrected") }) {
		t.Error("the control: what is asked for anew corrects nothing")
	}
}

// A coordinated rollout has one event for the release of a subset, and not one for each of its replicas, even if United
// deletes them because the StatefulSet would replace them one after the other.
func TestEventsAreNotOneForEachReplica(t *testing.T) {
	s := newScene(t).rolling().replicas(20)
	s.Edit("four at once", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxUnavailable: ptr.To(intstr.FromInt32(4))}
	})
	s.settled().heard()
	before := len(s.API.Writes)
	s.later(time.Second).image("v2").settled()
	heard := s.heard()
	deleted := slices.DeleteFunc(slices.Clone(s.API.Writes[before:]), func(w string) bool { return !strings.HasPrefix(w, "delete *v1.Pod") })
	if len(deleted) == 0 {
		t.Error("the control: a StatefulSet does not replace four at once, so released replicas are deleted:", s.API.Writes[before:])
	}
	for event, want := range map[string]int{
		"Normal PartitionChanged web-a": 2, "Normal PartitionChanged web-b": 2, // protected while it is staged, and released
		"Normal RolloutComplete": 1, "Normal ReplicaDeleted": 0,
	} {
		if got := len(slices.DeleteFunc(slices.Clone(heard), func(e string) bool { return !strings.HasPrefix(e, event) })); got != want {
			t.Errorf("%s %d times: %v", event, got, heard)
		}
	}
}

// changesImage changes the image of a child as somebody else.
func (s *scene) changesImage(subset string) *scene {
	path := []any{"spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "web"), "image"}
	return s.takesOwnership(subset, path, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": "web", "image": "theirs"}}, "spec", "template", "spec", "containers")
	})
}

// A rollback is a rollout that has an end; scaling, repair and a partition are not rollouts.
func TestRolloutCompleteIsOfRolloutsOnly(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *scene{
		"Manual":        func(t *testing.T) *scene { return newScene(t).partition("a", "0").partition("b", "0") },
		"RollingUpdate": func(t *testing.T) *scene { return newScene(t).rolling() },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			completes := func(what string, want int, play func(*scene)) {
				t.Helper()
				s.later(time.Second)
				play(s)
				s.settled()
				heard := s.heard()
				events := slices.DeleteFunc(slices.Clone(heard), func(e string) bool { return !strings.Contains(e, "RolloutComplete") })
				if len(events) != want {
					t.Errorf("%s: %d events, not %d: %v", what, len(events), want, heard)
				}
			}
			completes("it comes up", 1, func(*scene) {})
			completes("it scales up", 0, func(s *scene) { s.replicas(10) })
			completes("a pod is deleted", 0, func(s *scene) { s.API.DeletePod(s.API.Live.Pods["web-b-0"]) })
			completes("somebody raises a partition", 0, func(s *scene) { s.takesOver("b", 2, "spec", "updateStrategy", "rollingUpdate", "partition") })
			completes("somebody changes an image", 0, func(s *scene) { s.changesImage("b").moves("b") })
			completes("a new image", 1, func(s *scene) { s.image("v2") })
			if name == "RollingUpdate" {
				completes("it goes back in the middle", 1, func(s *scene) { s.image("v3").pass(); s.image("v2") })
			} else {
				completes("a partition is raised and lowered", 0, func(s *scene) { s.partition("b", "1").settled().partition("b", "0") })
			}
		})
	}
}

// A replica that is gone, as one that United has deleted, is on its way back: that is no warning. It is one when its controller cannot
// create it, or when it does not come back in time.
func TestBlockedByWhatComesBackIsNoWarning(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*scene)
		want string
	}{
		"comes back":           {func(s *scene) { s.moves("a", "b").settled() }, "Normal RolloutFinished: "},
		"cannot be created":    {func(s *scene) { s.later(time.Minute).pass() }, "Warning Blocked: Blocked by web-a-0 (missing; to see why, run: "},
		"comes, and fails":     {func(s *scene) { s.moves("a").ready("a-0", false).later(11 * time.Minute).pass() }, "Warning "},
		"does not come at all": {func(s *scene) { s.later(11 * time.Minute).pass() }, "Warning "},
	} {
		s := newScene(t).rolling().settled()
		s.image("v2").passes(2).moves("a", "b") // staged
		delete(s.API.Live.Pods, "web-a-0")
		s.heard()
		s.later(time.Second).pass()
		got := s.heard()
		if s.status().Rollout.Phase != v1alpha1.RolloutBlocked || !slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "Normal Blocked: Blocked by web-a-0 (missing)") }) {
			t.Fatalf("%s: %q, %+v", name, got, s.status().Rollout)
		}
		tc.then(s)
		heard := s.heard()
		if !slices.ContainsFunc(heard, func(e string) bool { return strings.HasPrefix(e, tc.want) }) {
			t.Errorf("%s: %q", name, heard)
		}
		if warned := slices.ContainsFunc(append(got, heard...), func(e string) bool { return strings.HasPrefix(e, "Warning ") }); warned != strings.HasPrefix(tc.want, "Warning ") {
			t.Errorf("%s: a warning: %q, %q", name, got, heard)
		}
	}
}

// Blocked is an event when it begins, and only then. A force annotation that is for another revision is answered.
func TestBlockedIsAnEvent(t *testing.T) {
	s := newScene(t).rolling().settled()
	s.ready("a-0", false).image("v2")
	for range 10 {
		s.later(time.Second).moves("a", "b").pass()
	}
	blocked := func() (found []string) {
		for _, e := range s.heard() {
			if strings.HasPrefix(e, "Warning Blocked: ") {
				found = append(found, e)
			}
		}
		return found
	}
	if got := blocked(); len(got) != 1 || s.status().Rollout.Phase != v1alpha1.RolloutBlocked {
		t.Fatalf("%q, %+v", got, s.status().Rollout)
	}
	s.Annotate(v1alpha1.AnnotationForceUpdate, "web-1")
	for range 3 {
		s.later(time.Second).moves("a", "b").pass()
	}
	const answer = `; the annotation united.dev/force-update is "web-1", which is not the update revision`
	if got := s.status().Rollout.Message; strings.Count(got, answer) != 1 {
		t.Error(got)
	}
	if got := blocked(); len(got) != 0 {
		t.Errorf("again: %q", got)
	}
}
