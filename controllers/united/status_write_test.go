// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/simulation"
)

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

// A status that cannot be written is an error, and has no event.
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
		// Perhaps it has not: then no watch reports a change, and the status would remain as it is.
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

// An edit of the spec in the middle of a pass does not prevent the write of its status. Nor does a status with an
// unknown field, which is kept.
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

// statusWrites returns how many statuses were written.
func (s *scene) statusWrites() int {
	n := 0
	for _, write := range s.API.Writes {
		if write == "status" {
			n++
		}
	}
	return n
}

// batches makes the controller delay statuses.
func (s *scene) batches() *scene {
	s.Batches(publish.Batching{Delay: 10 * time.Second, Interval: time.Minute, ProvisioningInterval: 5 * time.Minute})
	return s
}

// TestStatusBatching: a status in which only counters changed waits for the next one, and is written in time; one that
// somebody may be waiting for is not delayed.
func TestStatusBatching(t *testing.T) {
	s := newScene(t).deadline(36000).settled().batches()
	s.pass()
	before := s.statusWrites()
	expect := func(what string, n int) {
		t.Helper()
		if got := s.statusWrites() - before; got != n {
			t.Errorf("%s: %d status writes, want %d\n%s", what, got, n, s.told())
		}
	}
	s.image("v2").pass()
	expect("a new revision", 1)
	s.partition("a", "0").pass()
	expect("a partition", 2)
	s.settled() // the partition is set, replicas are updated, and all of a is done
	before = s.statusWrites()
	s.ready("a-0", false).pass()
	expect("what is not as it should be any more", 1)
	before = s.statusWrites()
	s.ready("a-1", false).pass()
	expect("one more is not ready", 0)
	if s.Wake <= s.StatusBatching.Delay || s.Wake > s.StatusBatching.Interval {
		t.Error("soon after the last one, it is looked at again in", s.Wake)
	}
	s.later(40 * time.Second).pass()
	expect("still waiting", 0)
	s.later(20 * time.Second).pass()
	expect("it has waited long enough", 1)
	s.later(time.Hour).pass().pass()
	expect("nothing more", 1)
	s.ready("a-1", true).pass()
	expect("long after the last one it waits too", 1)
	if s.Wake <= 0 || s.Wake > s.StatusBatching.Delay {
		t.Error("long after the last one, it is looked at again in", s.Wake)
	}
	s.later(s.StatusBatching.Delay).pass()
	expect("but not for long", 2)
	s.ready("a-1", false).pass().ready("a-0", true).ready("a-1", true).pass()
	expect("all is well again", 3)
	if ready := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue {
		t.Error(s.told())
	}
}

// A delayed status is not lost with the controller, and one that no longer differs is not written.
func TestStatusThatWaits(t *testing.T) {
	s := newScene(t).deadline(36000).settled().ready("a-0", false).batches().pass()
	before := s.statusWrites()
	s.later(time.Hour).ready("a-1", false).pass()
	if s.statusWrites() != before || s.status().ReadyReplicas != 3 {
		t.Error("it did not wait:", s.told())
	}
	s.ready("a-1", true).pass().later(time.Hour).pass()
	if s.statusWrites() != before {
		t.Error("written, though it is as it was")
	}
	s.ready("a-1", false).pass()
	if s.Wake <= 0 || s.Wake > s.StatusBatching.Delay {
		t.Error("what came to nothing counts: it is looked at again in", s.Wake)
	}
	s.Restart()
	s.pass().later(s.StatusBatching.Delay).pass()
	if s.statusWrites() != before+1 || s.status().ReadyReplicas != 2 {
		t.Error("lost with the controller:", s.told())
	}
}

// TestStatusOfOneThatIsMade: three writes lead from a new parent to one that is Ready: it is observed, a replica is
// ready, all are. Problems meanwhile are written at once, and counters now and then.
func TestStatusOfOneThatIsMade(t *testing.T) {
	made := func() *scene { return &scene{simulation.New(t, "OrderedReady", "a", "b", "c", "d")} }
	s := made().replicas(8).batches()
	s.settled()
	if got := s.statusWrites(); got != 3 || !meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionReady) {
		t.Error(got, "status writes", s.told())
	}
	s = made().replicas(8).batches()
	s.pass().moves("a").kubelets("a-0").kubelets("a-0").pass().Restart()
	before := s.statusWrites()
	s.moves("a", "b").pass().later(s.StatusBatching.Delay).pass() // it costs a write that the time of the last one is unknown
	s.moves("c", "d").pass().settled()
	if got := s.statusWrites() - before; got != 2 || !meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionReady) {
		t.Error("with another controller:", got, "status writes", s.told())
	}
	s = made().batches()
	s.pass().moves("a").kubelets("a-0").kubelets("a-0").pass()
	if got := s.statusWrites(); got != 2 || !meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionInitialized) {
		t.Error(got, "status writes", s.told())
	}
	s.moves("b").pass().moves("c", "d").pass()
	if got := s.statusWrites(); got != 2 {
		t.Error(got, "status writes", s.told())
	}
	s.image("v2").refuses("d", apierrors.NewInvalid(schema.GroupKind{}, "web-d", nil)).pass()
	if got := s.statusWrites(); got != 3 || !meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionStalled) {
		t.Error(got, "status writes", s.told())
	}
	s.refuses("", nil).pass().moves("a").later(s.StatusBatching.ProvisioningInterval).pass()
	before = s.statusWrites()
	s.kubelets("a-1").kubelets("a-1").moves("a").later(s.StatusBatching.ProvisioningInterval).pass()
	if got := s.statusWrites(); got != before+1 {
		t.Error(got-before, "status writes", s.told())
	}
}

// TestPhaseOfOneThatIsReplaced: a replica that is missing for a moment because it is being replaced, or that exists
// again and is not ready, is part of the update: neither the phase nor the reason of Ready changes back and forth.
func TestPhaseOfOneThatIsReplaced(t *testing.T) {
	for _, policy := range []string{"Parallel", "OrderedReady"} {
		t.Run(policy, func(t *testing.T) {
			s := &scene{simulation.New(t, policy, "a", "b")}
			s.settled().image("v2").pass().settled()
			s.partition("a", "0").pass()
			var told []string
			for range 60 {
				phase := world.SubsetStatus(s.status(), "a").Phase
				reason := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionReady).Reason
				if is := string(phase) + " " + reason; len(told) == 0 || told[len(told)-1] != is {
					told = append(told, is)
				}
				s.moves("a").pass().kubelets("a-0", "a-1", "a-2").pass()
			}
			if want := []string{"Updating RollingOut", "Complete RolloutHeld"}; !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
			s.ready("a-0", false).pass()
			if phase := world.SubsetStatus(s.status(), "a").Phase; phase != v1alpha1.PhaseUnavailable {
				t.Error("not ready after that, it is", phase)
			}
			s.ready("a-0", true).replicas(8).pass()
			if phase := world.SubsetStatus(s.status(), "a").Phase; phase == v1alpha1.PhaseUpdating && s.status().UpdatedReplicas == 3 {
				s.moves("a").pass()
			}
			if phase := world.SubsetStatus(s.status(), "a").Phase; phase != v1alpha1.PhaseScaling {
				t.Error("when it is to have more, it is", phase)
			}
		})
	}
}

// TestQuietStatus: a status that changed only what no pass decides by starts none; any other does, and so does one that
// somebody has changed meanwhile.
func TestQuietStatus(t *testing.T) {
	s := newScene(t).settled()
	quiet := func() bool {
		return s.Reconciler.WroteQuietly(client.ObjectKeyFromObject(s.Parent()), s.Parent().ResourceVersion)
	}
	wrote := func(what string, want bool) {
		t.Helper()
		if writes := s.statusWrites(); s.pass().statusWrites() != writes+1 || quiet() != want {
			t.Errorf("%s: quiet %t, %d status writes", what, quiet(), s.statusWrites()-writes)
		}
	}
	s.ready("a-0", false)
	wrote("a replica is not ready", true)
	s.image("v2")
	wrote("another image", false)
	s.settled().partition("a", "1")
	wrote("a release", false)
	s.settled().ready("b-0", false).pass()
	if !quiet() {
		t.Error("a positive control")
	}
	s.Annotate("example.com/x", "y")
	if quiet() {
		t.Error("somebody else's write")
	}
}

// TestGathers: events of replicas are gathered at rest and while a child replaces what somebody has released, and not while
// the next release, a deletion or a taught child waits for them.
func TestGathers(t *testing.T) {
	gathers := func(s *scene) bool { return s.Reconciler.Gathers(client.ObjectKeyFromObject(s.Parent())) }
	for name, tc := range map[string]struct {
		play func(*scene) *scene
		want bool
	}{
		"at rest":                        {func(s *scene) *scene { return s }, true},
		"released by hand":               {func(s *scene) *scene { return s.image("v2").partition("a", "0").pass().moves("a").pass() }, true},
		"a rollout":                      {func(s *scene) *scene { return s.rolling().settled().image("v2").pass().pass() }, false},
		"after the rollout":              {func(s *scene) *scene { return s.rolling().settled().image("v2").settled().pass() }, true},
		"a child comes back in a canary": {func(s *scene) *scene { return s.image("v2").partition("a", "1").settled().delete("a", false).pass() }, false},
		"a child is refused":             {func(s *scene) *scene { return s.refuses("a", errRefused).image("v2").pass() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if s := tc.play(newScene(t).settled()); gathers(s) != tc.want {
				t.Errorf("gathers %t\n%s", gathers(s), s.told())
			}
		})
	}
}
