// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Grouped splits total over the subsets of a spec with groups. Members are the subsets with a ratio. First the other
// subsets get theirs, with Split, where the members together count as one subset that takes the rest; then Deal
// deals that rest.
func Grouped(total int32, subsets []v1alpha1.Subset, ratios map[string]v1alpha1.ColocationRatio) Result {
	var others []v1alpha1.Subset
	for i := range subsets {
		if ratios[subsets[i].Name] == 0 {
			others = append(others, subsets[i])
		}
	}
	// The rest comes last, so that the others are preferred in a tie, and are filled up to their maximums.
	split := Split(total, append(others, v1alpha1.Subset{}))
	dealt := Deal(split.Replicas[len(others)], RatiosOf(subsets, ratios))
	result := Result{Replicas: make([]int32, len(subsets)), Honored: split.Honored, Reason: split.Reason}
	next := 0
	for i := range subsets {
		if ratios[subsets[i].Name] > 0 {
			result.Replicas[i] = dealt[i]
			continue
		}
		result.Replicas[i] = split.Replicas[next]
		next++
	}
	return result
}

// RatiosOf returns the ratios in the order of the subsets; 0 for a subset that is no member.
func RatiosOf(subsets []v1alpha1.Subset, ratios map[string]v1alpha1.ColocationRatio) []int32 {
	list := make([]int32, len(subsets))
	for i := range subsets {
		list[i] = max(0, int32(ratios[subsets[i].Name]))
	}
	return list
}

// Deal deals replicas in whole groups, each with ratios[i] replicas of subset i. The remainder is one incomplete
// group, which is filled in list order. So one more replica takes none from any subset. Without a ratio above 0, it
// deals nothing.
func Deal(replicas int32, ratios []int32) []int32 {
	dealt, size := make([]int32, len(ratios)), int32(0)
	for _, ratio := range ratios {
		size += ratio
	}
	if size == 0 {
		return dealt
	}
	groups, rest := replicas/size, replicas%size
	for i, ratio := range ratios {
		more := min(rest, ratio)
		dealt[i], rest = groups*ratio+more, rest-more
	}
	return dealt
}

// Groups returns how many groups there are with so many replicas of each subset, counting incomplete ones. Replicas
// of a subset without a ratio do not count.
func Groups(replicas, ratios []int32) int32 {
	groups := int32(0)
	for i, ratio := range ratios {
		if ratio > 0 {
			groups = max(groups, int32((int64(replicas[i])+int64(ratio)-1)/int64(ratio)))
		}
	}
	return groups
}

// Sequential limits the replicas of members so that a group comes into being when the previous one is ready. wanted are
// the replicas that Grouped returns, has those that each subset has already, or was given. A group that has begun is
// completed, and nothing is taken from a subset that wanted does not take. ready reports whether all pods of a group
// are ready. It also returns how many groups there are then.
func Sequential(wanted, has, ratios []int32, ready func(group int32) bool) (limited []int32, groups int32) {
	total := Groups(wanted, ratios)
	groups = min(total, max(1, Groups(has, ratios)))
	for groups < total && ready(groups-1) {
		groups++
	}
	limited = make([]int32, len(wanted))
	for i, ratio := range ratios {
		limited[i] = wanted[i]
		if ratio > 0 {
			limited[i] = int32(min(int64(wanted[i]), int64(groups)*int64(ratio)))
		}
	}
	return limited, groups
}
