// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import "math/bits"

// share splits seats by Webster's method (Sainte-Laguë; Balinski and Young, Fair Representation,
// 1982): each seat goes to the highest quotient weight / (2*seats held + 1), with ties to the first.
// If all weights are zero, they count as equal. The result is as long as weights and adds up to
// seats, unless weights is empty. The sum of weights must be below 2^63, seats below 2^31.
//
// Most seats are granted without counting them out. The method grants the highest quotients of all.
// With n weights that add up to W, each subset first gets at once the k seats whose quotients are at
// least W / (2*seats - n), where k is the greatest number with (2k - 1) * W <= weight * (2*seats -
// n). That includes all ties at the bound, so these seats are a prefix of the sequence. Each k is at
// most weight/W * (seats - n/2) + 1/2, so together they are at most seats; and each is above that
// less 1, so fewer than n seats remain to be counted out.
func share(seats int64, weights []uint64) []int32 {
	held := make([]int32, len(weights))
	if len(weights) == 0 {
		return held
	}
	weights, sum := positive(weights)
	if bound := 2*seats - int64(len(weights)); bound > 0 {
		for i, weight := range weights {
			held[i] = head(weight, uint64(bound), sum)
			seats -= int64(held[i])
		}
	}
	for ; seats > 0; seats-- {
		held[next(weights, held)]++
	}
	return held
}

// positive returns the weights and their sum; if all weights are zero, it returns ones.
func positive(weights []uint64) ([]uint64, uint64) {
	var sum uint64
	for _, weight := range weights {
		sum += weight
	}
	if sum > 0 {
		return weights, sum
	}
	ones := make([]uint64, len(weights))
	for i := range ones {
		ones[i] = 1
	}
	return ones, uint64(len(ones))
}

// head is floor((weight*bound + sum) / (2*sum)), the k of share. The product needs more than 64 bits,
// the quotient does not, because weight <= sum and bound < 2^32.
func head(weight, bound, sum uint64) int32 {
	hi, lo := bits.Mul64(weight, bound)
	lo, carry := bits.Add64(lo, sum, 0)
	k, _ := bits.Div64(hi+carry, lo, 2*sum)
	return int32(k)
}

// next returns the subset that gets the next seat.
func next(weights []uint64, held []int32) int {
	best := 0
	for i := range weights {
		if higher(weights[i], held[i], weights[best], held[best]) {
			best = i
		}
	}
	return best
}

// higher reports whether a has a higher quotient than b, that is, whether a/(2*heldA+1) >
// b/(2*heldB+1), compared without division.
func higher(a uint64, heldA int32, b uint64, heldB int32) bool {
	ahi, alo := bits.Mul64(a, 2*uint64(heldB)+1)
	bhi, blo := bits.Mul64(b, 2*uint64(heldA)+1)
	return ahi > bhi || ahi == bhi && alo > blo
}
