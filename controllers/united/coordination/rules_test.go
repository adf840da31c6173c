// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

func TestCheck(t *testing.T) {
	at := field.NewPath("rollingUpdate")
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.RollingUpdate)
		want   string
	}{
		{"defaults", nil, ""},
		{"all of it", func(s *v1alpha1.RollingUpdate) {
			s.Partition, s.MaxUnavailable, s.MaxSkew, s.Order = amount("80%"), amount("25%"), "0%", v1alpha1.ParallelOrder
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amount("3"), Pause: &v1alpha1.RolloutPause{Duration: "1h30m"}}}
		}, ""},
		{"partition", func(s *v1alpha1.RollingUpdate) { s.Partition = amount("101%") }, "rollingUpdate.partition"},
		{"maxUnavailable", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("all") }, "rollingUpdate.maxUnavailable"},
		{"none unavailable", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("0") }, "rollingUpdate.maxUnavailable"},
		{"maxUnavailablePerSubset", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailablePerSubset = amount("all") }, "rollingUpdate.maxUnavailablePerSubset"},
		{"none unavailable per subset", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailablePerSubset = amount("0") }, "rollingUpdate.maxUnavailablePerSubset"},
		{"a percentage per subset", func(s *v1alpha1.RollingUpdate) { s.MaxUnavailablePerSubset = amount("5%") }, ""},
		{"subsets of maxSkew", func(s *v1alpha1.RollingUpdate) { s.MaxSkew, s.MaxSkewSubsets = "10%", []string{"a"} }, ""},
		{"unknown subset of maxSkew", func(s *v1alpha1.RollingUpdate) {
			s.MaxSkew, s.MaxSkewSubsets = "10%", []string{"a", "x"}
		}, "rollingUpdate.maxSkewSubsets"},
		{"subsets without maxSkew", func(s *v1alpha1.RollingUpdate) { s.MaxSkewSubsets = []string{"a"} }, "rollingUpdate.maxSkewSubsets"},
		{"maxSkew", func(s *v1alpha1.RollingUpdate) { s.MaxSkew = "10" }, "rollingUpdate.maxSkew"},
		{"maxSkew one after the other", func(s *v1alpha1.RollingUpdate) {
			s.MaxSkew, s.Order = "10%", v1alpha1.SequentialOrder
		}, "rollingUpdate.maxSkew"},
		{"order", func(s *v1alpha1.RollingUpdate) { s.Order = "Random" }, "rollingUpdate.order"},
		{"subset of a step", func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amount("0")}, {Subsets: []string{"a", "x"}, Partition: amount("0")}}
		}, "rollingUpdate.steps[1].subsets"},
		{"partition of a step", func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amount("-1")}}
		}, "rollingUpdate.steps[0].partition"},
		{"duration", func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amount("0"), Pause: &v1alpha1.RolloutPause{Duration: "-10m"}}}
		}, "rollingUpdate.steps[0].pause.duration"},
		{"all subsets", func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"*"}, Partition: amount("0")}}
		}, ""},
		{"all subsets and one", func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"*", "a"}, Partition: amount("0")}}
		}, "rollingUpdate.steps[0].subsets"},
		{"no subsets", func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Partition: amount("0")}}
		}, "rollingUpdate.steps[0].subsets"},
		{"no partition", func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}}}
		}, "rollingUpdate.steps[0].partition"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errs := coordination.Check(strategy(tc.change), func(name string) bool { return name == "a" }, at)
			got := ""
			if len(errs) > 0 {
				got = errs[0].Field
			}
			if got != tc.want || len(errs) > 1 {
				t.Error(errs)
			}
		})
	}
	if errs := coordination.Check(nil, nil, at); len(errs) != 1 || errs[0].Field != "rollingUpdate" {
		t.Error(errs)
	}
}

// If the strategy has a value that Check rejects, it holds.
func TestWhatCannotBeReadHolds(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.RollingUpdate){
		"floor": func(s *v1alpha1.RollingUpdate) { s.Partition = amount("most") },
		"step": func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("most"), Pause: &v1alpha1.RolloutPause{}}}
		},
		"pause": func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("100%"), Pause: &v1alpha1.RolloutPause{Duration: "soon"}}}
		},
		"step of no subset": func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Partition: amount("0"), Pause: &v1alpha1.RolloutPause{}}}
		},
		"step without a partition": func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Pause: &v1alpha1.RolloutPause{}}}
		},
	} {
		w := newWorld(strategy(change), 3).roll("v2").settled()
		if w.updated()[0] != 0 {
			t.Error(name, w.picture())
		}
	}
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("all") }), 4).roll("v2").settled()
	if !w.complete() || w.mostUnavailable > 1 {
		t.Error(w.mostUnavailable, w.picture())
	}
}

func TestMaxUnavailable(t *testing.T) {
	for _, tc := range []struct {
		value intstr.IntOrString
		sizes []int32
		want  int
	}{
		{intstr.FromString("10%"), []int32{5}, 1},
		{intstr.FromString("0%"), []int32{5}, 1},
		{intstr.FromString("25%"), []int32{5, 6}, 2},
		{intstr.FromString("100%"), []int32{2, 1}, 3},
		{intstr.FromInt32(2), []int32{4}, 2},
		{intstr.FromInt32(1), []int32{1}, 1},
	} {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = &tc.value }), tc.sizes...).roll("v2")
		w.slow = 3 * time.Second
		w.settle()
		if !w.complete() || w.mostUnavailable != tc.want {
			t.Errorf("%s of %v: %d down at most, want %d", tc.value.String(), tc.sizes, w.mostUnavailable, tc.want)
		}
	}
}
