// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Adaptation is what Adapt decides.
type Adaptation struct {
	Result
	// Caps are what is to be on record of each subset from now on, nil where it is not capped.
	Caps []*v1alpha1.SubsetCap
	// Reserved is how many of the replicas of each subset have no node, and stay beside the total.
	Reserved []int32
	// Wake is when time alone changes any of this; zero if never.
	Wake time.Time
}

// Adapt splits total over subsets that are filled in list order, as Fill does, but by what each has:
// it changes the last split as little as the total, the bounds and the caps ask for. So it moves nothing
// when a cap is over, and nothing when it is asked again.
//
// A capped subset gets no more than its cap says, or its minimum. What it does not get goes to others in
// the order of Fill. Where nobody has room it stays where it is.
//
// A cap that is new, or lower than before, is to be put on record, and takes effect when it is: a
// controller that starts again in between would else know neither it, nor, since they are gone, the
// replicas that had no node.
func Adapt(total int32, subsets []State, t Rules, now time.Time) Adaptation {
	bounds := make([]Bounds, len(subsets))
	for i := range subsets {
		bounds[i] = subsets[i].Bounds
	}
	a := adapting{subsets: subsets, filling: filling{total: max(total, 0), bounds: make([]bound, len(bounds)), replicas: make([]int32, len(bounds))}}
	out := Adaptation{Result: Fill(total, bounds), Caps: make([]*v1alpha1.SubsetCap, len(subsets))}
	for i := range subsets {
		var wake time.Time
		out.Caps[i], wake = subsets[i].nextCap(t, now)
		if out.tightened(i, subsets[i].Cap) && !t.Reserve { // else nothing goes for it
			wake = now
		}
		if !wake.IsZero() && (out.Wake.IsZero() || wake.Before(out.Wake)) {
			out.Wake = wake
		}
		a.bounds[i] = a.read(i, bounds[i])
	}
	out.Reserved = make([]int32, len(subsets))
	if t.Reserve {
		out.Replicas, out.Reserved = a.reserve(out.Caps, now)
		return out
	}
	a.start(out.Caps)
	out.Reserved = a.substitute(out.Caps, t, now)
	switch left := a.left(); {
	case left > 0:
		a.grow(left)
	case left < 0:
		a.shrink(-left)
	}
	out.Replicas = a.replicas
	return out
}

// tightened reports whether a subset gets fewer replicas once its cap is on record.
func (a *Adaptation) tightened(i int, was *v1alpha1.SubsetCap) bool {
	is := a.Caps[i]
	return is != nil && (was == nil || is.Replicas < was.Replicas)
}

// adapting is one run of Adapt. Its bounds are those of the spec, its replicas what each subset gets.
type adapting struct {
	filling
	subsets []State
	// granted are the minimums, as far as the total goes; most is the maximum, or the cap.
	granted, most []int32
}

// start gives each subset what it had, within its bounds and its cap.
func (a *adapting) start(caps []*v1alpha1.SubsetCap) {
	left := a.total
	for i, b := range a.bounds {
		granted := min(left, b.min)
		left -= granted
		most := b.max
		// A cap takes effect when it is on record, and at once where it is over, or higher than it was.
		if on := a.subsets[i].Cap; on != nil && caps[i] != nil {
			most = min(most, max(on.Replicas, caps[i].Replicas), a.subsets[i].Last)
		}
		most = max(most, granted)
		a.granted, a.most = append(a.granted, granted), append(a.most, most)
		a.replicas[i] = min(max(a.subsets[i].Last, granted), most)
	}
}

// substitute adds to the total what stands in for replicas without a node that cannot be removed, because replicas above them
// have one, as far as other subsets have room. It returns how many these are of each subset.
func (a *adapting) substitute(caps []*v1alpha1.SubsetCap, t Rules, now time.Time) []int32 {
	reserved, room := make([]int32, len(caps)), -int64(a.total)
	for _, most := range a.most {
		room += int64(most)
	}
	for i := range caps {
		if caps[i] == nil || a.subsets[i].Cap == nil { // it is not on record yet
			continue
		}
		reserved[i] = int32(max(0, min(room, int64(a.subsets[i].below(t, now)))))
		room -= int64(reserved[i])
		a.total += reserved[i]
	}
	return reserved
}

// left is how many replicas of the total nobody has; negative if they have more than that.
func (a *adapting) left() int64 {
	left := int64(a.total)
	for _, n := range a.replicas {
		left -= int64(n)
	}
	return left
}

// grow gives out replicas in the order of Fill. What nobody has room for stays where it was; what was not
// anywhere goes to the first subset without a maximum.
func (a *adapting) grow(left int64) {
	give := func(i int, upTo int32) {
		n := min(left, max(0, int64(upTo)-int64(a.replicas[i])))
		a.replicas[i] += int32(n)
		left -= n
	}
	order := a.order()
	for _, i := range order {
		give(i, a.most[i])
	}
	for i, b := range a.bounds {
		give(i, min(a.subsets[i].Last, b.max))
	}
	for _, i := range order {
		give(i, a.bounds[i].max)
	}
	if len(order) > 0 {
		give(len(a.bounds)-1, noMaximum) // admission refuses a maximum everywhere
	}
}

// order is that in which the subsets are filled: those with a maximum, then the others.
func (a *adapting) order() []int {
	var order []int
	for _, bounded := range []bool{true, false} {
		for i, b := range a.bounds {
			if (b.max != noMaximum) == bounded {
				order = append(order, i)
			}
		}
	}
	return order
}

// shrink takes replicas away, in the reverse order of Fill: first those without a node, of which the
// scheduler's word comes before none, then the others. The minimums stay.
func (a *adapting) shrink(surplus int64) {
	order := a.order()
	for _, count := range []func(i int) int32{
		func(i int) int32 { return a.subsets[i].top(a.replicas[i], unschedulable, true) },
		func(i int) int32 { return a.replicas[i] - a.subsets[i].placed(a.replicas[i]) },
		func(i int) int32 { return a.replicas[i] },
	} {
		for at := len(order) - 1; at >= 0; at-- {
			i := order[at]
			n := min(surplus, int64(count(i)), int64(a.replicas[i]-a.granted[i]))
			a.replicas[i] -= int32(n)
			surplus -= n
		}
	}
}
