// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation splits the replicas of a UnitedDeployment over its
// subsets. It is a pure function of the spec, and with Adapt of the status and what was
// observed: the controller and a plan made on a laptop get the same answer.
//
// A wish is a number, a percentage of the total, or absent. Numbers take their
// value. The seats they leave are shared among the others by Webster's method
// (Sainte-Laguë; see share), ties in spec order. The weight of a percentage p is
// p * total / 100; absent subsets have equal weights, which make up what the
// numbers and percentages leave of the total.
//
// Wishes cannot be met when numbers and percentages together exceed the total,
// or when no subset is absent and they fall short of it. Then they all become
// weights, a number n with the weight n, and all seats are shared by Webster's
// method; an absent subset has weight 0, for nothing is left to it. Weights that
// are all zero count as equal.
//
// The sum is always the total. Unless numbers and percentages are mixed, the
// weights keep their proportions at every total, so scaling up by one never takes
// a replica from a subset (Webster's method is house-monotone). Mixed, they shift
// with the total, and rounding can follow: [35%, -, 6, -] of 10 is 4, 0, 6, 0,
// and of 11 it is 3, 1, 6, 1.
package allocation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/controllers/united/percent"
)

// Result is a split, and whether it is what the subsets wished for.
type Result struct {
	// Replicas per subset, in the order of the wishes and as many; they add up
	// to the total, unless there is no subset to put them in.
	Replicas []int32
	// Honored is false when the wishes could not be met, or one was malformed.
	Honored bool
	// Reason is one sentence, never empty. When the wishes are not honoured it
	// gives the numbers that do not fit.
	Reason string
}

// Allocate splits total over the subsets: wishes[i] is subsets[i].replicas, nil
// when absent. It never fails, so that an autoscaler can drive any total; a
// negative one counts as 0.
//
// Admission refuses a malformed wish. One that got past it counts as absent, not
// as 0: where the others add up this is the share that was meant, and a typing
// error does not scale a subset that serves to nothing. The result is then not
// honoured and the reason names its position.
func Allocate(total int32, wishes []*intstr.IntOrString) Result {
	r := read(max(total, 0), wishes)
	result := Result{Honored: r.met() && len(r.malformed) == 0, Reason: r.reason()}
	if r.met() {
		result.Replicas = r.grant()
	} else {
		result.Replicas = share(r.total, r.proportions())
	}
	return result
}

// reading is the wishes, understood.
type reading struct {
	total int64
	// amounts in spec order; nil where absent or malformed.
	amounts []*percent.Amount
	// numbers and percents are sums, absent counts the nil amounts.
	numbers, percents, absent int64
	// malformed says what is wrong, per wish that is.
	malformed []string
}

func read(total int32, wishes []*intstr.IntOrString) reading {
	r := reading{total: int64(total), amounts: make([]*percent.Amount, len(wishes))}
	for i, wish := range wishes {
		if wish == nil {
			r.absent++
			continue
		}
		amount, err := percent.Parse(*wish)
		switch {
		case err != nil:
			r.absent++
			r.malformed = append(r.malformed, fmt.Sprintf("spec.topology.subsets[%d].replicas: %v", i, err))
			continue
		case amount.IsPercent:
			r.percents += int64(amount.Value)
		default:
			r.numbers += int64(amount.Value)
		}
		r.amounts[i] = &amount
	}
	return r
}

// asked is what numbers and percentages come to, in hundredths of a replica:
// the unit in which a percentage of the total is an integer.
func (r reading) asked() int64 {
	return 100*r.numbers + r.percents*r.total
}

// left is the total less what is asked, in hundredths of a replica.
func (r reading) left() int64 {
	return 100*r.total - r.asked()
}

func (r reading) met() bool {
	return r.left() == 0 || r.left() > 0 && r.absent > 0
}

// grant gives numbers their value and shares the seats left among the others.
// Weights are hundredths of a replica times the number of absent subsets, the
// unit in which an equal part of what is left is an integer too.
func (r reading) grant() []int32 {
	weights := make([]uint64, len(r.amounts))
	for i, amount := range r.amounts {
		switch {
		case amount == nil:
			weights[i] = uint64(r.left())
		case amount.IsPercent:
			weights[i] = uint64(int64(amount.Value) * r.total * max(r.absent, 1))
		}
	}
	replicas := share(r.total-r.numbers, weights)
	for i, amount := range r.amounts {
		if amount != nil && !amount.IsPercent {
			replicas[i] = amount.Value
		}
	}
	return replicas
}

// proportions are the weights when the wishes cannot be met, in hundredths of a
// replica. An absent subset has none: it is there only when too much is asked.
func (r reading) proportions() []uint64 {
	weights := make([]uint64, len(r.amounts))
	for i, amount := range r.amounts {
		switch {
		case amount == nil:
		case amount.IsPercent:
			weights[i] = uint64(int64(amount.Value) * r.total)
		default:
			weights[i] = 100 * uint64(amount.Value)
		}
	}
	return weights
}

func (r reading) reason() string {
	var parts []string
	if len(r.malformed) > 0 {
		part := r.malformed[0]
		if more := len(r.malformed) - 1; more > 0 {
			part += fmt.Sprintf(" (and %d more like it)", more)
		}
		parts = append(parts, part+"; a malformed value counts as absent")
	}
	if !r.met() {
		parts = append(parts, r.mismatch())
	}
	if len(parts) == 0 {
		return "every subset gets the replicas it asks for"
	}
	return strings.Join(parts, "; ")
}

// mismatch says by how much the wishes miss the total, and what is done.
func (r reading) mismatch() string {
	if len(r.amounts) == 0 {
		return fmt.Sprintf("spec.topology.subsets is empty, so the %d replicas of spec.replicas cannot be placed", r.total)
	}
	var terms []string
	if r.numbers > 0 {
		terms = append(terms, fmt.Sprint(r.numbers))
	}
	if r.percents > 0 {
		terms = append(terms, fmt.Sprintf("%d%% of %d", r.percents, r.total))
	}
	sum := hundredths(r.asked()) + " replicas"
	if r.percents > 0 {
		sum += " (" + strings.Join(terms, " + ") + ")"
	}
	split := "in proportion"
	if r.asked() == 0 {
		split = "equally"
	}
	return fmt.Sprintf("the subsets ask for %s, but spec.replicas is %d; replicas are split %s", sum, r.total, split)
}

// hundredths prints 330 as 3.3.
func hundredths(n int64) string {
	s := fmt.Sprintf("%d.%02d", n/100, n%100)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
