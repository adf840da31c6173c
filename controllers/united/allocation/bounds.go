// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/percent"
)

// Split splits total over the subsets of a spec: with Fill if any of them has a minimum or maximum,
// otherwise with Allocate.
func Split(total int32, subsets []v1alpha1.Subset) Result {
	wishes, bounds, bounded := make([]*intstr.IntOrString, len(subsets)), make([]Bounds, len(subsets)), false
	for i := range subsets {
		s := &subsets[i]
		wishes[i], bounds[i] = s.Replicas, Bounds{Min: s.MinReplicas, Max: s.MaxReplicas}
		bounded = bounded || s.MinReplicas != nil || s.MaxReplicas != nil
	}
	if bounded {
		return Fill(total, bounds)
	}
	return Allocate(total, wishes)
}

// Bounds are the minimum and the maximum of a subset: a number, a percentage of the total, or nil. A
// minimum is rounded up, a maximum down.
type Bounds struct{ Min, Max *intstr.IntOrString }

// Fill splits total over subsets that have bounds, in list order. First each subset gets its minimum,
// until nothing is left; then each subset with a maximum is filled up to it; the first subset without
// a maximum gets the rest. Scaling down therefore takes replicas in reverse order. Fill never fails,
// and a negative total counts as 0.
//
// The result is not honored in these cases: the minimums exceed the total; a maximum is below the
// minimum of its subset, which rounding can cause ("50%" and "50%" of 5 are at least 3 and at most
// 2), and then the minimum counts; every subset has a maximum and they add up to less than the total,
// and then the last subset gets the rest; or a value is malformed, and then it counts as absent.
// Admission rejects the last two.
func Fill(total int32, bounds []Bounds) Result {
	f := filling{total: max(total, 0), bounds: make([]bound, len(bounds)), replicas: make([]int32, len(bounds))}
	for i, b := range bounds {
		f.bounds[i] = f.read(i, b)
	}
	f.fill()
	if f.trouble == "" {
		return Result{Replicas: f.replicas, Honored: true, Reason: "every subset is within its bounds"}
	}
	return Result{Replicas: f.replicas, Reason: f.trouble}
}

// filling is the state of one run of Fill.
type filling struct {
	total    int32
	bounds   []bound
	replicas []int32
	// trouble is the first reason why the subsets do not get what they ask for.
	trouble string
}

// bound is Bounds converted to replicas.
type bound struct{ min, max int32 }

// noMaximum is the maximum of a subset without one. No total exceeds it.
const noMaximum = math.MaxInt32

func (f *filling) read(i int, b Bounds) bound {
	low := f.amount(i, "minReplicas", b.Min, 0, percent.Ceil)
	high := f.amount(i, "maxReplicas", b.Max, noMaximum, percent.Floor)
	if high < low {
		f.report("maxReplicas of spec.topology.subsets[%d] is %d, below its minReplicas, %d; the minimum counts", i, high, low)
		high = low
	}
	return bound{low, high}
}

func (f *filling) amount(i int, name string, value *intstr.IntOrString, absent int32, ofPercent func(percent, replicas int32) int32) int32 {
	if value == nil {
		return absent
	}
	amount, err := percent.Parse(*value)
	switch {
	case err != nil:
		f.report("spec.topology.subsets[%d].%s: %v; a malformed value counts as absent", i, name, err)
		return absent
	case amount.IsPercent:
		return ofPercent(amount.Value, f.total)
	default:
		return amount.Value
	}
}

func (f *filling) fill() {
	left, minimums := f.total, int64(0)
	give := func(i int, upTo int32) {
		n := min(left, max(0, upTo-f.replicas[i]))
		f.replicas[i] += n
		left -= n
	}
	for i, b := range f.bounds {
		minimums += int64(b.min)
		give(i, b.min)
	}
	if minimums > int64(f.total) {
		f.report("the subsets ask for at least %d replicas, but spec.replicas is %d; the first ones get theirs", minimums, f.total)
	}
	for i, b := range f.bounds {
		if b.max != noMaximum {
			give(i, b.max)
		}
	}
	for i, b := range f.bounds {
		if b.max == noMaximum {
			give(i, noMaximum)
		}
	}
	if left > 0 && len(f.bounds) > 0 {
		f.report("the subsets take at most %d replicas, but spec.replicas is %d; the last one gets the rest", f.total-left, f.total)
		f.replicas[len(f.replicas)-1] += left
	}
}

func (f *filling) report(format string, args ...any) {
	if f.trouble == "" {
		f.trouble = fmt.Sprintf(format, args...)
	}
}
