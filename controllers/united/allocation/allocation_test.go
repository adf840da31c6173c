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

	"github.com/unitedworkloads/united/controllers/united/allocation"
)

// wishes parses "1, 50%, -": a dash is an absent wish; what is not a number is a string.
func wishes(list string) []*intstr.IntOrString {
	if list == "" {
		return nil
	}
	var out []*intstr.IntOrString
	for field := range strings.SplitSeq(list, ",") {
		if field = strings.TrimSpace(field); field == "-" {
			out = append(out, nil)
			continue
		}
		value := intstr.Parse(field)
		out = append(out, &value)
	}
	return out
}

const honoured = "every subset gets the replicas it asks for"

func TestAllocate(t *testing.T) {
	const maxInt = math.MaxInt32
	tests := []struct {
		wishes string
		total  int32
		want   []int32
		reason string
	}{
		// The numbers of the design.
		{"1, 50%, -", 6, []int32{1, 3, 2}, honoured},
		{"50%, 50%", 5, []int32{3, 2}, honoured},
		{"33%, 33%, 34%", 10, []int32{3, 3, 4}, honoured},
		{"25%, 25%, -", 3, []int32{1, 1, 1}, honoured},
		{"25%, 25%, -", 4, []int32{1, 1, 2}, honoured},
		{"25%, 25%, -", 1, []int32{0, 0, 1}, honoured},
		{"-, -, -", 10, []int32{4, 3, 3}, honoured},
		{"2, 2", 6, []int32{3, 3}, "the subsets ask for 4 replicas, but spec.replicas is 6; replicas are split in proportion"},
		{"4, 4", 4, []int32{2, 2}, "the subsets ask for 8 replicas, but spec.replicas is 4; replicas are split in proportion"},
		{"5, 5", 0, []int32{0, 0}, "the subsets ask for 10 replicas, but spec.replicas is 0; replicas are split in proportion"},
		{"10, 10%", 100, []int32{50, 50}, "the subsets ask for 20 replicas (10 + 10% of 100), but spec.replicas is 100; replicas are split in proportion"},
		{"0, 0", 5, []int32{3, 2}, "the subsets ask for 0 replicas, but spec.replicas is 5; replicas are split equally"},

		// No subsets, no replicas.
		{"", 0, []int32{}, honoured},
		{"", 3, []int32{}, "spec.topology.subsets is empty, so the 3 replicas of spec.replicas cannot be placed"},
		{"-, 1, 50%", 0, []int32{0, 0, 0}, "the subsets ask for 1 replicas (1 + 50% of 0), but spec.replicas is 0; replicas are split in proportion"},
		{"-, -", -4, []int32{0, 0}, honoured},

		// Absent subsets take what is left, even if that is nothing.
		{"-", 7, []int32{7}, honoured},
		{"4, -", 4, []int32{4, 0}, honoured},
		{"50%, 50%, -", 9, []int32{5, 4, 0}, honoured},
		{"0, 0%, -", 9, []int32{0, 0, 9}, honoured},
		{"4, 4, -", 4, []int32{2, 2, 0}, "the subsets ask for 8 replicas, but spec.replicas is 4; replicas are split in proportion"},
		{"2, 70%, -", 6, []int32{2, 4, 0}, "the subsets ask for 6.2 replicas (2 + 70% of 6), but spec.replicas is 6; replicas are split in proportion"},

		// Numbers and percentages that add up exactly, and some that do not.
		{"3, 50%", 6, []int32{3, 3}, honoured},
		{"3, 50%", 5, []int32{3, 2}, "the subsets ask for 5.5 replicas (3 + 50% of 5), but spec.replicas is 5; replicas are split in proportion"},
		{"2, 4", 6, []int32{2, 4}, honoured},
		{"0, 6", 7, []int32{0, 7}, "the subsets ask for 6 replicas, but spec.replicas is 7; replicas are split in proportion"},
		{"33%, 33%, 33%", 10, []int32{4, 3, 3}, "the subsets ask for 9.9 replicas (99% of 10), but spec.replicas is 10; replicas are split in proportion"},
		{"0%, 0%", 5, []int32{3, 2}, "the subsets ask for 0 replicas, but spec.replicas is 5; replicas are split equally"},
		{"100%, 100%, 100%", 4, []int32{2, 1, 1}, "the subsets ask for 12 replicas (300% of 4), but spec.replicas is 4; replicas are split in proportion"},

		// The largest possible numbers.
		{"-, -", maxInt, []int32{1 << 30, 1<<30 - 1}, honoured},
		{"2147483647, 2147483647", maxInt, []int32{1 << 30, 1<<30 - 1}, "the subsets ask for 4294967294 replicas, but spec.replicas is 2147483647; replicas are split in proportion"},
		{"2147483647, 0, -", maxInt, []int32{maxInt, 0, 0}, honoured},
		{"1%, 99%", maxInt, []int32{21474836, 2126008811}, honoured},

		// Malformed values count as absent.
		{"33%, 33%, 34", 100, []int32{33, 33, 34}, honoured},
		{"33%, 33%, 34 %", 100, []int32{33, 33, 34}, `spec.topology.subsets[2].replicas: "34 %" is neither a number of at least 0 nor a percentage from "0%" to "100%"; a malformed value counts as absent`},
		{"1, -5, ten", 5, []int32{1, 2, 2}, `spec.topology.subsets[1].replicas: -5 is neither a number of at least 0 nor a percentage from "0%" to "100%" (and 1 more like it); a malformed value counts as absent`},
		{"8, 101%", 4, []int32{4, 0}, `spec.topology.subsets[1].replicas: "101%" is neither a number of at least 0 nor a percentage from "0%" to "100%"; a malformed value counts as absent; the subsets ask for 8 replicas, but spec.replicas is 4; replicas are split in proportion`},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("[%s] of %d", tt.wishes, tt.total), func(t *testing.T) {
			got := allocation.Allocate(tt.total, wishes(tt.wishes))
			if !slices.Equal(got.Replicas, tt.want) || got.Honored != (tt.reason == honoured) || got.Reason != tt.reason {
				t.Errorf("got  %v %t %s\nwant %v %t %s", got.Replicas, got.Honored, got.Reason,
					tt.want, tt.reason == honoured, tt.reason)
			}
		})
	}
}

// Only code can produce a type that intstr does not know; it must not cause a panic.
func TestAllocateUnknownType(t *testing.T) {
	got := allocation.Allocate(4, []*intstr.IntOrString{{Type: 9}, nil})
	if !slices.Equal(got.Replicas, []int32{2, 2}) || got.Honored {
		t.Errorf("got %+v", got)
	}
}

// If numbers and percentages are mixed, scaling up can move a replica from one subset to another.
// This is the example in the package comment.
func TestMixedWishesCanShift(t *testing.T) {
	list := wishes("35%, -, 6, -")
	for total, want := range map[int32][]int32{10: {4, 0, 6, 0}, 11: {3, 1, 6, 1}} {
		if got := allocation.Allocate(total, list); !slices.Equal(got.Replicas, want) || !got.Honored {
			t.Errorf("of %d: got %+v, want %v", total, got, want)
		}
	}
}

func assertNoneShrinks(t interface{ Errorf(string, ...any) }, total int32, wishes []*intstr.IntOrString) {
	before := allocation.Allocate(total, wishes).Replicas
	after := allocation.Allocate(total+1, wishes).Replicas
	for i := range before {
		if after[i] < before[i] {
			t.Errorf("subset %d loses a replica from %d %v to %d %v", i, total, before, total+1, after)
		}
	}
}
