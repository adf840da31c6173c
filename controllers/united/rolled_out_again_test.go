// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestRolledOutAgain: a revision that the rollout was on the way back from is rolled out again. All its replicas run before the last
// step is approved, and that does not make it one to go back to.
func TestRolledOutAgain(t *testing.T) {
	s := newScene(t).rolling().rollback(func(r *v1alpha1.RollingUpdate) {
		r.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: ptr.To(intstr.FromInt32(0)), Pause: &v1alpha1.RolloutPause{}}}
	}).settled()
	s.image("v2").goOn(20).Annotate(v1alpha1.AnnotationApproved, s.status().Rollout.ApprovalKey)
	s.settled().image("v1").goOn(3)
	if phase := s.status().Rollout.Phase; phase == v1alpha1.RolloutDone {
		t.Fatal("nothing is left of the way back")
	}
	s.image("v2").goOn(20)
	if r := s.status().Rollout; r.Phase != v1alpha1.RolloutAwaitingApproval || s.runs() != "v2" {
		t.Errorf("it runs %s: %s, %q", s.runs(), r.Phase, r.Message)
	}
	s.Annotate(v1alpha1.AnnotationApproved, s.status().Rollout.ApprovalKey)
	if r := s.settled().status().Rollout; r.Phase != v1alpha1.RolloutDone {
		t.Errorf("approved: %s", r.Phase)
	}
}
