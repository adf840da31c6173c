// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/controllers/united/allocation"
)

// reserving lets the world keep replicas without a node.
func (w *world) reserving() *world { w.times.Reserve = true; return w }

// newImage replaces all replicas, one subset after the other, those without a node all at once; and nobody hurries.
func (w *world) newImage() {
	for _, p := range w.subsets {
		gone := p.child.Pods
		p.child.Pods = nil
		for range 5 {
			w.pass()
			w.now = w.now.Add(1e9)
		}
		if len(gone) > 0 && p.child.Replicas != int32(len(gone)) {
			w.Fatalf("%s has %d, and had %d", p.name, p.child.Replicas, len(gone))
		}
		w.live()
		w.wait(1)
	}
}

// The third row of what a peer's own tests ask for.
func TestReserveInOrder(t *testing.T) {
	w := newWorld(t, 20, 1, one("a", "-", empty), one("b", "-", empty), one("c", "-", roomy)).reserving()
	w.scale(2)
	w.is(t, "2(2),0,0")
	w.wait(20)
	w.is(t, "2(2),2(2),0")
	w.wait(21)
	w.is(t, "2(2),2(2),2")
	w.wait(100)
	w.is(t, "2(2),2(2),2")
	w.scale(4)
	w.is(t, "2(2),2(2),4")
	w.scale(2)
	w.is(t, "2(2),2(2),2")
	w.scale(4)
	w.wait(50)
	w.newImage()
	w.wait(50)
	w.is(t, "2(2),2(2),4")
	w.named("a").room = roomy
	w.wait(10)
	w.is(t, "4,0,0")
	w.scale(5)
	w.is(t, "5,0,0")
}

// The fourth row: both have minimums.
func TestReserveMinimums(t *testing.T) {
	for _, later := range []int{0, 3} {
		w := newWorld(t, 10, 1, one("a", "1..", empty), one("b", "1..", empty), one("c", "-", roomy)).reserving()
		w.scale(2)
		w.is(t, "1(1),1(1),0")
		b := &w.named("b").child.Pods[0]
		b.UnschedulableSince = b.UnschedulableSince.Add(1e9 * 3)
		w.wait(10 + later)
		if later > 0 {
			w.is(t, "1(1),1(1),2")
		} else {
			w.is(t, "1(1),1(1),1")
		}
		w.wait(50)
		w.is(t, "1(1),1(1),2")
		w.scale(4)
		w.is(t, "1(1),1(1),4")
		w.named("a").room = roomy
		w.wait(10)
		w.is(t, "4,1(1),0")
		w.scale(5)
		w.is(t, "5,1(1),0")
	}
}

// Substitutes stay until what they replace is available.
func TestReserveKeepsSubstitutes(t *testing.T) {
	w := newWorld(t, 10, 1, one("a", "-", empty), one("b", "-", roomy)).reserving()
	w.scale(3)
	w.wait(11)
	w.is(t, "3(3),3")
	a := w.named("a").child
	for i := range a.Pods { // bound, and starting
		a.Pods[i].Placed, a.Pods[i].Unschedulable = true, ""
	}
	for range 5 {
		w.pass()
		w.now = w.now.Add(1e9)
	}
	if got := w.adapt(); !slices.Equal(got.Replicas, []int32{3, 3}) {
		t.Error("before they are ready:", got.Replicas)
	}
	a.Pods[0].Ready, a.Pods[0].NeverReady, a.Pods[0].ReadySince = true, false, w.now
	if got := w.adapt(); !slices.Equal(got.Replicas, []int32{3, 2}) {
		t.Error("one is ready:", got.Replicas)
	}
	w.pass()
	a.Pods[0].Ready = false // for a moment
	if got := w.adapt(); !slices.Equal(got.Replicas, []int32{3, 2}) {
		t.Error("nothing comes back for it:", got.Replicas)
	}
	for i := range a.Pods {
		a.Pods[i].Ready, a.Pods[i].NeverReady, a.Pods[i].ReadySince = true, false, w.now
	}
	w.wait(1)
	w.is(t, "3,0")
}

// A replica without a node that is below the one that stays is reserved: it is there in addition to the total.
func TestReserveBelowOneWithANode(t *testing.T) {
	w := newWorld(t, 10, 1, one("a", "-", empty), one("b", "-", roomy)).reserving()
	w.scale(2)
	w.wait(50)
	w.is(t, "2(2),2")
	top := &w.named("a").child.Pods[1]
	top.Placed, top.Unschedulable, top.Ready, top.NeverReady, top.ReadySince = true, "", true, false, w.now
	w.total = 1
	for range 3 {
		w.pass()
		got := w.adapt()
		if !slices.Equal(got.Replicas, []int32{2, 0}) || !slices.Equal(got.Reserved, []int32{1, 0}) {
			t.Errorf("%v, of which %v are reserved", got.Replicas, got.Reserved)
		}
	}
}

// Where nobody has room nothing is made in vain.
func TestReserveNoRoom(t *testing.T) {
	w := newWorld(t, 10, 1, one("a", "-", 1), one("b", "-", empty)).reserving()
	w.scale(3)
	w.wait(100)
	w.is(t, "3(2),2(2)")
}

// Whatever happens: what counts adds up to the total, it comes to rest, and when there is room it is filled in order.
func TestReserveIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var subsets []*part
		for i := range rapid.IntRange(1, 4).Draw(t, "subsets") {
			subsets = append(subsets, one(string(rune('a'+i)), rapid.SampledFrom([]string{"-", "..2", "1..3", "2..", "..50%", "25%.."}).Draw(t, "bounds"), rapid.IntRange(0, 6).Draw(t, "room")))
		}
		subsets[len(subsets)-1].bounds = allocation.Bounds{}
		w := newWorld(t, rapid.IntRange(1, 12).Draw(t, "reschedule"), rapid.IntRange(0, 12).Draw(t, "retry"), subsets...).reserving()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			w.change(t)
			w.wait(rapid.IntRange(0, 40).Draw(t, "seconds"))
		}
		w.wait(200)
		before := w.String()
		if w.wait(60); w.String() != before {
			t.Fatalf("not at rest: %s, then %s", before, w)
		}
		list := make([]allocation.Bounds, len(w.subsets))
		for i, p := range w.subsets {
			p.room, list[i] = roomy, p.bounds
		}
		w.wait(100)
		if got, want := w.adapt(), allocation.Fill(w.total, list).Replicas; !slices.Equal(got.Replicas, want) || slices.Max(got.Reserved) > 0 || !got.Wake.IsZero() {
			t.Fatalf("with room for all: %+v, want %v", got, want)
		}
	})
}
