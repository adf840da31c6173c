// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
)

type ratios = map[string]v1alpha1.ColocationRatio

// roles are the subsets prefill, router and decode; replicas is that of the router.
func roles(replicas string) []v1alpha1.Subset {
	subsets := []v1alpha1.Subset{{Name: "prefill"}, {Name: "router"}, {Name: "decode"}}
	if replicas == "" {
		return slices.Delete(subsets, 1, 2)
	}
	subsets[1].Replicas = ptr.To(intstr.Parse(replicas))
	return subsets
}

func TestGrouped(t *testing.T) {
	for _, tc := range []struct {
		total  int32
		router string
		want   []int32
	}{
		{9, "", []int32{6, 3}},
		{0, "", []int32{0, 0}},
		{1, "", []int32{1, 0}},
		{2, "", []int32{2, 0}},
		{3, "", []int32{2, 1}},
		{10, "", []int32{7, 3}},
		{11, "", []int32{8, 3}},
		{12, "", []int32{8, 4}},
		{math.MaxInt32, "", []int32{1431655765, 715827882}},
		{10, "1", []int32{6, 1, 3}},
		{11, "1", []int32{7, 1, 3}},
		{10, "20%", []int32{6, 2, 2}},
		{10, "0", []int32{7, 0, 3}},
		{10, "100%", []int32{0, 10, 0}},
	} {
		t.Run(fmt.Sprintf("%d %s", tc.total, tc.router), func(t *testing.T) {
			got := allocation.Grouped(tc.total, roles(tc.router), ratios{"prefill": 2, "decode": 1})
			if !slices.Equal(got.Replicas, tc.want) || !got.Honored || got.Reason == "" {
				t.Errorf("want %v, have %+v", tc.want, got)
			}
		})
	}
	// The others take theirs first.
	if got := allocation.Grouped(3, roles("5"), ratios{"prefill": 2, "decode": 1}); !slices.Equal(got.Replicas, []int32{0, 3, 0}) || got.Honored {
		t.Errorf("%+v", got)
	}
	bounded := roles("0")
	bounded[1] = v1alpha1.Subset{Name: "router", MinReplicas: ptr.To(intstr.FromInt32(1)), MaxReplicas: ptr.To(intstr.FromString("50%"))}
	for total, want := range map[int32][]int32{1: {0, 1, 0}, 2: {1, 1, 0}, 6: {2, 3, 1}, 12: {4, 6, 2}} {
		if got := allocation.Grouped(total, bounded, ratios{"prefill": 2, "decode": 1}); !slices.Equal(got.Replicas, want) {
			t.Errorf("%d: %+v", total, got)
		}
	}
	if got := allocation.Deal(5, []int32{0, 0}); !slices.Equal(got, []int32{0, 0}) {
		t.Error("there are no members: ", got)
	}
}

// TestGroupedIsSane: the sum is exact, all groups but the last one are whole, and one more replica takes none away.
func TestGroupedIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int32Range(0, 500).Draw(t, "total")
		var subsets []v1alpha1.Subset
		members, others := ratios{}, int32(0)
		for i := range rapid.IntRange(1, 6).Draw(t, "subsets") {
			s := v1alpha1.Subset{Name: fmt.Sprint("s", i)}
			if i == 0 || rapid.Bool().Draw(t, "member") {
				members[s.Name] = v1alpha1.ColocationRatio(rapid.IntRange(1, 9).Draw(t, "ratio"))
			} else {
				s.Replicas = ptr.To(intstr.FromInt32(rapid.Int32Range(0, 20).Draw(t, "replicas")))
				others += s.Replicas.IntVal
			}
			subsets = append(subsets, s)
		}
		got, again := allocation.Grouped(total, subsets, members), allocation.Grouped(total, subsets, members)
		if !slices.Equal(got.Replicas, again.Replicas) || got.Reason != again.Reason {
			t.Fatal("another answer to the same question")
		}
		if sum := sumOf(got.Replicas); sum != total {
			t.Fatalf("%v is %d", got.Replicas, sum)
		}
		if total < others {
			return // the others are scaled down in proportion
		}
		list := allocation.RatiosOf(subsets, members)
		groups := allocation.Groups(got.Replicas, list)
		for i, s := range subsets {
			switch {
			case list[i] == 0 && got.Replicas[i] != s.Replicas.IntVal:
				t.Fatalf("%s does not have its own: %v", s.Name, got.Replicas)
			case list[i] > 0 && (got.Replicas[i] > groups*list[i] || got.Replicas[i] < (groups-1)*list[i]):
				t.Fatalf("%v are not groups of %v", got.Replicas, list)
			}
		}
		more := allocation.Grouped(total+1, subsets, members)
		for i := range subsets {
			if more.Replicas[i] < got.Replicas[i] {
				t.Fatalf("from %v to %v", got.Replicas, more.Replicas)
			}
		}
	})
}

func sumOf(list []int32) (sum int32) {
	for _, n := range list {
		sum += n
	}
	return sum
}

func TestGroups(t *testing.T) {
	if got := allocation.Groups([]int32{math.MaxInt32, math.MaxInt32}, []int32{1000, 0}); got != 2147484 {
		t.Error(got)
	}
}

func TestSequential(t *testing.T) {
	both := []int32{2, 0, 1}
	for name, tc := range map[string]struct {
		wanted, has []int32
		ready       int32 // groups that are
		want        []int32
		groups      int32
	}{
		"the first":                        {[]int32{6, 1, 3}, []int32{0, 0, 0}, 0, []int32{2, 1, 1}, 1},
		"half of the first":                {[]int32{6, 1, 3}, []int32{1, 0, 0}, 0, []int32{2, 1, 1}, 1},
		"the second":                       {[]int32{6, 1, 3}, []int32{2, 1, 1}, 1, []int32{4, 1, 2}, 2},
		"it waits":                         {[]int32{6, 1, 3}, []int32{4, 1, 2}, 1, []int32{4, 1, 2}, 2},
		"a group that has begun":           {[]int32{6, 1, 3}, []int32{4, 1, 1}, 0, []int32{4, 1, 2}, 2},
		"all":                              {[]int32{6, 1, 3}, []int32{6, 1, 3}, 3, []int32{6, 1, 3}, 3},
		"nothing is taken":                 {[]int32{8, 1, 4}, []int32{6, 1, 3}, 0, []int32{6, 1, 3}, 3},
		"a remainder":                      {[]int32{3, 0, 1}, []int32{2, 0, 1}, 1, []int32{3, 0, 1}, 2},
		"a remainder that becomes a group": {[]int32{4, 0, 2}, []int32{3, 0, 1}, 0, []int32{4, 0, 2}, 2},
		"fewer":                            {[]int32{2, 1, 1}, []int32{6, 1, 3}, 0, []int32{2, 1, 1}, 1},
		"none":                             {[]int32{0, 1, 0}, []int32{6, 1, 3}, 0, []int32{0, 1, 0}, 0},
		"what exists is ready":             {[]int32{6, 1, 3}, []int32{0, 0, 0}, 2, []int32{6, 1, 3}, 3},
		"somebody has scaled a child":      {[]int32{6, 1, 3}, []int32{60, 1, 1}, 0, []int32{6, 1, 3}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			got, groups := allocation.Sequential(tc.wanted, tc.has, both, func(group int32) bool { return group < tc.ready })
			if !slices.Equal(got, tc.want) || groups != tc.groups {
				t.Errorf("want %v in %d groups, have %v in %d", tc.want, tc.groups, got, groups)
			}
		})
	}
}
