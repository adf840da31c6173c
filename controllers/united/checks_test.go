// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// seenChecks says what is seen of a check.
type seenChecks struct {
	known.CheckResult
	// observed are the names that were asked for last; nil if none are, or if they were forgotten.
	observed []string
}

func (c *seenChecks) Ask(_ types.NamespacedName, asks []known.CheckAsk) {
	c.observed = nil
	for i := range asks {
		c.observed = append(c.observed, asks[i].Check.Name)
	}
}

func (c *seenChecks) Results(types.NamespacedName) map[string]known.CheckResult {
	result := c.CheckResult
	result.Round, result.Reached = known.AnyRound, true
	return map[string]known.CheckResult{"mysql": result}
}

func (c *seenChecks) Forget(types.NamespacedName) { c.observed = nil }

const whyNot = "MySQLCluster shop is not Healthy (False, Failover)"

func (c *seenChecks) met(met bool) {
	if c.CheckResult = (known.CheckResult{Seen: true, Met: met}); !met {
		c.Message = whyNot
	}
}

// checked returns a scene at rest with a check that is met.
func checked(t *testing.T) (*scene, *seenChecks) {
	s, c := newScene(t), &seenChecks{}
	s.Reconciler.Checks = c
	c.met(true)
	s.rolling().Edit("checks", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.UpdateStrategy.RollingUpdate.Checks = []v1alpha1.RolloutCheck{{Name: "mysql", ObjectCondition: &v1alpha1.ObjectCondition{
			APIVersion: "moco.cybozu.com/v1beta2", Kind: "MySQLCluster", Name: "shop", Type: "Healthy",
		}}}
	})
	return s.settled(), c
}

// goOn lets everything happen for some seconds.
func (s *scene) goOn(passes int) *scene {
	for range passes {
		s.later(time.Second).moves("a", "b").pass()
		for _, name := range slices.Sorted(maps.Keys(s.API.Live.Pods)) {
			s.Sets.Kubelet(name)
			s.Look()
		}
	}
	return s
}

// TestCheckInStatus is a rollout as users and tools read it.
func TestCheckInStatus(t *testing.T) {
	s, c := checked(t)
	first := s.status().UpdateRevision
	expect := func(at, verdict, condition, reason, message string) {
		t.Helper()
		got := meta.FindStatusCondition(s.status().Conditions, condition)
		if k := kstatus(s.Parent()); k != verdict || got.Reason != reason || !strings.Contains(got.Message, message) {
			t.Errorf("%s: %s, %+v", at, k, got)
		}
	}
	c.met(false)
	s.image("v2").goOn(5)
	expect("not met", "InProgress", v1alpha1.ConditionReady, v1alpha1.ReasonRollingOut, "Waiting for check mysql: "+whyNot)
	c.met(true)
	for range 100 {
		if s.status().UpdatedReadyReplicas == 3 {
			break
		}
		s.goOn(1)
	}
	s.goOn(1) // the last one is released
	c.met(false)
	s.goOn(10)
	if st := s.status(); st.UpdatedReadyReplicas != 4 || st.CurrentRevision != first || meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionComplete) {
		t.Fatalf("%s", s.told())
	}
	expect("all updated", "InProgress", v1alpha1.ConditionReady, v1alpha1.ReasonRollingOut, "4 of 4 replicas run")
	s.heard()
	s.later(11 * time.Minute).pass()
	expect("failed", "Failed", v1alpha1.ConditionStalled, v1alpha1.ReasonCheckFailed, "Check mysql failed: "+whyNot)
	if got := s.heard(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning CheckFailed: Check mysql failed: ") {
		t.Errorf("%q", got)
	}
	c.met(true)
	s.goOn(3)
	if got := s.heard(); !slices.ContainsFunc(got, func(e string) bool {
		return strings.HasPrefix(e, "Normal CheckMet: Check mysql is met again; it had failed: "+whyNot)
	}) {
		t.Errorf("%q", got)
	}
	expect("met again", "Current", v1alpha1.ConditionComplete, v1alpha1.ReasonRolloutComplete, "4 of 4")
	if s.status().CurrentRevision == first {
		t.Error("v2 is not the current revision")
	}
}

// TestCheckHasADeadlineOfItsOwn: while it runs, a lack of progress is not reported beside it; a check that was never met before
// a release lacks progress.
func TestCheckHasADeadlineOfItsOwn(t *testing.T) {
	s, c := checked(t)
	c.met(false)
	s.image("v2").goOn(3).later(11 * time.Minute).pass()
	if got := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionStalled); got.Reason != v1alpha1.ReasonProgressDeadlineExceeded || !strings.Contains(got.Message, whyNot) {
		t.Errorf("%+v", got)
	}
	c.met(true) // that is progress
	if s.pass(); meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionStalled) {
		t.Errorf("%s", s.told())
	}
	s.goOn(1)
	c.met(false)
	s.goOn(3)
	for range 12 {
		got := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionStalled)
		if got.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
			t.Fatalf("%+v", got)
		}
		s.later(time.Minute).pass()
	}
	if s.status().Rollout.Phase != v1alpha1.RolloutCheckFailed {
		t.Errorf("%s", s.told())
	}
}

// TestChecksAreObservedWhenTheyMatter: not at rest, not with type Manual, and not while paused.
func TestChecksAreObservedWhenTheyMatter(t *testing.T) {
	s, c := checked(t)
	if c.observed != nil {
		t.Errorf("at rest: %q", c.observed)
	}
	if s.image("v2").goOn(2); !slices.Equal(c.observed, []string{"mysql"}) {
		t.Errorf("%q", c.observed)
	}
	if !slices.Equal(c.observed, []string{"mysql"}) {
		t.Errorf("%q", c.observed)
	}
	if s.paused(true).pass(); c.observed != nil {
		t.Errorf("paused: %q", c.observed)
	}
	if s.paused(false).pass(); c.observed == nil {
		t.Error("not observed after a pause")
	}
	s.Edit("Manual", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.UpdateStrategy = v1alpha1.UpdateStrategy{} })
	if s.pass(); c.observed != nil {
		t.Errorf("Manual: %q", c.observed)
	}
}

// TestRetryIsSpent: when the revision that it names is left on the way back, and only this value.
func TestRetryIsSpent(t *testing.T) {
	s, c := checked(t)
	s.image("v2").settled()
	update := s.status().UpdateRevision
	s.Annotate(v1alpha1.AnnotationRetry, update+"/1")
	s.image("v1").settled() // all replicas ran it before: that is the way back
	c.met(false)
	s.image("v2").goOn(3)
	if s.status().UpdateRevision != update || s.status().Rollout.Retried != "" || len(s.status().Rollout.Checks) != 1 {
		t.Fatalf("%+v", s.status().Rollout)
	}
	s.heard()
	s.Annotate(v1alpha1.AnnotationRetry, update+"/2")
	s.goOn(2)
	if got := s.heard(); s.status().Rollout.Retried == "" || len(got) != 1 || got[0] != "Normal ChecksRetried: The checks of the rollout to v2 are measured anew" {
		t.Errorf("%q, %+v", got, s.status().Rollout)
	}
}

// TestPromoteIsSpent: whichever way its revision is left, an annotation moves no later rollout to it.
func TestPromoteIsSpent(t *testing.T) {
	for name, removed := range map[string]bool{"left": false, "taken away, and set again": true} {
		t.Run(name, func(t *testing.T) {
			s, _ := checked(t)
			s.Edit("steps", func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.RevisionHistoryLimit = ptr.To(int32(10))
				spec.UpdateStrategy.RollingUpdate.RollbackRevisions = new(int32)
				spec.UpdateStrategy.RollingUpdate.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"*"}, Partition: ptr.To(intstr.FromInt32(1)), Pause: &v1alpha1.RolloutPause{}}}
			})
			s.settled()
			first := s.status().UpdateRevision
			s.Annotate(v1alpha1.AnnotationPromote, first) // at rest, where it does nothing
			for _, image := range []string{"v2", "v3"} {
				s.image(image).goOn(8)
				if got := s.status().Rollout.Phase; got != v1alpha1.RolloutAwaitingApproval {
					t.Fatalf("%s: %s", image, got)
				}
				s.Annotate(v1alpha1.AnnotationApproved, s.status().Rollout.ApprovalKey)
				s.settled()
			}
			if removed {
				s.Annotate(v1alpha1.AnnotationPromote, "")
			}
			s.image("v1").goOn(8)
			if removed { // for this rollout of it
				s.Annotate(v1alpha1.AnnotationPromote, first)
				s.goOn(3)
			}
			r := s.status().Rollout
			answered := strings.HasSuffix(r.Message, "; the annotation united.dev/promote, which was there before this rollout; to set it again, run: kubectl annotate --overwrite united -n shop web united.dev/promote="+first+"/$(date +%s)")
			if s.status().UpdateRevision != first || r.Promoted != removed || (r.Phase == v1alpha1.RolloutAwaitingApproval) == removed || answered == removed {
				t.Errorf("%+v", r)
			}
		})
	}
}
