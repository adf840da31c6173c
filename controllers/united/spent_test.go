// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// stepped returns a scene at rest on v1, with a step that waits for approval, without a history, and without a way back.
func stepped(t *testing.T) *scene {
	s := newScene(t).stepwise().rollback(func(r *v1alpha1.RollingUpdate) { r.RollbackRevisions = new(int32) })
	return s.history(0).settled()
}

// approved rolls an image out, and approves its step.
func (s *scene) approved(image string) *scene {
	if s.image(image).goOn(8); s.status().Rollout.Phase != v1alpha1.RolloutAwaitingApproval {
		s.Fail("%s: %+v", image, s.status().Rollout)
	}
	s.Annotate(v1alpha1.AnnotationApproved, s.status().Rollout.ApprovalKey)
	return s.settled()
}

// TestSpent: what is said of one rollout of a revision moves no other one, whatever the history remembers. What was there when the
// status first named the revision, or when the rollout started over, does not count; what comes later does.
func TestSpent(t *testing.T) {
	type move struct {
		annotation string
		// name is the name of v2.
		name string
	}
	set := func(s *scene, m move, text string) *scene { s.Annotate(m.annotation, m.name+text); return s }
	strip := func(st *v1alpha1.UnitedDeploymentStatus) { st.Rollout.Spent = "" } // as an earlier version has it
	lose := func(st *v1alpha1.UnitedDeploymentStatus) { *st = v1alpha1.UnitedDeploymentStatus{} }
	for name, c := range map[string]struct {
		play   func(s *scene, m move)
		counts bool
	}{
		"it comes after the image":    {func(s *scene, m move) { set(s.image("v2").pass(), m, "") }, true},
		"with a text":                 {func(s *scene, m move) { set(s.image("v2").pass(), m, "/1") }, true},
		"with a text, of another one": {func(s *scene, m move) { set(s.image("v2").pass(), m, "x/1") }, false},
		"it comes with the image":     {func(s *scene, m move) { set(s, m, "").image("v2") }, false},
		"with the image, the manager restarts": {func(s *scene, m move) {
			set(s, m, "").image("v2").pass()
			s.Restart()
		}, false},
		"with the image, and set again with a text":  {func(s *scene, m move) { set(set(s, m, "").image("v2").goOn(4), m, "/1") }, true},
		"with the image and a text, and set without": {func(s *scene, m move) { set(set(s, m, "/1").image("v2").goOn(4), m, "") }, true},
		"with the image, removed, and set again": {func(s *scene, m move) {
			set(s, m, "/1").image("v2").goOn(4).Annotate(m.annotation, "")
			set(s.pass(), m, "/1")
		}, false},
		"from an earlier rollout, without a history": {func(s *scene, m move) {
			set(s.image("v2").goOn(4), m, "").ends()
			s.approved("v3").approved("v4").image("v2")
		}, false},
		"from an earlier rollout with a text, without a history": {func(s *scene, m move) {
			set(s.image("v2").goOn(4), m, "/1").ends()
			s.approved("v3").approved("v4").image("v2")
		}, false},
		"from an earlier rollout, after enough releases": {func(s *scene, m move) {
			set(s.history(1).image("v2").goOn(4), m, "").ends()
			s.approved("v3").approved("v4").approved("v5").image("v2")
		}, false},
		"from an earlier rollout, and set again": {func(s *scene, m move) {
			set(s.image("v2").goOn(4), m, "/1").ends()
			set(s.approved("v3").approved("v4").image("v2").goOn(4), m, "/2")
		}, true},
		"from an earlier rollout, removed meanwhile, and set again": {func(s *scene, m move) {
			set(s.history(10).image("v2").goOn(4), m, "").ends()
			s.approved("v3").Annotate(m.annotation, "")
			set(s.image("v2").goOn(4), m, "")
		}, true},
		"at the way back": {func(s *scene, m move) {
			s.rollback(func(r *v1alpha1.RollingUpdate) { r.RollbackRevisions = nil })
			set(s.image("v2").goOn(4), m, "/1").ends()
			s.image("v1").settled().image("v2")
		}, false},
		"with the image while paused":                  {func(s *scene, m move) { set(s.paused(true).pass(), m, "").image("v2").pass().paused(false) }, false},
		"after the image while paused":                 {func(s *scene, m move) { set(s.paused(true).image("v2").pass(), m, "").pass().paused(false) }, true},
		"after the image while paused, before a pass":  {func(s *scene, m move) { set(s.paused(true).image("v2"), m, "").pass().paused(false) }, false},
		"with the image, of type Manual, then Rolling": {func(s *scene, m move) { set(s.manual("100%"), m, "").image("v2").goOn(3).stepwise() }, false},
		"after the image, of type Manual, then not":    {func(s *scene, m move) { set(s.manual("100%").image("v2").goOn(3), m, "").stepwise() }, false},
		"after Manual":      {func(s *scene, m move) { set(s.manual("100%").image("v2").goOn(3).stepwise().pass(), m, "") }, true},
		"Manual in between": {func(s *scene, m move) { set(s.image("v2").goOn(3), m, "").manual("100%").goOn(3).stepwise() }, false},
		"after Manual, while paused": {func(s *scene, m move) {
			set(s.manual("100%").image("v2").goOn(3).stepwise().paused(true).pass(), m, "").paused(false)
		}, true},
		"the status is lost":                      {func(s *scene, m move) { set(s.image("v2").goOn(3), m, "").forgesStatus(lose) }, false},
		"the status is lost, and it is set again": {func(s *scene, m move) { set(set(s.image("v2").goOn(3), m, "").forgesStatus(lose).pass(), m, "/1") }, true},
		"the rollout starts over": {func(s *scene, m move) {
			s.rollback(func(r *v1alpha1.RollingUpdate) { r.Steps = append(r.Steps, r.Steps[0]) }).image("v2").goOn(8)
			s.Annotate(v1alpha1.AnnotationApproved, s.status().Rollout.ApprovalKey)
			set(s.goOn(3), m, "").rollback(func(r *v1alpha1.RollingUpdate) { r.Steps[0].Partition = ptr.To(intstr.FromInt32(1)) })
		}, false},
		"a later step is edited": {func(s *scene, m move) {
			s.rollback(func(r *v1alpha1.RollingUpdate) { r.Steps = append(r.Steps, r.Steps[0]) }).image("v2").goOn(8)
			set(s, m, "").rollback(func(r *v1alpha1.RollingUpdate) { r.Steps[1].Partition = ptr.To(intstr.FromInt32(1)) })
		}, true},
		"a status of an earlier version": {func(s *scene, m move) { set(s.image("v2").goOn(3), m, "").forgesStatus(strip) }, true},
		"an earlier version is there, and is upgraded in a rollout that the revision remembers": {func(s *scene, m move) {
			set(s.history(10).image("v2").goOn(4), m, "").ends()
			s.approved("v3").image("v2").goOn(3).forgesStatus(strip)
		}, false},
	} {
		for _, annotation := range []string{v1alpha1.AnnotationPromote, v1alpha1.AnnotationForceUpdate} {
			t.Run(name+"/"+strings.TrimPrefix(annotation, "united.dev/"), func(t *testing.T) {
				known := stepped(t).image("v2").pass()
				s := stepped(t)
				s.Oracle.LeaveToTest()
				c.play(s, move{annotation, known.status().UpdateRevision})
				r := s.settled().status().Rollout
				counts := annotation == v1alpha1.AnnotationPromote && r.Promoted || annotation == v1alpha1.AnnotationForceUpdate && r.Forced
				if r.Revision != known.status().UpdateRevision || counts != c.counts {
					t.Fatalf("%s\n%+v", s.told(), r)
				}
				if held := r.Phase == v1alpha1.RolloutAwaitingApproval; annotation == v1alpha1.AnnotationPromote && held == counts {
					t.Errorf("%s", s.told())
				}
				answers := coordination.NamesRevision(s.Parent().Annotations[v1alpha1.AnnotationPromote], r.Revision) && !counts
				if answers != strings.HasSuffix(r.Message, "; the annotation united.dev/promote, which was there before this rollout; to set it again, run: "+
					"kubectl annotate --overwrite united -n shop web united.dev/promote="+r.Revision+"/$(date +%s)") {
					t.Errorf("%s", r.Message)
				}
			})
		}
	}
}

// ends approves the step that waits, if one does, and lets the rollout end.
func (s *scene) ends() *scene {
	if s.goOn(8); s.status().Rollout.ApprovalKey != "" {
		s.Annotate(v1alpha1.AnnotationApproved, s.status().Rollout.ApprovalKey)
	}
	return s.settled()
}

// TestSpentForce: while the rollout stands, the status says what would force it.
func TestSpentForce(t *testing.T) {
	known := newScene(t).rolling().settled().image("v2").pass()
	s := newScene(t).rolling().settled()
	s.Annotate(v1alpha1.AnnotationForceUpdate, known.status().UpdateRevision)
	s.Oracle.LeaveToTest() // a replica that is not ready is none of its own
	blocked := func() bool {
		for range 10 {
			s.later(time.Second).moves("a", "b").pass()
		}
		return s.status().Rollout.Phase == v1alpha1.RolloutBlocked
	}
	const run = "kubectl annotate --overwrite united -n shop web united.dev/force-update=v2/$(date +%s)"
	if s.ready("a-0", false).image("v2"); !blocked() || !strings.HasSuffix(s.words(s.status().Rollout.Message),
		", or force the rollout: "+run+"; the annotation united.dev/force-update, which was there before this rollout; to set it again, run: "+run) {
		t.Fatalf("%+v", s.status().Rollout)
	}
	s.Annotate(v1alpha1.AnnotationForceUpdate, known.status().UpdateRevision+"/1")
	if blocked() || !s.status().Rollout.Forced {
		t.Errorf("%+v", s.status().Rollout)
	}
}
