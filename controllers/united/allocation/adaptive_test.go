// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/allocation"
)

// The first row of what a peer's own tests ask for: a and b take two each, and b has no nodes.
func TestAdaptiveOrder(t *testing.T) {
	w := newWorld(t, 10, 10, one("a", "..2", roomy), one("b", "..2", empty), one("c", "-", roomy))
	w.scale(3)
	w.is(t, "2,1(1),0")
	w.wait(10)
	w.is(t, "2,0,1")
	w.scale(5)
	w.is(t, "2,0,3")
	w.scale(4)
	w.is(t, "2,0,2")
	w.wait(30)
	if c := w.named("b").cap; c != nil {
		t.Errorf("b is still capped: %+v", c)
	}
	w.is(t, "2,0,2")

	w.scale(5)
	w.is(t, "2,1(1),2")
	w.wait(11)
	w.is(t, "2,0,3")
	w.scale(4)
	w.wait(30)
	w.scale(5)
	w.is(t, "2,1(1),2")
	w.scale(4) // before b is capped
	w.is(t, "2,0,2")
	w.scale(3)
	w.is(t, "2,0,1")

	w.subsets = append(w.subsets, one("d", "2..", roomy))
	w.scale(6)
	w.wait(30)
	w.is(t, "2,0,2,2")
	w.named("b").room = roomy
	w.wait(30)
	w.is(t, "2,0,2,2")
	w.subsets = w.subsets[:3]
	w.wait(2)
	w.is(t, "2,2,2")
	w.scale(3)
	w.is(t, "2,1,0")
	w.scale(5)
	w.is(t, "2,2,1")
}

// The second row: b comes first, and has a minimum.
func TestAdaptiveMinimum(t *testing.T) {
	w := newWorld(t, 10, 10, one("b", "1..2", empty), one("c", "-", roomy))
	w.scale(3)
	w.is(t, "2(2),1")
	w.wait(11)
	w.is(t, "1(1),2")
	w.scale(4)
	w.is(t, "1(1),3")
	w.scale(3)
	w.wait(100)
	w.is(t, "1(1),2")
	if c := w.named("b").cap; c == nil || c.ClearedTime != nil {
		t.Errorf("b has a replica without a node: %+v", c)
	}
	w.named("b").room = roomy
	w.wait(30)
	w.is(t, "1,2")
	w.scale(5)
	w.is(t, "2,3")
	w.scale(4)
	w.is(t, "2,2")
	w.scale(3)
	w.is(t, "2,1")
	w.scale(1)
	w.is(t, "1,0")
}

// A zone that is nearly full keeps what it has room for.
func TestAdaptiveNearlyFull(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		w := newWorld(t, 30, 300, one("spot", "-", 3), one("ondemand", "-", roomy))
		w.named("spot").child.Ordered = ordered
		w.scale(5)
		w.wait(28)
		if ordered {
			w.is(t, "4(1),0")
		} else {
			w.is(t, "5(2),0")
		}
		w.wait(5)
		w.is(t, "3,2")
		w.scale(7)
		w.is(t, "3,4")
		w.wait(400)
		w.scale(8)
		w.is(t, "4(1),4")
		w.scale(2)
		w.is(t, "2,0")
	}
}

// What is missing for a moment, starts again or is not ready is not without a node, and a node that is lost takes
// nothing from a subset as long as its replicas are there.
func TestAdaptiveCountsWhatIsPlaced(t *testing.T) {
	w := newWorld(t, 10, 300, one("a", "-", 3), one("b", "-", roomy))
	w.scale(5)
	w.wait(11)
	w.is(t, "3,2")
	if w.named("a").cap == nil {
		t.Fatal("a is not capped")
	}
	a := w.named("a").child
	top := a.Pods[2]
	a.Pods = a.Pods[:2] // being replaced
	w.pass()
	if a.Replicas != 3 {
		t.Error("one is missing for a moment:", a.Replicas)
	}
	top.Placed, top.Unschedulable, top.UnschedulableSince = false, "0/6 nodes are available", w.now
	a.Pods = append(a.Pods, top)
	w.pass()
	if a.Replicas != 3 {
		t.Error("without a node for a second:", a.Replicas)
	}
	w.named("a").room = 2
	w.wait(11)
	w.is(t, "2,3") // the positive control
}

// A lower one that has no node stays where it is, for what has a node above it would go; its substitute comes up elsewhere.
// In order, it is only waited for.
func TestAdaptiveGap(t *testing.T) {
	for ordered, want := range map[bool][2]string{false: {"3(1),1", "3(1),2"}, true: {"3(1),0", "3(1),1"}} {
		t.Run(fmt.Sprint("ordered ", ordered), func(t *testing.T) { testAdaptiveGap(t, ordered, want[0], want[1]) })
	}
}

func testAdaptiveGap(t *testing.T, ordered bool, atThree, atFour string) {
	w := newWorld(t, 10, 10, one("a", "-", 3), one("b", "-", roomy))
	w.scale(3)
	w.wait(1)
	w.named("a").child.Ordered = ordered
	low := &w.named("a").child.Pods[1]
	w.named("a").room = 2
	low.Placed, low.Unschedulable, low.UnschedulableSince = false, "0/6 nodes are available", w.now
	w.wait(100)
	w.is(t, atThree)
	if c := w.named("a").cap; c == nil || c.Replicas != 3 {
		t.Errorf("%+v", c)
	}
	w.scale(4)
	w.wait(1)
	w.is(t, atFour)
	if ordered {
		return
	}
	w.named("a").room = 3
	w.wait(1)
	w.is(t, "3,1") // it has a node: its substitute goes
}

// Of a kind that does not number its replicas those without a node go, wherever they are.
func TestAdaptiveUnnumbered(t *testing.T) {
	w := newWorld(t, 10, 10, one("a", "-", roomy), one("b", "-", roomy))
	a := w.named("a").child
	a.Traits.Partition, a.Replicas, w.named("a").last, w.total = adapters.ByCount, 4, 4, 4
	since := w.now.Add(-time.Minute)
	a.Pods = []adapters.Replica{{Position: 0, Unschedulable: "no", UnschedulableSince: since}, {Position: 1, Placed: true}, {Position: 2, Placed: true}, {Position: 3, Unschedulable: "no", UnschedulableSince: w.now}}
	if got := w.adapt(); !slices.Equal(got.Replicas, []int32{4, 0}) || got.Caps[0].Replicas != 3 || !got.Wake.Equal(w.now) {
		t.Errorf("first the cap is put on record: %+v", got)
	}
	w.named("a").cap = w.adapt().Caps[0]
	if got := w.adapt(); !slices.Equal(got.Replicas, []int32{3, 1}) || !got.Wake.Equal(w.now.Add(10*time.Second)) {
		t.Errorf("%+v", got)
	}
	a.Pods[1].Terminating = true // another takes its place
	a.Pods = append(a.Pods, adapters.Replica{Position: 4})
	if got := w.adapt(); got.Caps[0].Replicas != 3 {
		t.Errorf("%+v", got.Caps[0])
	}
}

// Where nobody has room, replicas wait where they are; and when a cap is over they are tried there.
func TestAdaptiveNoRoom(t *testing.T) {
	w := newWorld(t, 10, 20, one("a", "-", 2), one("b", "-", 1))
	w.scale(5)
	w.wait(11)
	w.is(t, "2,3(2)")
	w.wait(11)
	w.is(t, "2,3(2)")
	w.wait(10)
	w.is(t, "4(2),1")
	w.scale(2)
	w.is(t, "2,0")
}

// Whoever comes from another strategy, or has lost the status, keeps what there is.
func TestAdaptiveKeepsWhatThereIs(t *testing.T) {
	w := newWorld(t, 10, 10, one("a", "-", roomy), one("b", "-", roomy), one("c", "-", roomy))
	w.total = 6
	for _, p := range w.subsets {
		p.last, p.child.Replicas = 2, 2
	}
	w.wait(3)
	w.is(t, "2,2,2")
	w.scale(7)
	w.is(t, "3,2,2")
	w.scale(4)
	w.is(t, "3,1,0")

	unknown := w.states()
	unknown[1].Observed, unknown[1].Unknown = nil, true // it cannot be read
	if got := allocation.Adapt(4, unknown, w.times, w.now); !slices.Equal(got.Replicas, []int32{3, 1, 0}) {
		t.Errorf("%+v", got)
	}
}

// Bounds that change are kept, also by what has a node: the spec asks for that.
func TestAdaptiveBoundsChange(t *testing.T) {
	w := newWorld(t, 10, 10, one("a", "-", roomy), one("b", "-", roomy))
	w.scale(4)
	w.is(t, "4,0")
	w.named("b").bounds = bounds("1..")[0]
	w.wait(1)
	w.moved = nil
	w.is(t, "3,1")
	w.named("a").bounds = bounds("..50%")[0]
	w.wait(1)
	w.moved = nil
	w.is(t, "2,2")
	if got := w.adapt(); !got.Honored || got.Reason != within {
		t.Errorf("%+v", got)
	}
	w.scale(0)
	w.is(t, "0,0")
}

// Whatever happens: the sum is right, nothing with a node is moved, minimums are kept, and it comes to rest, where
// nothing changes any more.
func TestAdaptiveIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var subsets []*part
		for i := range rapid.IntRange(1, 4).Draw(t, "subsets") {
			p := one(string(rune('a'+i)), rapid.SampledFrom([]string{"-", "..2", "1..3", "2.."}).Draw(t, "bounds"), rapid.IntRange(0, 6).Draw(t, "room"))
			p.child.Ordered = rapid.Bool().Draw(t, "ordered")
			subsets = append(subsets, p)
		}
		subsets[len(subsets)-1].bounds = allocation.Bounds{}
		w := newWorld(t, rapid.IntRange(1, 12).Draw(t, "reschedule"), rapid.IntRange(0, 12).Draw(t, "retry"), subsets...)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			w.change(t)
			w.wait(rapid.IntRange(0, 40).Draw(t, "seconds"))
			w.minimums()
		}
		if len(w.moved) > 0 {
			t.Fatalf("moved: %v", w.moved)
		}
		for _, p := range w.subsets {
			p.room = roomy
		}
		w.wait(60)
		before := w.adapt()
		w.now = w.now.Add(time.Hour)
		if after := w.adapt(); !slices.Equal(before.Replicas, after.Replicas) || !after.Wake.IsZero() || slices.ContainsFunc(w.subsets, func(p *part) bool { return p.cap != nil }) {
			t.Fatalf("not at rest: %+v, then %+v", before, after)
		}
		w.triesAllAgain()
	})
}

// triesAllAgain looks whether, at rest, a scale-up fills the subsets in order, whatever happened in them before.
func (w *world) triesAllAgain() {
	want, list := make([]int32, len(w.subsets)), make([]numbers, len(w.subsets))
	for i, p := range w.subsets {
		want[i] = p.last
		if p.bounds.Min != nil {
			list[i].low = &p.bounds.Min.IntVal
		}
		if p.bounds.Max != nil {
			list[i].high = &p.bounds.Max.IntVal
		}
	}
	for range 3 {
		w.total++
		want[next(want, list)]++
	}
	if got := w.adapt(); !slices.Equal(got.Replicas, want) {
		w.Fatalf("%v, want %v", got.Replicas, want)
	}
}

// change is something that happens.
func (w *world) change(t *rapid.T) {
	p := rapid.SampledFrom(w.subsets).Draw(t, "subset")
	switch rapid.SampledFrom([]string{"scale", "scale", "room", "evict", "killed"}).Draw(t, "change") {
	case "scale":
		w.total = rapid.Int32Range(0, 12).Draw(t, "total")
	case "room":
		p.room = rapid.IntRange(0, 8).Draw(t, "room")
	case "killed": // after it has written the children, and before the status
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "later")) * time.Second)
		for i, replicas := range w.adapt().Replicas {
			w.subsets[i].child.Replicas = replicas
		}
		w.live()
	case "evict": // one loses its node, and is made again
		if n := len(p.child.Pods); n > 0 {
			i := rapid.IntRange(0, n-1).Draw(t, "pod")
			p.child.Pods = slices.Delete(p.child.Pods, i, i+1)
		}
	}
}

// minimums looks whether each subset has its minimum, as far as the total goes.
func (w *world) minimums() {
	left := w.total
	for _, p := range w.subsets {
		if p.bounds.Min == nil {
			continue
		}
		low := min(p.bounds.Min.IntVal, left)
		left -= low
		if p.last < low {
			w.Fatalf("%s has %d, and its minimum is %d: %s", p.name, p.last, low, w)
		}
	}
}
