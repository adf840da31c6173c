// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
)

func aStatus() *v1alpha1.UnitedDeploymentStatus {
	return &v1alpha1.UnitedDeploymentStatus{
		Selector:      "app=web",
		ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: 4},
		Subsets:       []v1alpha1.SubsetStatus{{Name: "zone-a", Partition: 2}, {Name: "zone-b", Partition: 2}},
		Conditions:    []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Fine"}},
	}
}

func TestFirstDifference(t *testing.T) {
	now := metav1.Now()
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.UnitedDeploymentStatus)
		want   string
	}{
		{"nothing", func(*v1alpha1.UnitedDeploymentStatus) {}, ""},
		{"times", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.LastProgressTime, s.Conditions[0].LastTransitionTime = &now, now
			s.PausedTime, s.ResumedTime = &now, &now
		}, ""},
		{"a field", func(s *v1alpha1.UnitedDeploymentStatus) { s.Selector = "x" }, "status.selector"},
		{"a number", func(s *v1alpha1.UnitedDeploymentStatus) { s.Replicas = 9 }, "status.replicas"},
		{"a field of a subset", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets[1].Partition = 0 }, `status.subsets[name="zone-b"].partition`},
		{"a subset", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets = s.Subsets[:1] }, `status.subsets[name="zone-b"]`},
		{"a subset more", func(s *v1alpha1.UnitedDeploymentStatus) {
			s.Subsets = append(s.Subsets, v1alpha1.SubsetStatus{Name: "zone-c"})
		}, `status.subsets[name="zone-c"]`},
		{"a condition", func(s *v1alpha1.UnitedDeploymentStatus) { s.Conditions[0].Reason = "x" }, `status.conditions[type="Ready"].reason`},
		{"several: the first", func(s *v1alpha1.UnitedDeploymentStatus) { s.Replicas, s.Selector = 9, "x" }, "status.replicas"},
		{"all of them", func(s *v1alpha1.UnitedDeploymentStatus) { s.Subsets = nil }, "status.subsets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			is, was := aStatus(), aStatus()
			tc.change(is)
			for _, pair := range [][2]*v1alpha1.UnitedDeploymentStatus{{was, is}, {is, was}} {
				a, err := timeless(pair[0])
				if err != nil {
					t.Fatal(err)
				}
				b, err := timeless(pair[1])
				if err != nil {
					t.Fatal(err)
				}
				path := firstDifference(parsed(a), parsed(b), statusPath())
				if path == nil != (tc.want == "") || path != nil && ownership.FieldName(path) != tc.want {
					t.Errorf("want %q, have %v", tc.want, path)
				}
			}
		})
	}
}
