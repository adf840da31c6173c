// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation splits the replicas of a UnitedDeployment over its subsets. It is a pure
// function of the spec, and with Adapt of the status and what was observed, so the controller and a
// plan made on a laptop give the same answer.
//
// The wish of a subset is a number, a percentage of the total, or absent. Numbers get their value.
// Webster's method (Sainte-Laguë; see share) splits the remaining seats among the others, with ties
// in spec order. The weight of a percentage p is p * total / 100. Absent subsets have equal weights,
// which add up to the part of the total that numbers and percentages leave.
//
// The wishes cannot be met if numbers and percentages together exceed the total, or if no subset is
// absent and they fall short of it. Then all of them become weights, a number n with the weight n,
// and Webster's method splits all seats; an absent subset has weight 0, because nothing is left for
// it. If all weights are zero, they count as equal.
//
// The sum is always the total. Unless numbers and percentages are mixed, the weights keep their
// proportions at every total, so scaling up by one never takes a replica from a subset (Webster's
// method is house-monotone). If they are mixed, the proportions change with the total, and rounding
// can follow: [35%, -, 6, -] of 10 is 4, 0, 6, 0, and of 11 it is 3, 1, 6, 1.
package allocation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/controllers/united/percent"
)

// Result is a split, and whether the subsets get what they ask for.
type Result struct {
	// Replicas has one entry for each wish, in the same order. The entries add up to the total,
	// unless there are no subsets.
	Replicas []int32
	// Honored is false if the wishes could not be met, or if one was malformed.
	Honored bool
	// Reason is one sentence, never empty. If the wishes are not honored, it has the numbers that do
	// not add up.
	Reason string
}

// Allocate splits total over the subsets: wishes[i] is subsets[i].replicas, or nil if that is absent.
// It never fails, so that an autoscaler can set any total; a negative one counts as 0.
//
// Admission rejects a malformed wish. One that exists all the same counts as absent and not as 0: if
// the others add up, this is the share that the user meant, and a typing error does not scale a
// subset that serves traffic to zero. The result is then not honored, and the reason has the position
// of the wish.
func Allocate(total int32, wishes []*intstr.IntOrString) Result {
	r := parse(max(total, 0), wishes)
	result := Result{Honored: r.met() && len(r.malformed) == 0, Reason: r.reason()}
	if r.met() {
		result.Replicas = r.grant()
	} else {
		result.Replicas = share(r.total, r.proportions())
	}
	return result
}

// parsedWishes are the wishes, parsed and added up.
type parsedWishes struct {
	total int64
	// amounts are in spec order; nil if absent or malformed.
	amounts []*percent.Amount
	// numbers and percents are sums; absent is the number of nil amounts.
	numbers, percents, absent int64
	// malformed has a message for each malformed wish.
	malformed []string
}

func parse(total int32, wishes []*intstr.IntOrString) parsedWishes {
	r := parsedWishes{total: int64(total), amounts: make([]*percent.Amount, len(wishes))}
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

// asked is the sum of numbers and percentages in hundredths of a replica, the unit in which a
// percentage of the total is an integer.
func (r parsedWishes) asked() int64 {
	return 100*r.numbers + r.percents*r.total
}

// left is what asked leaves of the total, in hundredths of a replica.
func (r parsedWishes) left() int64 {
	return 100*r.total - r.asked()
}

func (r parsedWishes) met() bool {
	return r.left() == 0 || r.left() > 0 && r.absent > 0
}

// grant gives numbers their value and splits the remaining seats among the others. The unit of the
// weights is a hundredth of a replica divided by the number of absent subsets, so that an equal part
// of what is left is an integer too.
func (r parsedWishes) grant() []int32 {
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

// proportions returns the weights for wishes that cannot be met, in hundredths of a replica. The
// weight of an absent subset is 0, because there is one only if the others ask for too much.
func (r parsedWishes) proportions() []uint64 {
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

func (r parsedWishes) reason() string {
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

// mismatch says by how much the wishes miss the total, and what happens then.
func (r parsedWishes) mismatch() string {
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

// hundredths formats 330 as 3.3.
func hundredths(n int64) string {
	s := fmt.Sprintf("%d.%02d", n/100, n%100)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
