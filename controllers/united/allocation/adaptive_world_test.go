// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
)

// failer is what testing.T and rapid.T have in common.
type failer interface{ Fatalf(string, ...any) }

// world is a parent whose subsets are filled by Adapt, with a scheduler and the controllers of the
// children. A second passes with each turn.
type world struct {
	failer
	now     time.Time
	times   allocation.Rules
	total   int32
	subsets []*part
	// moved are the replicas with a node that a child lost though the spec did not change.
	moved []string
}

// part is a subset, its child, and its nodes.
type part struct {
	name   string
	bounds allocation.Bounds
	last   int32
	cap    *v1alpha1.SubsetCap
	child  *adapters.Observed
	// room is how many replicas its nodes hold.
	room int
}

func newWorld(f failer, reschedule, retry int, subsets ...*part) *world {
	return &world{
		failer: f, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), subsets: subsets,
		times: allocation.Rules{Reschedule: time.Duration(reschedule) * time.Second, Retry: time.Duration(retry) * time.Second},
	}
}

// one is a subset with bounds such as "1..2", with or without nodes.
func one(name, between string, room int) *part {
	return &part{name: name, bounds: bounds(between)[0], room: room, child: &adapters.Observed{Traits: adapters.Traits{Partition: adapters.ByOrdinal}}}
}

const (
	empty = 0
	roomy = 1000
)

func (w *world) states() []allocation.State {
	states := make([]allocation.State, len(w.subsets))
	for i, p := range w.subsets {
		states[i] = allocation.State{Bounds: p.bounds, Last: p.last, Cap: p.cap, Observed: p.child}
	}
	return states
}

func (w *world) adapt() allocation.Adaptation {
	return allocation.Adapt(w.total, w.states(), w.times, w.now)
}

// pass is what the controller does: it decides, writes the children, and then the status. It is woken as it asks to be.
func (w *world) pass() {
	for range 10 {
		got := w.adapt()
		w.check(got)
		for i, p := range w.subsets {
			p.child.Replicas, p.last, p.cap = got.Replicas[i], got.Replicas[i], got.Caps[i]
		}
		if got.Wake.IsZero() || got.Wake.After(w.now) {
			return
		}
	}
	w.Fatalf("it does not come to rest: %s", w)
}

// check looks at what Adapt says: the sum is right, no subset is below its minimum, and what has a node stays, unless there
// are to be fewer replicas than before.
func (w *world) check(got allocation.Adaptation) {
	sum, before := int32(0), int32(0)
	for i, p := range w.subsets {
		sum += got.Replicas[i] - got.Reserved[i]
		before += p.last
	}
	if w.times.Reserve {
		if sum < w.total {
			w.Fatalf("%v, of which %v are reserved, is less than %d", got.Replicas, got.Reserved, w.total)
		}
		return
	}
	if sum != w.total {
		w.Fatalf("%v is not %d", got.Replicas, w.total)
	}
	for i, p := range w.subsets {
		for _, r := range p.child.Pods {
			if r.Placed && !r.Terminating && r.Position >= got.Replicas[i] && r.Position < p.last && before <= w.total {
				w.moved = append(w.moved, fmt.Sprintf("%s-%d", p.name, r.Position))
			}
		}
	}
}

// live lets the children's controllers and the scheduler do what is to be done.
func (w *world) live() {
	for _, p := range w.subsets {
		p.child.Pods = slices.DeleteFunc(p.child.Pods, func(r adapters.Replica) bool { return r.Position >= p.child.Replicas })
		for position := range p.child.Replicas {
			exists := slices.ContainsFunc(p.child.Pods, func(r adapters.Replica) bool { return r.Position == position })
			if !exists {
				p.child.Pods = append(p.child.Pods, adapters.Replica{Name: fmt.Sprintf("%s-%d", p.name, position), Position: position, Created: w.now, NeverReady: true})
			}
			if !exists && p.child.Ordered {
				break
			}
			if i := slices.IndexFunc(p.child.Pods, func(r adapters.Replica) bool { return r.Position == position }); p.child.Ordered && !p.child.Pods[i].Placed {
				break
			}
		}
		slices.SortFunc(p.child.Pods, func(a, b adapters.Replica) int { return int(a.Position - b.Position) })
		w.schedule(p)
	}
}

func (w *world) schedule(p *part) {
	used := 0
	for _, r := range p.child.Pods {
		if r.Placed {
			used++
		}
	}
	for i := range p.child.Pods {
		switch r := &p.child.Pods[i]; {
		case r.Placed:
		case used < p.room:
			used++
			r.Placed, r.Unschedulable, r.UnschedulableSince = true, "", time.Time{}
			r.Ready, r.NeverReady, r.ReadySince = true, false, w.now
		case r.Unschedulable == "":
			r.Unschedulable, r.UnschedulableSince = "0/6 nodes are available", w.now
		}
	}
}

// wait lets seconds pass.
func (w *world) wait(seconds int) {
	for range seconds {
		w.live()
		w.pass()
		w.live()
		w.now = w.now.Add(time.Second)
	}
	w.pass()
	w.live()
}

// scale changes the total, and gives everybody a moment.
func (w *world) scale(to int32) {
	w.total = to
	w.pass()
	w.live()
	w.wait(1)
}

// String is how many replicas each subset has, and how many of them have no node.
func (w *world) String() string {
	var said []string
	for _, p := range w.subsets {
		text, without := fmt.Sprint(len(p.child.Pods)), 0
		for _, r := range p.child.Pods {
			if !r.Placed {
				without++
			}
		}
		if without > 0 {
			text += fmt.Sprintf("(%d)", without)
		}
		said = append(said, text)
	}
	return strings.Join(said, ",")
}

func (w *world) named(name string) *part {
	i := slices.IndexFunc(w.subsets, func(p *part) bool { return p.name == name })
	if i < 0 {
		w.Fatalf("no subset %s", name)
	}
	return w.subsets[i]
}

// is compares what there is with what should be.
func (w *world) is(t *testing.T, want string) {
	t.Helper()
	if got := w.String(); got != want {
		t.Errorf("%s: %s, want %s", w.now.Format(time.TimeOnly), got, want)
	}
	if len(w.moved) > 0 {
		t.Errorf("replicas with a node were taken away: %v", w.moved)
	}
}
