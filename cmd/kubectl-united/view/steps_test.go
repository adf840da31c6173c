// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

func TestStepsOf(t *testing.T) {
	g := NewWithT(t)
	reached := metav1.NewTime(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	parent := &v1alpha1.UnitedDeployment{}
	g.Expect(view.StepsOf(parent)).To(BeEmpty())
	parent.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Steps: []v1alpha1.RolloutStep{
		{Subsets: []string{"a"}, Partition: ptr.To(intstr.FromString("50%")), Pause: &v1alpha1.RolloutPause{}},
		{Subsets: []string{"a", "b"}, Partition: ptr.To(intstr.FromInt32(0)), Pause: &v1alpha1.RolloutPause{Duration: "10m"}},
		{Subsets: []string{"*"}, Partition: ptr.To(intstr.FromInt32(0))},
	}}
	parent.Status.CurrentRevision, parent.Status.UpdateRevision = "web-1", "web-2"
	parent.Status.Rollout = &v1alpha1.RolloutStatus{Step: 1, ReachedTime: &reached, SoakedSeconds: 240}
	g.Expect(view.StepsOf(parent)).To(Equal([]view.Step{
		{Subsets: []string{"a"}, Partition: "50%", Pause: "until approved", Done: true},
		{Subsets: []string{"a", "b"}, Partition: "0", Pause: "10m", Now: true, Ends: reached.Add(6 * time.Minute)},
		{Subsets: []string{"*"}, Partition: "0"},
	}))
	parent.Status.CurrentRevision = "web-2"
	g.Expect(view.StepsOf(parent)[1].Now).To(BeFalse(), "at rest no step runs")
}
