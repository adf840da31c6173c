// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

// scraped returns the metrics, each as "<name>{<values of labels>} <value>", sorted.
func scraped(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			list = append(list, fmt.Sprintf("%s{%s} %.0f", family.GetName(), strings.Join(labels, ","), m.GetGauge().GetValue()))
		}
	}
	slices.Sort(list)
	return list
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := publish.NewMetrics(registry)
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	other := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}}
	status := &v1alpha1.UnitedDeploymentStatus{
		LastProgressTime: ptr.To(metav1.NewTime(time.Unix(1767225600, 0))),
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue},
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Blocked", LastTransitionTime: metav1.NewTime(time.Unix(1767225500, 0))},
			{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue},
		},
		Subsets: []v1alpha1.SubsetStatus{
			{Name: "a", DesiredReplicas: 6, Partition: 7, Phase: v1alpha1.PhaseRestoring, ReplicaCounts: v1alpha1.ReplicaCounts{
				Replicas: 5, ReadyReplicas: 4, AvailableReplicas: 3, UpdatedReplicas: 2, UpdatedReadyReplicas: 1}},
			{Name: "b"},
		},
	}
	m.Observe(parent, status)
	ofA := []string{
		"united_last_progress_timestamp_seconds{name=web,namespace=shop} 1767225600",
		"united_stalled{name=web,namespace=shop} 1",
		"united_ready{name=web,namespace=shop,reason=Blocked} 0",
		"united_ready_transition_timestamp_seconds{name=web,namespace=shop} 1767225500",
		"united_initialized{name=web,namespace=shop} 1",
		"united_subset_partition{name=web,namespace=shop,subset=a} 7",
		"united_subset_restoring{name=web,namespace=shop,subset=a} 1",
		"united_subset_released{name=web,namespace=shop,subset=a} 0",
	}
	for state, n := range map[string]int{"desired": 6, "existing": 5, "ready": 4, "available": 3, "updated": 2, "updated_ready": 1} {
		ofA = append(ofA, fmt.Sprintf("united_subset_replicas{name=web,namespace=shop,state=%s,subset=a} %d", state, n))
	}
	ofB := []string{"united_subset_partition{name=web,namespace=shop,subset=b} 0", "united_subset_restoring{name=web,namespace=shop,subset=b} 0",
		"united_subset_released{name=web,namespace=shop,subset=b} 0"}
	for _, state := range []string{"desired", "existing", "ready", "available", "updated", "updated_ready"} {
		ofB = append(ofB, "united_subset_replicas{name=web,namespace=shop,state="+state+",subset=b} 0")
	}
	want := slices.Concat(ofA, ofB)
	slices.Sort(want)
	if diff := cmp.Diff(want, scraped(t, registry)); diff != "" {
		t.Error("want -, have +\n", diff)
	}

	// A removed subset no longer has metrics, and a parent without problems is not stalled.
	parent.Status = *status
	m.Observe(parent, &v1alpha1.UnitedDeploymentStatus{Subsets: status.Subsets[:1], LastProgressTime: status.LastProgressTime,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "RolloutComplete", LastTransitionTime: metav1.NewTime(time.Unix(1767225700, 0))}}})
	ofA[1] = "united_stalled{name=web,namespace=shop} 0"
	ofA[2] = "united_ready{name=web,namespace=shop,reason=RolloutComplete} 1" // and no series of the earlier reason
	ofA[3] = "united_ready_transition_timestamp_seconds{name=web,namespace=shop} 1767225700"
	ofA[4] = "united_initialized{name=web,namespace=shop} 0"
	slices.Sort(ofA)
	if diff := cmp.Diff(ofA, scraped(t, registry)); diff != "" {
		t.Error("want -, have +\n", diff)
	}

	m.Observe(other, &v1alpha1.UnitedDeploymentStatus{})
	m.Forget(types.NamespacedName{Namespace: "shop", Name: "web"})
	if diff := cmp.Diff([]string{"united_initialized{name=web,namespace=other} 0", "united_stalled{name=web,namespace=other} 0"}, scraped(t, registry)); diff != "" {
		t.Error("of another namespace: want -, have +\n", diff)
	}
	m.Forget(types.NamespacedName{Namespace: "other", Name: "web"})
	m.Forget(types.NamespacedName{Namespace: "other", Name: "web"})
	if left := scraped(t, registry); len(left) > 0 {
		t.Error(left)
	}
}

// TestReleasedByName: only what a user has named and released counts as left released.
func TestReleasedByName(t *testing.T) {
	zero, half := intstr.FromInt32(0), intstr.FromString("50%")
	named := &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"a": zero}}
	for name, c := range map[string]struct {
		strategy  v1alpha1.UpdateStrategy
		partition int32
		want      string
	}{
		"named, with partition 0":            {v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: named}, 0, "1"},
		"named, without a type":              {v1alpha1.UpdateStrategy{ManualUpdate: named}, 0, "1"},
		"named, with half of it protected":   {v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"a": half}}}, 2, "0"},
		"another one is named":               {v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"b": zero}}}, 4, "0"},
		"released by the default":            {v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{DefaultPartition: &zero}}, 0, "0"},
		"nothing is ever held":               {v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy}, 0, "0"},
		"RollingUpdate":                      {v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy}, 0, "0"},
		"RollingUpdate, with old partitions": {v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, ManualUpdate: named}, 0, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.UnitedDeploymentSpec{UpdateStrategy: c.strategy}}
			publish.NewMetrics(registry).Observe(parent, &v1alpha1.UnitedDeploymentStatus{Subsets: []v1alpha1.SubsetStatus{{Name: "a", DesiredReplicas: 4, Partition: c.partition}}})
			if have := scraped(t, registry); !slices.Contains(have, "united_subset_released{name=web,namespace=shop,subset=a} "+c.want) {
				t.Error(have)
			}
		})
	}
}

func TestMetricsGoWithTheirParent(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newScene(t)
	s.Reconciler.Metrics = publish.NewMetrics(registry)
	s.settled()
	if len(scraped(t, registry)) != 2*9+5 {
		t.Error(scraped(t, registry))
	}
	delete(s.API.Cached.Parents, "web")
	if _, err := s.Reconciler.Reconcile(t.Context(), requestFor(s.Parent())); err != nil {
		t.Error(err)
	}
	if left := scraped(t, registry); len(left) > 0 {
		t.Error(left)
	}
}
