// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/controllers/united/allocation"
)

func number(n int32) *intstr.IntOrString {
	value := intstr.FromInt32(n)
	return &value
}

func percentage(p int) *intstr.IntOrString {
	value := intstr.FromString(big.NewInt(int64(p)).String() + "%")
	return &value
}

var (
	absents     = rapid.Just((*intstr.IntOrString)(nil))
	percentages = rapid.Map(rapid.IntRange(0, 100), percentage)
	// fair are percentages small enough that several of them fit into the total.
	fair      = rapid.Map(rapid.IntRange(0, 15), percentage)
	small     = rapid.Map(rapid.Int32Range(0, 12), number)
	anyNumber = rapid.Map(rapid.Int32Min(0), number)
	malformed = rapid.Map(rapid.SampledFrom([]string{"", "5", "050%", "-1%", "101%"}),
		func(s string) *intstr.IntOrString { return &intstr.IntOrString{Type: intstr.String, StrVal: s} })

	shares     = rapid.SliceOfN(rapid.OneOf(absents, percentages, fair), 0, 12)
	counts     = rapid.SliceOfN(rapid.OneOf(absents, small, anyNumber), 0, 12)
	wellFormed = rapid.SliceOfN(rapid.OneOf(absents, percentages, fair, small), 0, 12)
	smallTotal = rapid.Int32Range(0, 150)
	anyTotal   = rapid.OneOf(smallTotal, rapid.Int32Range(0, math.MaxInt32-1))
)

func TestSumsUpToTotal(t *testing.T) {
	anything := rapid.SliceOfN(rapid.OneOf(absents, percentages, fair, small, anyNumber, malformed), 0, 100)
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.OneOf(anyTotal, rapid.Int32()).Draw(t, "total")
		list := anything.Draw(t, "wishes")
		got := allocation.Allocate(total, list)
		assertSane(t, total, list, got)
		again := allocation.Allocate(total, list)
		if !slices.Equal(got.Replicas, again.Replicas) || got.Reason != again.Reason || got.Honored != again.Honored {
			t.Fatalf("%+v, then %+v", got, again)
		}
	})
}

func assertSane(t interface{ Fatalf(string, ...any) }, total int32, list []*intstr.IntOrString, got allocation.Result) {
	if len(got.Replicas) != len(list) || got.Reason == "" {
		t.Fatalf("%d wishes: %+v", len(list), got)
	}
	var sum int64
	for _, n := range got.Replicas {
		if n < 0 {
			t.Fatalf("negative replicas: %v", got.Replicas)
		}
		sum += int64(n)
	}
	if want := int64(max(total, 0)); len(list) > 0 && sum != want {
		t.Fatalf("%v add up to %d, want %d", got.Replicas, sum, want)
	}
	for i, wish := range list {
		if got.Honored && wish != nil && wish.Type == intstr.Int && got.Replicas[i] != wish.IntVal {
			t.Fatalf("honoured, but subset %d asks for %d and has %d", i, wish.IntVal, got.Replicas[i])
		}
	}
}

// The design promises this for percentages and absent subsets; it is also true for numbers and absent
// subsets.
func TestScalingUpTakesNoReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		assertNoneShrinks(t, anyTotal.Draw(t, "total"), rapid.OneOf(shares, counts).Draw(t, "wishes"))
	})
}

func TestAbsentSubsetsAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := wellFormed.Draw(t, "wishes")
		got := allocation.Allocate(anyTotal.Draw(t, "total"), list).Replicas
		first, last := int32(-1), int32(-1)
		for i, wish := range list {
			if wish == nil {
				if first < 0 {
					first = got[i]
				}
				last = got[i]
			}
		}
		if last > first || last < first-1 {
			t.Fatalf("absent subsets of %v get %d to %d", got, first, last)
		}
	})
}

// The oracle gives out one seat at a time, in fractions, straight from the design.
func TestSeatBySeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total, list := smallTotal.Draw(t, "total"), wellFormed.Draw(t, "wishes")
		got := allocation.Allocate(total, list)
		weights, fixed, honored := oracle(total, list)
		want := slices.Clone(fixed)
		left := total
		for _, n := range fixed {
			left -= n
		}
		seats := make([]int32, len(list))
		for ; left > 0 && len(list) > 0; left-- {
			best := 0
			for i := range weights {
				if quotient(weights[i], seats[i]+1).Cmp(quotient(weights[best], seats[best]+1)) > 0 {
					best = i
				}
			}
			seats[best]++
			want[best]++
		}
		if !slices.Equal(got.Replicas, want) || got.Honored != honored {
			t.Fatalf("got %+v, want %v, honoured %t", got, want, honored)
		}
	})
}

// Webster's split is the only one in which no granted seat has a lower quotient than a seat that was
// not granted, or the same quotient and a later place. This checks large totals, for which giving out
// one seat at a time would take too long.
func TestNoSeatIsMisplaced(t *testing.T) {
	list := rapid.SliceOfN(rapid.OneOf(absents, percentages, fair, small, anyNumber), 1, 12)
	rapid.Check(t, func(t *rapid.T) {
		total, list := anyTotal.Draw(t, "total"), list.Draw(t, "wishes")
		got := allocation.Allocate(total, list).Replicas
		weights, fixed, _ := oracle(total, list)
		for i := range list {
			for j := range list {
				given, spare := got[i]-fixed[i], got[j]-fixed[j]+1
				if given == 0 || fixed[i] > 0 || fixed[j] > 0 {
					continue
				}
				c := quotient(weights[i], given).Cmp(quotient(weights[j], spare))
				if c < 0 || c == 0 && i > j {
					t.Fatalf("%v of %d: seat %d of subset %d belongs to subset %d", got, total, given, i, j)
				}
			}
		}
	})
}

// quotient returns the quotient of the k-th seat, with k from 1.
func quotient(weight *big.Rat, k int32) *big.Rat {
	return new(big.Rat).Quo(weight, big.NewRat(2*int64(k)-1, 1))
}

// oracle computes section 3 of the design in fractions: the weights, the replicas that are granted
// beforehand, and whether the wishes can be met.
func oracle(total int32, list []*intstr.IntOrString) ([]*big.Rat, []int32, bool) {
	weights, fixed := make([]*big.Rat, len(list)), make([]int32, len(list))
	rest := big.NewRat(int64(total), 1)
	var absent int64
	for i, wish := range list {
		switch {
		case wish == nil:
			absent++
			continue
		case wish.Type == intstr.Int:
			weights[i] = big.NewRat(int64(wish.IntVal), 1)
		default:
			p, _ := new(big.Int).SetString(wish.StrVal[:len(wish.StrVal)-1], 10)
			weights[i] = new(big.Rat).SetFrac(p.Mul(p, big.NewInt(int64(total))), big.NewInt(100))
		}
		rest.Sub(rest, weights[i])
	}
	met := rest.Sign() == 0 || rest.Sign() > 0 && absent > 0
	allZero := true
	for i, wish := range list {
		switch {
		case wish == nil && met:
			weights[i] = new(big.Rat).Quo(rest, big.NewRat(absent, 1))
		case wish == nil:
			weights[i] = new(big.Rat)
		case wish.Type == intstr.Int && met:
			weights[i], fixed[i] = new(big.Rat), wish.IntVal
		}
		allZero = allZero && weights[i].Sign() == 0
	}
	for i := range weights {
		if allZero && !met {
			weights[i] = big.NewRat(1, 1)
		}
	}
	return weights, fixed, met
}

func FuzzAllocate(f *testing.F) {
	for _, seed := range []struct {
		total int32
		list  string
	}{{6, "1, 50%, -"}, {5, "0,0"}, {math.MaxInt32, "-,33%,2147483647"}, {-1, "101%, -1, , 050%"}, {100, "10,10%"}} {
		f.Add(seed.total, seed.list)
	}
	f.Fuzz(func(t *testing.T, total int32, list string) {
		wishes := wishes(list)
		assertSane(t, total, wishes, allocation.Allocate(total, wishes))
	})
}
