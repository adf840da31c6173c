// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/simulation"
)

// heard gives the events since it was last asked.
func (s *scene) heard() []string {
	var list []string
	for _, e := range s.Recorded.Events {
		list = append(list, s.words(e))
	}
	s.Recorded.Events = nil
	return list
}

// One event for each transition, and none at rest: a story and what is told of it.
func TestEvents(t *testing.T) {
	s := newScene(t)
	for _, move := range []struct {
		what string
		play func()
		want []string
	}{
		{"it comes up", func() { s.Settle() }, []string{
			"Normal FirstReplicaReady: a replica was ready: from then on partitions protect",
			"Normal RolloutComplete: 4 of 4 replicas run v1",
		}},
		{"nothing happens", func() { s.Settle() }, nil},
		{"the controller restarts", func() { s.Restart(); s.Settle() }, nil},
		{"a template is staged", func() { s.image("v2").settled() }, []string{
			"Normal RolloutStarted: the update revision is v2, the current one v1",
			"Normal RolloutHeld: 0 of 4 replicas run v2; partitions hold 2 of 2 in a, 2 of 2 in b",
		}},
		{"it scales", func() { s.replicas(2).settled().replicas(4).settled() }, []string{
			"Normal PartitionChanged web-a: a: partition 2 -> 1 of 1 replicas",
			"Normal PartitionChanged web-b: b: partition 2 -> 1 of 1 replicas",
			"Normal RolloutHeld: 0 of 2 replicas run v2; partitions hold 1 of 1 in a, 1 of 1 in b",
			"Normal PartitionChanged web-a: a: partition 1 -> 2 of 2 replicas",
			"Normal PartitionChanged web-b: b: partition 1 -> 2 of 2 replicas",
			"Normal RolloutHeld: 0 of 4 replicas run v2; partitions hold 2 of 2 in a, 2 of 2 in b",
		}},
		{"a subset is released", func() { s.partition("a", "0").settled() }, []string{
			"Normal PartitionChanged web-a: a: partition 2 -> 0 of 2 replicas",
			"Normal RolloutHeld: 2 of 4 replicas run v2; partitions hold 2 of 2 in b",
		}},
		{"a subset is refused for a while", func() {
			s.refuses("b", errRefused).partition("b", "0").settled().passes(3).refuses("b", nil).settled()
		}, []string{
			"Warning ApplyRefused: b: spec.replcas: no such field",
			"Normal PartitionChanged web-b: b: partition 2 -> 0 of 2 replicas",
			"Normal RolloutFinished: all replicas run v2 and are ready",
			"Normal RolloutComplete: 4 of 4 replicas run v2",
		}},
		{"a template that fails", func() { s.deadline(60).image("broken1").settled().passes(3) }, []string{
			"Normal RolloutStarted: the update revision is broken1, the current one v2",
			"Warning ProgressDeadlineExceeded: no progress for 60s: a: waits: web-a-1 not ready since then; b: waits: web-b-1 not ready since then",
		}},
		{"is taken back", func() { s.image("v2").settled() }, []string{
			"Normal RolloutStarted: goes back to v2, the current revision",
			"Normal RolloutComplete: 4 of 4 replicas run v2",
		}},
		{"a subset goes, and the wishes do not fit", func() { s.comeOrGo("a").wish("b", "3").settled() }, []string{
			"Normal SubsetRemoved web-a: a: the child was deleted, since the subset is gone",
			"Warning ScaledInProportion: ",
			"Normal RolloutComplete: 4 of 4 replicas run v2",
		}},
		{"a spec that is not understood", func() { s.partition("b", "200%").passes(2) }, []string{
			"Warning InvalidSpec: spec.updateStrategy.manualUpdate",
		}},
		{"is put right", func() { s.partition("b", "0").settled() }, []string{
			"Normal RolloutComplete: 4 of 4 replicas run v2",
		}},
	} {
		move.play()
		got := s.heard()
		if diff := cmp.Diff(move.want, got, cmp.Comparer(startsLike)); diff != "" {
			t.Errorf("%s: want -, have +\n%s", move.what, diff)
		}
	}
}

// A first template that is corrected goes back to nothing, and going back passes the
// steps by: that is not told as if a step were done.
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
	has("a first template is corrected", "Normal RolloutStarted: v2 takes the place of v1, of which no replica was ever ready", true)
	s.settled().image("v3").settled()
	has("a step is reached", "Normal StepReached", true)
	s.image("v2").settled()
	has("it goes back", "Normal StepPassed", false)
	s.image("v3").settled()
	s.Annotate(v1alpha1.AnnotationApproved, "mistyped")
	s.settled()
	if message := s.status().Rollout.Message; !strings.HasSuffix(message, `; it is "mistyped", which is for another step or rollout`) {
		t.Error(message)
	}
	s.Annotate(v1alpha1.AnnotationApproved, s.status().Rollout.ApprovalKey)
	s.settled()
	has("the step is approved", "Normal StepPassed: goes on after step 1 of 1", true)
}

// startsLike: an event that is wanted up to a colon may go on in any words.
func startsLike(want, got string) bool {
	if len(want) > len(got) {
		want, got = got, want
	}
	return want == got || strings.HasPrefix(want, "Warning InvalidSpec") && strings.HasPrefix(got, want) ||
		strings.HasPrefix(got, want) && (strings.HasSuffix(want, ": ") || strings.HasSuffix(want, "manualUpdate"))
}

// With OrderedReady a StatefulSet waits for a replica that fails, and so never
// gets past it by itself.
func TestFixForward(t *testing.T) {
	for name, s := range map[string]*scene{"Parallel": newScene(t), "OrderedReady": newScene(t).ordered()} {
		s.settled().partition("", "0").image("broken1").settled().image("v2").settled()
		s.Judge(true)
		if current := s.words(s.status().CurrentRevision); current != "v2" {
			t.Error(name, current)
		}
		told := strings.Contains(strings.Join(s.heard(), "\n"), "Normal StuckReplicaDeleted web-a: a: deleted web-a-1: broken, or released and not on v2")
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

// A first template that never worked is replaced by a corrected one, whatever
// the partitions say.
func TestCorrectedFirstTemplate(t *testing.T) {
	for name, s := range map[string]*scene{"Parallel": newScene(t), "OrderedReady": newScene(t).ordered()} {
		s.image("broken1").settled().image("v2").settled()
		s.Judge(true)
		if got := s.told(); !strings.Contains(got, "4/4/4/4/4 of 4; current v2, update v2") {
			t.Error(name, got)
		}
	}
}

func TestWakeUp(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(*scene) *scene
		want time.Duration
	}{
		{"at rest", func(s *scene) *scene { return s.settled().pass() }, 0},
		{"held", func(s *scene) *scene { return s.settled().image("v2").settled().pass() }, 0},
		{"paused", func(s *scene) *scene { return s.settled().paused(true).image("v2").settled().pass() }, 0},
		{"the deadline, from now on", func(s *scene) *scene { return s.settled().deadline(60).image("v2").pass() }, time.Minute},
		{"the deadline, a while later", func(s *scene) *scene {
			return s.settled().deadline(60).image("v2").pass().later(19 * time.Second).pass()
		}, 40 * time.Second},
		{"the deadline that nobody set", func(s *scene) *scene { return s.settled().image("v2").pass() }, 10 * time.Minute},
		{"the deadline has passed", func(s *scene) *scene { return s.settled().deadline(60).image("v2").pass().later(time.Hour).pass() }, 0},
		{"a replica is ready for too short a time", func(s *scene) *scene {
			return s.settled().minReady(30).settled().later(time.Hour).ready("a-1", true).later(3 * time.Second).pass()
		}, 26 * time.Second},
		{"the sooner of two", func(s *scene) *scene {
			return s.settled().minReady(30).settled().later(time.Hour).ready("a-1", true).later(3*time.Second).ready("b-1", true).pass()
		}, 26 * time.Second},
		{"a write that failed once", func(s *scene) *scene { return s.settled().refuses("a", errAway).image("v2").pass() }, time.Second},
		{"a write that failed twice", func(s *scene) *scene { return s.settled().refuses("a", errAway).image("v2").pass().pass() }, 2 * time.Second},
		{"a write that is refused", func(s *scene) *scene { return s.settled().refuses("a", errRefused).image("v2").pass() }, time.Second},
		{"a write that is refused, while it waits", func(s *scene) *scene {
			return s.settled().refuses("a", errRefused).image("v2").passes(9).later(9 * time.Second).pass()
		}, 20 * time.Second},
		{"the revision cannot be kept", func(s *scene) *scene {
			s.settled().image("v2").API.Fail = errAway
			return s.pass()
		}, time.Second},
		{"the cluster moved on", func(s *scene) *scene {
			s.settled().image("v2").API.Fail = nil
			s.API.Refresh()
			s.ready("a-0", true)
			touched := s.API.Live.Sets["web-a"].DeepCopy()
			s.API.PutSet(touched)
			s.Reconcile()
			return s
		}, time.Second},
		{"a spec that is not understood", func(s *scene) *scene { return s.settled().partition("a", "200%").pass() }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.play(newScene(t)).Wake; got != tc.want {
				t.Errorf("want %v, have %v", tc.want, got)
			}
		})
	}
}

// The clock of the deadline starts anew with the generation, with progress, and
// when it was well in between.
func TestProgressDeadline(t *testing.T) {
	stalled := func(s *scene) bool { return kstatus(s.Parent()) == "Failed" }
	s := newScene(t).deadline(60).settled().image("v2").partition("a", "0").pass().moves("a", "b").pass()
	if s.later(57 * time.Second).pass(); stalled(s) {
		t.Error("stalled too early:", s.told())
	}
	if s.pass(); !stalled(s) {
		t.Error("not stalled after a minute:", s.told())
	}
	if s.kubelets("a-1").moves("a").kubelets("a-1").pass(); stalled(s) {
		t.Error("stalled, though a replica came up:", s.told())
	}
	if s.later(time.Minute).pass(); !stalled(s) {
		t.Error("not stalled a minute later:", s.told())
	}
	if s.image("v3").pass(); stalled(s) {
		t.Error("a new generation is stalled:", s.told())
	}
	s.settled().later(time.Hour)
	if s.ready("b-0", false).pass(); stalled(s) {
		t.Error("stalled at once, though it was well until now:", s.told())
	}
	if s.later(time.Minute).pass(); !stalled(s) {
		t.Error("a replica is not ready for a minute:", s.told())
	}
	if s.ready("b-0", true).pass(); stalled(s) {
		t.Error("stalled, though all is well again:", s.told())
	}
}

// Changes that are no business of the pods make no revision.
func TestWhatMakesARevision(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(*scene)
		want int // revisions more
	}{
		{"replicas", func(s *scene) { s.replicas(6) }, 0},
		{"partition", func(s *scene) { s.partition("a", "1") }, 0},
		{"minReadySeconds", func(s *scene) { s.minReady(3) }, 0},
		{"a patched subset comes", func(s *scene) {
			s.Edit("c", func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.Topology.Subsets = append(spec.Topology.Subsets, v1alpha1.Subset{Name: "c", Patch: simulation.PatchOf("x")})
			})
		}, 0},
		{"a subset goes", func(s *scene) { s.comeOrGo("b") }, 0},
		{"a patch outside of the pods", func(s *scene) {
			s.EditSubset("patch", "a", func(sub *v1alpha1.Subset) {
				sub.Patch = simulation.PatchOf("")
				sub.Patch = ptr.To(*simulation.TemplateOf("x", "Parallel").StatefulSetTemplate)
				sub.Patch.Raw = []byte(`{"metadata": {"labels": {"x": "y"}}, "spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}}`)
			})
		}, 0},
		{"another template", func(s *scene) { s.image("v2") }, 1},
		{"a patch", func(s *scene) {
			s.EditSubset("patch", "a", func(sub *v1alpha1.Subset) { sub.Patch = simulation.PatchOf("x") })
		}, 1},
		{"a toleration", func(s *scene) {
			s.EditSubset("toleration", "a", func(sub *v1alpha1.Subset) { sub.Tolerations = []corev1.Toleration{{Key: "k"}} })
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t).settled()
			s.Parent().Spec.RevisionHistoryLimit = ptr.To[int32](9)
			uids := s.uids()
			tc.play(s)
			s.Settle()
			if got := len(s.API.Live.Revisions) - 1; got != tc.want {
				t.Errorf("want %d more revisions, have %d", tc.want, got)
			}
			for name, uid := range s.uids() {
				if was, ok := uids[name]; ok && was != uid {
					t.Error(name, "was restarted")
				}
			}
		})
	}
}

func (s *scene) uids() map[string]string {
	uids := map[string]string{}
	for name, p := range s.API.Live.Pods {
		uids[name] = string(p.UID)
	}
	return uids
}

// Revisions are truncated to the limit, never one in use, also while a partition
// is held; and going back finds the one that is kept.
func TestRevisionsAreTruncated(t *testing.T) {
	for limit, want := range map[int32]string{0: "v1 v5", 2: "v1 v3 v4 v5", 9: "v1 v2 v3 v4 v5"} {
		s := newScene(t).settled()
		s.Edit("limit", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.RevisionHistoryLimit = &limit })
		for _, image := range []string{"v2", "v3", "v4", "v5"} {
			s.image(image).settled()
		}
		if got := s.kept(); got != want {
			t.Errorf("limit %d: want %s, have %s", limit, want, got)
		}
		uids := s.uids()
		s.image("v1").settled()
		if diff := cmp.Diff(uids, s.uids()); diff != "" {
			t.Error("going back restarts what matches:", diff)
		}
		if got := s.words(s.status().UpdateRevision); got != "v1" || kstatus(s.Parent()) != "Current" {
			t.Error(got, s.told())
		}
	}
}

// A controller that does not know yet that another one leads may see children as they
// were: before a revision is deleted they are asked themselves.
func TestNoRevisionIsDeletedThatAChildNamesByNow(t *testing.T) {
	for _, named := range []bool{true, false} {
		s := newScene(t).settled().partition("", "0")
		s.Parent().Spec.RevisionHistoryLimit = ptr.To[int32](9)
		s.image("v2").settled().image("v3").settled()
		var v1 string
		for name := range s.API.Live.Revisions {
			if s.words(name) == "v1" {
				v1 = name
			}
		}
		s.Edit("limit", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.RevisionHistoryLimit = ptr.To[int32](0) })
		s.API.Refresh()
		if named {
			child := s.API.Live.Sets["web-b"].DeepCopy()
			annotations := child.GetAnnotations()
			annotations[v1alpha1.AnnotationProtectedRevision] = v1
			child.SetAnnotations(annotations)
			s.API.PutSet(child) // by the other one, and not in the cache yet
		}
		s.Reconcile()
		if kept := s.API.Live.Revisions[v1] != nil; kept != named {
			t.Errorf("a child names it %v, and it is kept %v", named, kept)
		}
	}
}

func (s *scene) kept() string {
	var list []string
	for name := range s.API.Live.Revisions {
		list = append(list, s.words(name))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestReconcileWithoutAParent(t *testing.T) {
	s := newScene(t).settled()
	gone := s.Parent()
	writes := len(s.API.Writes)
	deleted := gone.DeepCopy()
	deleted.DeletionTimestamp = ptr.To(s.API.Now())
	for _, parent := range []*v1alpha1.UnitedDeployment{deleted, nil} {
		s.API.Cached.Parents["web"] = parent
		if _, err := s.Reconciler.Reconcile(t.Context(), requestFor(gone)); err != nil {
			t.Error(err)
		}
	}
	if rest := s.API.Writes[writes:]; len(rest) > 0 {
		t.Error(rest)
	}
}

// A status that cannot be written is an error, and no event is told of it.
func TestStatusThatCannotBeWritten(t *testing.T) {
	kind := schema.GroupResource{Group: "apps.united.dev", Resource: "uniteddeployments"}
	for _, tc := range []struct {
		name   string
		answer error
		fails  bool
		again  time.Duration
	}{
		{"the server is away", errAway, true, 0},
		{"the parent is gone", apierrors.NewNotFound(kind, "web"), false, time.Second},
		// It need not have: then no watch tells, and the status would stay as it is.
		{"the parent has changed", apierrors.NewConflict(kind, "web", errors.New("resourceVersion")), false, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t).settled().ready("a-0", false)
			s.heard()
			s.API.Refresh()
			s.API.Fail = tc.answer
			result, err := s.Reconciler.Reconcile(t.Context(), requestFor(s.Parent()))
			if (err != nil) != tc.fails || result.RequeueAfter != tc.again {
				t.Error(result, err)
			}
			if len(s.Recorded.Events) > 0 {
				t.Error(s.Recorded.Events)
			}
		})
	}
}

// Whoever edits the spec in the middle of a pass does not keep its status from being
// written, nor does a status with a field in it that is not known here: that stays.
func TestTheStatusIsFencedByTheStatusAlone(t *testing.T) {
	for _, tc := range []struct {
		name      string
		meanwhile func(s *scene)
		written   bool
	}{
		{"nothing", func(*scene) {}, true},
		{"an edit", func(s *scene) { s.partition("", "9") }, true},
		{"another parent", func(s *scene) { s.Parent().UID = "another" }, false},
		{"another status", func(s *scene) { s.Parent().Status.Replicas = 77 }, false},
		{"another way to write it", func(s *scene) { s.API.Foreign = `{"status":{"later":{"a":1}}}` }, true},
		{"another status, in another way", func(s *scene) {
			s.Parent().Status.Replicas, s.API.Foreign = 77, `{"status":{"later":{"a":1}}}`
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t).settled().ready("a-0", false)
			s.API.Refresh()
			s.API.Live.Parents["web"] = s.Parent().DeepCopy()
			tc.meanwhile(s)
			s.Reconcile()
			if written := s.Parent().Status.ReadyReplicas == s.Parent().Status.Replicas-1; written != tc.written {
				t.Error(s.Parent().Status)
			}
		})
	}
}

// One whose caches are not all as old makes no revision again that the other one has
// deleted since.
func TestStaleControllerMakesNoRevision(t *testing.T) {
	for _, stale := range []bool{true, false} {
		s := newScene(t).settled().partition("", "0")
		s.Edit("limit", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.RevisionHistoryLimit = ptr.To[int32](0) })
		s.image("v2").settled()
		old := s.API.Live.Clone()
		s.image("v3").settled().image("v4").settled()
		if got := s.kept(); got != "v3 v4" {
			t.Fatal(got)
		}
		s.Restart()
		s.API.Refresh()
		if stale {
			s.API.Cached.Parents, s.API.Cached.Sets, s.API.Cached.Pods = old.Parents, old.Sets, old.Pods
		} else {
			s.image("v2").API.Refresh()
		}
		writes := len(s.API.Writes)
		result, err := s.Reconciler.Reconcile(t.Context(), requestFor(s.Parent()))
		if err != nil || (stale && result.RequeueAfter != time.Second) {
			t.Error(result, err)
		}
		if wrote := len(s.API.Writes) > writes; wrote == stale {
			t.Errorf("stale %v, and it wrote %v", stale, s.API.Writes[writes:])
		}
	}
}

// Nor does it take replicas or the child from a subset that was removed, and is back.
func TestStaleControllerRemovesNoSubset(t *testing.T) {
	for _, back := range []bool{true, false} {
		s := newScene(t).settled()
		with := s.Parent().DeepCopy()
		s.comeOrGo("b").API.Crash = 3 // before the delete
		s.pass().API.Refresh()
		if s.API.Crash != 0 || s.API.Live.Sets["web-b"] == nil {
			t.Fatal(s.API.Writes)
		}
		if back {
			parent := s.Parent().DeepCopy()
			parent.Spec = with.Spec
			s.API.Live.Parents["web"] = parent
		}
		s.Reconcile()
		if gone := s.API.Live.Sets["web-b"] == nil; gone == back {
			t.Errorf("the subset is back %v, and its child is gone %v", back, gone)
		}
	}
}

// A controller that has stood still, and goes on after another one led, moves
// nothing back: no child, and no status either.
func TestStaleController(t *testing.T) {
	s := newScene(t).settled().image("v2").partition("", "0")
	stale := s.API.Live.Clone()
	s.settled().partition("", "100%").image("v3").settled()
	before, writes := s.API.Live.Clone(), len(s.API.Writes)

	s.Restart() // it remembers nothing, but sees
	s.heard()
	s.API.Cached = stale
	if _, err := s.Reconciler.Reconcile(t.Context(), requestFor(stale.Parents["web"])); err != nil {
		t.Error(err)
	}
	if late := s.API.Writes[writes:]; len(late) > 0 {
		t.Error("it wrote", late)
	}
	if diff := cmp.Diff(before.Parents["web"].Status, s.Parent().Status); diff != "" {
		t.Error("it moved the status back", diff)
	}
	if len(s.Recorded.Events) > 0 {
		t.Error("it told", s.Recorded.Events)
	}
	// Its own past is not what keeps it from writing.
	s.image("v2").settled()
	if len(s.API.Writes) == writes {
		t.Error("positive control: nothing was written")
	}
}
