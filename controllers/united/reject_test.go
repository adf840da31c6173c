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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/test/simulation"
)

// rejects returns a scene at rest on v1, with a check that is met, and onFailure Rollback.
func rejects(t *testing.T) (*scene, *seenChecks) {
	s, c := checked(t)
	s.Oracle.LeaveToTest() // it does not know what a rejection is
	s.rollback(func(r *v1alpha1.RollingUpdate) { r.OnFailure = v1alpha1.RollbackOnFailure })
	return s.history(10).settled(), c
}

// history sets revisionHistoryLimit.
func (s *scene) history(limit int32) *scene {
	s.Edit("history", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.RevisionHistoryLimit = &limit })
	return s
}

func (s *scene) rollback(change func(*v1alpha1.RollingUpdate)) *scene {
	s.Edit("rollingUpdate", func(spec *v1alpha1.UnitedDeploymentSpec) { change(spec.UpdateStrategy.RollingUpdate) })
	return s
}

// runs returns the images that the pods run.
func (s *scene) runs() string {
	images := map[string]bool{}
	for _, pod := range s.API.Live.Pods {
		images[simulation.PodContent(pod)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(images)), " ")
}

// rejected returns what the status says of a rejection: the image, and the image that is rolled out instead.
func (s *scene) rejected() string {
	r, stalled := s.status().Rollout, s.condition(v1alpha1.ConditionStalled)
	is := r != nil && r.RejectedRevision != ""
	if is != strings.Contains(stalled, v1alpha1.ReasonRevisionRejected) || is && (r.RejectedRevision != s.status().UpdateRevision || kstatus(s.Parent()) != "Failed") {
		s.Fail("%s: %+v", s.told(), r)
	}
	if !is {
		return ""
	}
	return s.words(r.RejectedRevision + " for " + r.Revision)
}

// breaks rolls out an image whose replicas fail, until they have failed for good and all is over.
func (s *scene) breaks(image string) *scene { return s.image(image).over() }

// over lets everything happen, also what a deadline brings.
func (s *scene) over() *scene { return s.goOn(5).later(11 * time.Minute).goOn(15) }

// untilRejected lets time pass until the update revision is rejected.
func (s *scene) untilRejected() *scene {
	for range 15 {
		if s.rejected() != "" {
			return s
		}
		s.later(time.Minute).pass()
	}
	s.Fail("%s", s.told())
	return s
}

// retry asks to roll out the update revision once more.
func (s *scene) retry(text string) *scene {
	s.Annotate(v1alpha1.AnnotationRetry, s.status().UpdateRevision+text)
	return s.goOn(5)
}

// TestRejected: a revision that fails goes back by itself, and does not come again by itself, whatever happens.
func TestRejected(t *testing.T) {
	for name, c := range map[string]struct {
		do       func(s *scene, c *seenChecks)
		rejected string
		runs     string
	}{
		"a replica that fails": {func(*scene, *seenChecks) {}, "broken1 for v1", "v1"},
		"the status is lost": {func(s *scene, _ *seenChecks) {
			s.forgesStatus(func(st *v1alpha1.UnitedDeploymentStatus) { *st = v1alpha1.UnitedDeploymentStatus{} })
		}, "broken1 for v1", "v1"},
		"the status is forged": {func(s *scene, _ *seenChecks) {
			s.forgesStatus(func(st *v1alpha1.UnitedDeploymentStatus) { st.CurrentRevision = st.UpdateRevision })
		}, "broken1 for v1", "v1"},
		"the status names another": {func(s *scene, _ *seenChecks) {
			s.forgesStatus(func(st *v1alpha1.UnitedDeploymentStatus) { st.CurrentRevision, st.Rollout = "web-other", nil })
		}, "broken1 for v1", "v1"},
		"v2 half way, then forged": {func(s *scene, _ *seenChecks) {
			s.image("v2").goOn(4)
			second := s.status().UpdateRevision
			s.image("broken1").forgesStatus(func(st *v1alpha1.UnitedDeploymentStatus) { st.CurrentRevision = second })
		}, "broken1 for v1", "v1"},
		"the manager restarts":       {func(s *scene, _ *seenChecks) { s.Restart() }, "broken1 for v1", "v1"},
		"it is scaled up":            {func(s *scene, _ *seenChecks) { s.replicas(8) }, "broken1 for v1", "v1"},
		"it is scaled to 0 and back": {func(s *scene, _ *seenChecks) { s.replicas(0).goOn(8).replicas(4) }, "broken1 for v1", "v1"},
		"another subset":             {func(s *scene, _ *seenChecks) { s.comeOrGo("c") }, "broken1 for v1", "v1"},
		"a child is deleted":         {func(s *scene, _ *seenChecks) { s.delete("a", false) }, "broken1 for v1", "v1"},
		"the steps are edited": {func(s *scene, _ *seenChecks) {
			s.rollback(func(r *v1alpha1.RollingUpdate) {
				r.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: ptr.To(intstr.FromInt32(0))}}
			})
		}, "broken1 for v1", "v1"},
		"onFailure becomes Hold": {func(s *scene, _ *seenChecks) {
			s.rollback(func(r *v1alpha1.RollingUpdate) { r.OnFailure = v1alpha1.HoldOnFailure })
		}, "broken1 for v1", "v1"},
		"it is paused, and not":        {func(s *scene, _ *seenChecks) { s.paused(true).goOn(3).paused(false) }, "broken1 for v1", "v1"},
		"it is forced":                 {func(s *scene, _ *seenChecks) { s.Annotate(v1alpha1.AnnotationForceUpdate, s.status().UpdateRevision) }, "broken1 for v1", "v1"},
		"it is promoted":               {func(s *scene, _ *seenChecks) { s.Annotate(v1alpha1.AnnotationPromote, s.status().UpdateRevision) }, "broken1 for v1", "v1"},
		"another one is retried":       {func(s *scene, _ *seenChecks) { s.Annotate(v1alpha1.AnnotationRetry, "web-other/1") }, "broken1 for v1", "v1"},
		"a check fails there":          {func(_ *scene, c *seenChecks) { c.met(false) }, "broken1 for v1", "v1"},
		"its record is removed":        {func(s *scene, _ *seenChecks) { s.unrecord(v1alpha1.AnnotationRejected) }, "broken1 for v1", "v1"},
		"v1 is applied":                {func(s *scene, _ *seenChecks) { s.image("v1") }, "", "v1"},
		"v1, and then the same again":  {func(s *scene, _ *seenChecks) { s.image("v1").goOn(3).image("broken1") }, "broken1 for v1", "v1"},
		"the same, without a history":  {func(s *scene, _ *seenChecks) { s.history(0).image("v2").over().image("broken1") }, "broken1 for v2", "v2"},
		"v2 is applied":                {func(s *scene, _ *seenChecks) { s.image("v2") }, "", "v2"},
		"v2, and then the same again":  {func(s *scene, _ *seenChecks) { s.image("v2").over().image("broken1") }, "broken1 for v2", "v2"},
		"v2 half way, and then again":  {func(s *scene, _ *seenChecks) { s.image("v2").goOn(4).image("broken1") }, "broken1 for v1", "v1"},
		"another one that fails":       {func(s *scene, _ *seenChecks) { s.image("broken2") }, "broken2 for v1", "v1"},
		"the same after another fails": {func(s *scene, _ *seenChecks) { s.breaks("broken2").image("broken1") }, "broken1 for v1", "v1"},
		"Manual rolls it out":          {func(s *scene, _ *seenChecks) { s.manual("0") }, "", "broken1 v1"},
		"Manual, and then not": {func(s *scene, _ *seenChecks) {
			s.manual("1").goOn(5).rolling().rollback(func(r *v1alpha1.RollingUpdate) { r.OnFailure = v1alpha1.RollbackOnFailure })
		}, "broken1 for v1", "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, checks := rejects(t)
			s.breaks("broken1")
			if got := s.rejected(); got != "broken1 for v1" || s.runs() != "v1" {
				t.Fatalf("%s\n%s runs", s.told(), s.runs())
			}
			update := s.status().UpdateRevision
			s.heard()
			c.do(s, checks)
			s.over()
			if got := strings.Join(s.heard(), "\n"); c.rejected == "broken1 for v1" && (strings.Contains(got, "RolloutStarted: Rolling out broken1") || strings.Contains(got, "oing back to broken1")) {
				t.Errorf("%s", got)
			}
			if got := s.rejected(); got != c.rejected || s.runs() != c.runs {
				t.Errorf("%s: %s runs", s.told(), s.runs())
			}
			if back := c.rejected == "broken1 for v1"; back && (s.status().UpdateRevision != update || s.status().UpdatedReplicas != 0 || s.status().Rollout.Phase != v1alpha1.RolloutDone) {
				t.Errorf("%s", s.told())
			}
		})
	}
}

// manual sets type Manual with a partition for all subsets.
func (s *scene) manual(partition string) *scene {
	s.Edit("Manual", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.UpdateStrategy = v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{DefaultPartition: ptr.To(intstr.Parse(partition))}}
	})
	return s
}

// unrecord removes annotations from all revisions.
func (s *scene) unrecord(keys ...string) *scene {
	for name, cr := range s.API.Live.Revisions {
		cr = cr.DeepCopy()
		for _, key := range keys {
			delete(cr.Annotations, key)
		}
		s.API.Live.Revisions[name] = cr
	}
	s.Restart()
	return s
}

// TestRejectedByCheck: also when all replicas are updated, and ready; and then no such revision is the current one, also if the
// spec changes at that moment.
func TestRejectedByCheck(t *testing.T) {
	for _, next := range []string{"", "v3"} {
		t.Run("then "+next, func(t *testing.T) {
			s, c := rejects(t)
			first := s.status().CurrentRevision
			s.image("v2")
			for range 50 {
				if s.status().UpdatedReadyReplicas == 3 {
					break
				}
				s.goOn(1)
			}
			s.goOn(1)
			c.met(false)
			s.goOn(10)
			if s.runs() != "v2" || s.rejected() != "" {
				t.Fatalf("%s", s.told())
			}
			second := s.status().UpdateRevision
			s.heard()
			s.untilRejected()
			if got := s.heard(); !strings.HasPrefix(got[0], "Warning CheckFailed: Check mysql failed: ") ||
				!slices.ContainsFunc(got, func(e string) bool {
					return strings.HasPrefix(e, "Warning RevisionRejected: v2 (v2) is rejected: check mysql failed: "+whyNot+"; going back to v1 (v1); set the template back, or apply another one; to roll it out")
				}) {
				t.Errorf("%q", got)
			}
			if next != "" {
				s.image(next).pass()
				if got := s.status(); got.CurrentRevision != first || got.Rollout.RejectedRevision != "" {
					t.Fatalf("%s", s.told())
				}
				c.met(true)
				if s.over(); s.runs() != next || s.status().CurrentRevision == second {
					t.Errorf("%s: %s runs", s.told(), s.runs())
				}
				return
			}
			s.over()
			if got := s.condition(v1alpha1.ConditionReady); s.rejected() != "v2 for v1" || s.runs() != "v1" || !strings.Contains(got, "4 of 4 replicas run v1 ("+known.Short(first)+")") {
				t.Errorf("%s", s.told())
			}
			c.met(true)
			if s.over(); s.rejected() != "v2 for v1" || s.runs() != "v1" {
				t.Errorf("met again: %s", s.told())
			}
			if s.retry("").settled(); s.rejected() != "" || s.runs() != "v2" || s.status().CurrentRevision != second {
				t.Errorf("retried: %s", s.told())
			}
			if cr := s.API.Live.Revisions[second]; cr.Annotations[v1alpha1.AnnotationRejected]+cr.Annotations[v1alpha1.AnnotationLeft] != "" {
				t.Errorf("%v", cr.Annotations)
			}
		})
	}
}

// TestNotRejected: what is no failure, or has nothing to go back to, or is not to go back.
func TestNotRejected(t *testing.T) {
	for name, c := range map[string]struct {
		play func(t *testing.T) *scene
		runs string
	}{
		"onFailure Hold": {func(t *testing.T) *scene {
			s, _ := rejects(t)
			return s.rollback(func(r *v1alpha1.RollingUpdate) { r.OnFailure = v1alpha1.HoldOnFailure }).breaks("broken1")
		}, "broken1 v1"},
		"it is forced": {func(t *testing.T) *scene {
			s, _ := rejects(t)
			s.image("broken1").pass()
			s.Annotate(v1alpha1.AnnotationForceUpdate, s.status().UpdateRevision)
			return s.over()
		}, "broken1 v1"},
		"it is paused": {func(t *testing.T) *scene {
			s, _ := rejects(t)
			return s.image("broken1").goOn(4).paused(true).over()
		}, "broken1 v1"},
		"it is only starting": {func(t *testing.T) *scene {
			s, _ := rejects(t)
			return s.image("broken1").goOn(9)
		}, "broken1 v1"},
		"a check that is not met for a moment": {func(t *testing.T) *scene {
			s, c := rejects(t)
			s.image("v2").goOn(4)
			c.met(false)
			s.goOn(3).later(8 * time.Minute).pass()
			c.met(true)
			return s.over()
		}, "v2"},
		"the first rollout": {func(t *testing.T) *scene {
			s := newScene(t)
			s.Oracle.LeaveToTest()
			return s.rolling().rollback(func(r *v1alpha1.RollingUpdate) { r.OnFailure = v1alpha1.RollbackOnFailure }).breaks("broken1")
		}, "broken1"},
		"the current one was left on the way back": {func(t *testing.T) *scene {
			s, _ := rejects(t)
			return s.image("v2").settled().image("v1").pass().pass().breaks("broken1")
		}, "broken1 v2"},
		"a replica of the current one fails": {func(t *testing.T) *scene {
			s, _ := rejects(t)
			return s.ready("a-0", false).over()
		}, "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			if s := c.play(t); s.rejected() != "" || s.runs() != c.runs {
				t.Errorf("%s\n%s runs", s.told(), s.runs())
			}
		})
	}
}

// TestRetriedRejected: each value of the annotation rolls a rejected revision out once.
func TestRetriedRejected(t *testing.T) {
	s, _ := rejects(t)
	s.breaks("broken1")
	for _, c := range []struct {
		text  string
		again bool
	}{{"", true}, {"", false}, {"/1", true}, {"/1", false}, {"/2", true}, {"/1", false}, {"", false}, {"/3", true}} {
		s.heard()
		s.retry(c.text)
		if again := s.rejected() == ""; again != c.again || again != strings.Contains(s.runs(), "broken1") {
			t.Fatalf("%q: %s", c.text, s.told())
		}
		once := func(e string) bool { return strings.Contains(e, "Rolling out broken1 once more, which was rejected") }
		if got := s.heard(); slices.ContainsFunc(got, once) != c.again {
			t.Errorf("%q: %q", c.text, got)
		}
		if s.over(); s.rejected() != "broken1 for v1" || s.runs() != "v1" {
			t.Fatalf("%q: %s", c.text, s.told())
		}
		if !strings.HasSuffix(s.condition(v1alpha1.ConditionStalled), c.text+`", which has had its effect`) {
			t.Errorf("%s", s.told())
		}
		s.Annotate(v1alpha1.AnnotationRetry, "web-other/1")
		if s.goOn(1); s.rejected() == "" || !strings.HasSuffix(s.condition(v1alpha1.ConditionStalled), `united.dev/retry is "web-other/1", which is for another revision`) {
			t.Errorf("%s", s.told())
		}
		s.Annotate(v1alpha1.AnnotationRetry, "") // a removed value stays spent
		s.goOn(2)
	}
	// The status is lost while it is rolled out once more: it is not rejected for a failure that was before.
	s.retry("/4").forgesStatus(func(st *v1alpha1.UnitedDeploymentStatus) { *st = v1alpha1.UnitedDeploymentStatus{} })
	s.Annotate(v1alpha1.AnnotationRetry, "")
	if s.goOn(3); s.rejected() != "" || !strings.Contains(s.runs(), "broken1") {
		t.Errorf("%s", s.told())
	}
}

// TestRejectionSpends: what stood for the revision moves no later rollout of it.
func TestRejectionSpends(t *testing.T) {
	s, _ := rejects(t)
	s.rollback(func(r *v1alpha1.RollingUpdate) {
		r.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: ptr.To(intstr.FromInt32(1)), Pause: &v1alpha1.RolloutPause{}}}
	})
	c := &seenChecks{}
	s.Reconciler.Checks = c
	c.met(true)
	s.image("v2").goOn(8)
	if s.status().Rollout.Phase != v1alpha1.RolloutAwaitingApproval {
		t.Fatalf("%s", s.told())
	}
	update := s.status().UpdateRevision
	for key, value := range map[string]string{
		v1alpha1.AnnotationPromote: update, v1alpha1.AnnotationRetry: update + "/1", v1alpha1.AnnotationApproved: s.status().Rollout.ApprovalKey,
	} {
		s.Annotate(key, value)
	}
	c.met(false)
	if s.over(); s.rejected() != "v2 for v1" || s.runs() != "v1" {
		t.Fatalf("%s", s.told())
	}
	c.met(true)
	s.retry("/2").goOn(8)
	if r := s.status().Rollout; r.Phase != v1alpha1.RolloutAwaitingApproval || r.Promoted {
		t.Errorf("%s: %+v", s.told(), r)
	}
}

// TestPausedWhileRejected: nothing moves, and it is said.
func TestPausedWhileRejected(t *testing.T) {
	s, c := rejects(t)
	s.image("v2").goOn(8)
	c.met(false)
	s.goOn(1).untilRejected()
	s.paused(true).pass()
	before := s.runs()
	if s.over(); s.runs() != before || before != "v1 v2" || !strings.Contains(s.condition(v1alpha1.ConditionStalled), "the rollout is paused") {
		t.Fatalf("%s: %s runs", s.told(), s.runs())
	}
	if s.paused(false).over(); s.runs() != "v1" || s.rejected() != "v2 for v1" {
		t.Errorf("%s: %s runs", s.told(), s.runs())
	}
}

// TestNothingToGoBackTo: the revision to go back to is lost. Nothing moves, least of all forth.
func TestNothingToGoBackTo(t *testing.T) {
	s, c := rejects(t)
	s.image("v2").goOn(8)
	c.met(false)
	s.goOn(1).untilRejected()
	c.met(true)
	before := s.runs()
	if s.lose("v1").over(); s.runs() != before || before != "v1 v2" || !meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionStalled) {
		t.Fatalf("%s: %s runs", s.told(), s.runs())
	}
	if s.image("v3").over(); s.runs() != "v3" {
		t.Errorf("%s: %s runs", s.told(), s.runs())
	}
}

// TestContestedRejection: somebody removes the record again and again. It is restored less and less often, and the revision stays
// rejected; if the record never stands, nothing goes back.
func TestContestedRejection(t *testing.T) {
	strip := func(s *scene) *scene {
		for name, cr := range s.API.Live.Revisions {
			if cr.Annotations[v1alpha1.AnnotationRejected] != "" {
				changed := cr.DeepCopy()
				delete(changed.Annotations, v1alpha1.AnnotationRejected)
				changed.ResourceVersion = s.API.Next()
				s.API.Live.Revisions[name] = changed
			}
		}
		s.API.Refresh()
		return s
	}
	s, _ := rejects(t)
	s.breaks("broken1")
	writes := s.revisionWrites()
	for range 150 {
		strip(s).goOn(1)
	}
	if n := writes(); n < 5 || n > 60 || s.rejected() != "broken1 for v1" || s.runs() != "v1" {
		t.Errorf("%d writes: %s", n, s.told())
	}

	s, c := rejects(t)
	s.image("v2").goOn(8)
	c.met(false)
	before := s.runs()
	for range 30 { // it is gone before any pass has read it
		s.later(time.Minute).pass()
		strip(s)
	}
	if s.rejected() != "" || s.runs() != before || before != "v1 v2" {
		t.Errorf("%s: %s runs", s.told(), s.runs())
	}
}

// TestFailureOnTheWayBack stops nothing but itself.
func TestFailureOnTheWayBack(t *testing.T) {
	s, c := rejects(t)
	s.rollback(func(r *v1alpha1.RollingUpdate) { r.MaxUnavailable = ptr.To(intstr.FromInt32(2)) })
	s.image("v2").goOn(6)
	c.met(false)
	s.goOn(1).untilRejected()
	first := s.status().CurrentRevision
	for range 30 { // the first replica that comes back does not get ready
		s.later(time.Second).moves("a", "b").pass()
		failed := false
		for _, name := range slices.Sorted(maps.Keys(s.API.Live.Pods)) {
			if pod := s.API.Live.Pods[name]; !failed && name == "web-a-1" && simulation.PodContent(pod) == "v1" {
				failed = true
				continue
			}
			s.Sets.Kubelet(name)
		}
	}
	if s.runs() != "v1" || s.rejected() != "v2 for v1" || s.status().Rollout.Revision != first {
		t.Errorf("%s: %s runs", s.told(), s.runs())
	}
}

// A replica that is not created, because of a quota or an admission policy, says nothing of its revision: it is not rejected, and
// the message says so.
func TestNotCreatedIsNoFailure(t *testing.T) {
	s, _ := rejects(t)
	s.image("v2")
	for range 20 {
		if len(s.API.Live.Pods) < 4 {
			break // nothing creates that pod again
		}
		s.pass().moves("a", "b").kubelets("a-0", "a-1", "b-0", "b-1")
	}
	const said = "onFailure: Rollback does not go back because of replicas that are not created: to go back, run: kubectl united undo -n shop web"
	for range 5 {
		s.later(5 * time.Minute).pass()
	}
	if got := s.condition(v1alpha1.ConditionStalled); s.rejected() != "" || !strings.Contains(got, v1alpha1.ReasonProgressDeadlineExceeded) || !strings.Contains(got, said) {
		t.Error(got, s.told())
	}
	s.rollback(func(r *v1alpha1.RollingUpdate) { r.OnFailure = v1alpha1.HoldOnFailure }).later(time.Hour).pass().later(time.Hour).pass()
	if got := s.condition(v1alpha1.ConditionStalled); strings.Contains(got, "onFailure") {
		t.Error(got)
	}
}
