// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
)

// bounds parses "1..2, 50%.., ..3, -".
func bounds(list string) []allocation.Bounds {
	var out []allocation.Bounds
	for text := range strings.SplitSeq(list, ",") {
		low, high, _ := strings.Cut(strings.TrimSpace(text), "..")
		b := allocation.Bounds{}
		if low != "" && low != "-" {
			b.Min = wishes(low)[0]
		}
		if high != "" {
			b.Max = wishes(high)[0]
		}
		out = append(out, b)
	}
	return out
}

const within = "every subset is within its bounds"

func TestFill(t *testing.T) {
	tests := []struct {
		bounds string
		total  int32
		want   []int32
		reason string
	}{
		// Bounds as given in the feature request.
		{"1..2, 1..2, 1..", 3, []int32{1, 1, 1}, within},
		{"1..2, 1..2, 1..", 7, []int32{2, 2, 3}, within},
		{"1..2, 1..2, 1..", 1, []int32{1, 0, 0}, "the subsets ask for at least 3 replicas, but spec.replicas is 1; the first ones get theirs"},
		{"1..2, 1..2, 1..", 4, []int32{2, 1, 1}, within},
		{"1..2, 1..2, 1..", 0, []int32{0, 0, 0}, "the subsets ask for at least 3 replicas, but spec.replicas is 0; the first ones get theirs"},
		{"..2, ..2, -", 3, []int32{2, 1, 0}, within},
		{"..2, ..2, -", 5, []int32{2, 2, 1}, within},

		// Subsets with a maximum come first, wherever they are; the first one without takes the rest.
		{"-, ..2, -", 5, []int32{3, 2, 0}, within},
		{"1.., ..2, 3..", 9, []int32{4, 2, 3}, within},

		// A minimum is rounded up, a maximum down.
		{"30%.., ..30%, -", 5, []int32{4, 1, 0}, within},
		{"30%..50%, -", 10, []int32{5, 5}, within},
		{"0%..0%, -", 10, []int32{0, 10}, within},
		{"50%..50%, -", 5, []int32{3, 2}, "maxReplicas of spec.topology.subsets[0] is 2, below its minReplicas, 3; the minimum counts"},
		{"50%..50%, -", 4, []int32{2, 2}, within},
		{"3..50%, -", 4, []int32{3, 1}, "maxReplicas of spec.topology.subsets[0] is 2, below its minReplicas, 3; the minimum counts"},

		// Values that admission rejects.
		{"..1, ..2", 5, []int32{1, 4}, "the subsets take at most 3 replicas, but spec.replicas is 5; the last one gets the rest"},
		{"five.., -", 2, []int32{2, 0}, `spec.topology.subsets[0].minReplicas: "five" is neither a number of at least 0 nor a percentage from "0%" to "100%"; a malformed value counts as absent`},
		{"1..-3, -", 2, []int32{2, 0}, `spec.topology.subsets[0].maxReplicas: -3 is neither a number of at least 0 nor a percentage from "0%" to "100%"; a malformed value counts as absent`},

		{"1.., ..2, -", -4, []int32{0, 0, 0}, "the subsets ask for at least 1 replicas, but spec.replicas is 0; the first ones get theirs"},
		{"2147483647.., 2147483647..", math.MaxInt32, []int32{math.MaxInt32, 0}, "the subsets ask for at least 4294967294 replicas, but spec.replicas is 2147483647; the first ones get theirs"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("[%s] of %d", tt.bounds, tt.total), func(t *testing.T) {
			got := allocation.Fill(tt.total, bounds(tt.bounds))
			if !slices.Equal(got.Replicas, tt.want) || got.Honored != (tt.reason == within) || got.Reason != tt.reason {
				t.Errorf("got  %v %t %s\nwant %v %t %s", got.Replicas, got.Honored, got.Reason, tt.want, tt.reason == within, tt.reason)
			}
		})
	}
}

// The oracle gives out one replica at a time: to the first subset below its minimum, else to the
// first one below its maximum, else to the first one without a maximum. So the sum is exact, and
// scaling up by one takes no replica from a subset.
func TestFillOneByOne(t *testing.T) {
	maybe := func(g *rapid.Generator[int32]) *rapid.Generator[*int32] { return rapid.Ptr(g, true) }
	rapid.Check(t, func(t *rapid.T) {
		var list []numbers
		var asked []allocation.Bounds
		for range rapid.IntRange(1, 6).Draw(t, "subsets") {
			n := numbers{maybe(rapid.Int32Range(0, 5)).Draw(t, "min"), maybe(rapid.Int32Range(0, 8)).Draw(t, "max")}
			b := allocation.Bounds{}
			if n.low != nil {
				b.Min = number(*n.low)
			}
			if n.high != nil {
				b.Max = number(*n.high)
			}
			list, asked = append(list, n), append(asked, b)
		}
		want := make([]int32, len(list))
		for total := range rapid.Int32Range(0, 60).Draw(t, "total") + 1 {
			got := allocation.Fill(total, asked)
			if !slices.Equal(got.Replicas, want) {
				t.Fatalf("%d over %+v: %v, want %v", total, asked, got.Replicas, want)
			}
			want[next(want, list)]++
		}
	})
}

// numbers are the bounds of a subset.
type numbers struct{ low, high *int32 }

// next returns the subset that gets the next replica.
func next(has []int32, list []numbers) int {
	for _, wants := range []func(i int, n numbers) bool{
		func(i int, n numbers) bool { return n.low != nil && has[i] < *n.low },
		func(i int, n numbers) bool { return n.high != nil && has[i] < *n.high },
		func(_ int, n numbers) bool { return n.high == nil },
	} {
		for i, n := range list {
			if wants(i, n) {
				return i
			}
		}
	}
	return len(list) - 1
}

// For all wishes, the sum is exact and nothing is negative.
func TestFillIsSane(t *testing.T) {
	anything := rapid.OneOf(absents, percentages, fair, small, anyNumber, malformed)
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.OneOf(anyTotal, rapid.Int32()).Draw(t, "total")
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) allocation.Bounds {
			return allocation.Bounds{Min: anything.Draw(t, "min"), Max: anything.Draw(t, "max")}
		}), 0, 100).Draw(t, "bounds")
		assertSane(t, total, make([]*intstr.IntOrString, len(list)), allocation.Fill(total, list))
	})
}

func TestSplit(t *testing.T) {
	subsets := []v1alpha1.Subset{{Name: "a", Replicas: number(1)}, {Name: "b"}}
	if got := allocation.Split(5, subsets); !slices.Equal(got.Replicas, []int32{1, 4}) {
		t.Errorf("without bounds: %+v", got)
	}
	subsets = []v1alpha1.Subset{{Name: "a", MaxReplicas: number(3)}, {Name: "b"}}
	if got := allocation.Split(5, subsets); !slices.Equal(got.Replicas, []int32{3, 2}) {
		t.Errorf("with one: %+v", got)
	}
	subsets = []v1alpha1.Subset{{Name: "a", MinReplicas: number(0)}, {Name: "b"}}
	if got := allocation.Split(5, subsets); !slices.Equal(got.Replicas, []int32{5, 0}) {
		t.Errorf("with a minimum of 0: %+v", got)
	}
}
