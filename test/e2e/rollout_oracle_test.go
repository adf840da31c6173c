// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ledger checks maxUnavailable of a UnitedDeployment against its pods, from a moment on. It uses the
// watch of all pods, so it misses no moment.
//
// A replica is available if it has been ready for minReady and is not being deleted. Down is the wanted
// number of replicas minus the available ones. Surplus replicas count as available, so the ledger
// covers moves between subsets too.
type Ledger struct {
	history  History
	parent   string
	from     int
	replicas int
	minReady time.Duration
	// subset is the subset that it covers; "" for all.
	subset string
}

// Ledger starts a ledger. replicas is the wanted number of replicas.
func (w *Workload) Ledger(replicas int) *Ledger {
	w.t.Helper()
	return &Ledger{history: w.History, parent: w.Name, from: len(w.History.Events(w.Name)), replicas: replicas}
}

// Of limits the ledger to one subset, and sets its wanted number of replicas.
func (l *Ledger) Of(subset string) *Ledger {
	l.subset = subset
	return l
}

// MinReady sets how long a replica must be ready to be available.
func (l *Ledger) MinReady(d time.Duration) *Ledger {
	l.minReady = d
	return l
}

// moment is the state after one event.
type moment struct {
	event podEvent
	down  int
	// taken: an available replica was deleted.
	taken bool
}

func (m moment) String() string {
	how := "changed"
	switch {
	case m.event.Gone:
		how = "gone"
	case m.event.Terminating:
		how = "terminating"
	case m.event.Ready:
		how = "ready"
	}
	return fmt.Sprintf("%s on %s %s, %d down", m.event.Name, m.event.Image, how, m.down)
}

func (l *Ledger) moments() []moment {
	l.history.e.t.Helper()
	events, from := l.history.Events(l.parent), l.from
	if l.subset != "" {
		other := func(event podEvent) bool { return event.Subset != l.subset }
		from = len(slices.DeleteFunc(slices.Clone(events[:from]), other))
		events = slices.DeleteFunc(slices.Clone(events), other)
	}
	return replay(events, l.replicas, l.minReady)[from:]
}

// replay returns a moment for every event.
func replay(events []podEvent, replicas int, minReady time.Duration) []moment {
	living := map[string]pod{} // by name
	available := func(p pod, now time.Time) bool {
		return p.Ready && !p.Terminating && !p.ReadySince.Add(minReady).After(now)
	}
	moments := make([]moment, 0, len(events))
	for _, event := range events {
		before, existed := living[event.Name]
		was := existed && before.UID == event.UID && available(before, event.At)
		switch {
		case !event.Gone:
			living[event.Name] = event.pod
		case existed && before.UID == event.UID:
			delete(living, event.Name)
		}
		m := moment{event: event, down: replicas, taken: was && (event.Gone || event.Terminating)}
		for _, p := range living {
			if available(p, event.At) {
				m.down--
			}
		}
		moments = append(moments, m)
	}
	return moments
}

// downs returns how many replicas were down, at the beginning none, and then after each event.
func (l *Ledger) downs() []int {
	l.history.e.t.Helper()
	downs := []int{0}
	for _, m := range l.moments() {
		downs = append(downs, m.down)
	}
	return downs
}

// Most returns the largest number of replicas that were down at once.
func (l *Ledger) Most() int {
	l.history.e.t.Helper()
	return slices.Max(l.downs())
}

// Least is the opposite of Most: it is negative if more replicas were available than were asked for.
func (l *Ledger) Least() int {
	l.history.e.t.Helper()
	return slices.Min(l.downs())
}

// Taken returns the largest number of replicas that were down right after an available one was deleted.
// Replicas that go down by themselves increase Most, but not Taken.
func (l *Ledger) Taken() int {
	l.history.e.t.Helper()
	most := 0
	for _, m := range l.moments() {
		if m.taken {
			most = max(most, m.down)
		}
	}
	return most
}

// Within fails the test if more than maxUnavailable were ever down at once. It also fails if there were
// never as many, because the oracle, or the test, has then seen nothing.
func (l *Ledger) Within(maxUnavailable int) {
	l.history.e.t.Helper()
	if most := l.Most(); most != maxUnavailable {
		l.history.e.t.Fatalf("%d replicas were down at once, want %d:\n%s", most, maxUnavailable, l)
	}
}

// TakenWithin is Within for a test that itself takes replicas down: only deletions of available
// replicas count.
func (l *Ledger) TakenWithin(maxUnavailable int) {
	l.history.e.t.Helper()
	if most := l.Taken(); most != maxUnavailable {
		l.history.e.t.Fatalf("an available replica was deleted so that %d were down, want %d:\n%s", most, maxUnavailable, l)
	}
}

// GrownWithin is TakenWithin for a workload that gets new replicas, those from an ordinal on. Until all
// replicas have been available at once, a new one may go down again: it was released before it existed,
// came up on the old revision nevertheless, and counted as down all the time.
func (l *Ledger) GrownWithin(maxUnavailable, first int) {
	l.history.e.t.Helper()
	up, seen := false, false
	for _, m := range l.moments() {
		up = up || m.down == 0
		seen = seen || m.taken
		if m.taken && m.down > maxUnavailable && (up || m.event.Ordinal < first) {
			l.history.e.t.Fatalf("an available replica was deleted: %s\n%s", m, l)
		}
	}
	if !seen {
		l.history.e.t.Fatalf("nothing was deleted:\n%s", l)
	}
}

// TookNothing fails the test if an available replica was deleted.
func (l *Ledger) TookNothing() {
	l.history.e.t.Helper()
	for _, m := range l.moments() {
		if m.taken {
			l.history.e.t.Fatalf("an available replica was deleted: %s\n%s", m, l)
		}
	}
}

func (l *Ledger) String() string {
	l.history.e.t.Helper()
	var text strings.Builder
	for _, m := range l.moments() {
		text.WriteString("  " + m.String())
		if m.taken {
			text.WriteString(", taken")
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// Shares returns the largest distance between the subsets at any moment at which a replica became
// available on an image: the difference between the largest and the smallest share of replicas with
// that image, in percent.
func (l *Ledger) Shares(image string, sizes map[string]int) float64 {
	l.history.e.t.Helper()
	return widest(l.history.Events(l.parent)[l.from:], image, sizes)
}

func widest(events []podEvent, image string, sizes map[string]int) float64 {
	updated := map[string]map[string]bool{} // names by subset
	for subset := range sizes {
		updated[subset] = map[string]bool{}
	}
	apart := 0.0
	for _, event := range events {
		if updated[event.Subset] == nil {
			continue // the caller did not ask about it
		}
		delete(updated[event.Subset], event.Name)
		if event.Image == image && event.Ready && !event.Terminating && !event.Gone {
			updated[event.Subset][event.Name] = true
		}
		least, most := 100.0, 0.0
		for subset, size := range sizes {
			share := 100 * float64(len(updated[subset])) / float64(size)
			least, most = min(least, share), max(most, share)
		}
		apart = max(apart, most-least)
	}
	return apart
}

// TestOracles checks that the oracles see what they should see.
func TestOracles(t *testing.T) {
	t.Parallel()
	start := time.Unix(1767225600, 0)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	ready := func(second int, name, uid, image string) podEvent {
		p := pod{Name: name, UID: types.UID(uid), Subset: name[:1], Image: image, Ready: true, ReadySince: at(second)}
		return podEvent{pod: p, At: at(second)}
	}
	unready := func(e podEvent, second int) podEvent { e.Ready, e.At = false, at(second); return e }
	dying := func(e podEvent, second int) podEvent { e.Terminating, e.At = true, at(second); return e }
	gone := func(e podEvent, second int) podEvent { e.Gone, e.At = true, at(second); return e }
	a0, a1, b0 := ready(0, "a0", "1", "v1"), ready(0, "a1", "2", "v1"), ready(0, "b0", "3", "v1")
	events := []podEvent{
		a0, a1, b0,
		gone(a1, 10), // taken: 1 down
		unready(ready(11, "a1", "4", "v2"), 11),
		dying(b0, 12), // taken: 2 down
		gone(b0, 13),
		ready(14, "a1", "4", "v2"),
		gone(dying(b0, 15), 15), // an old event of a deleted pod has no effect
		unready(a0, 16),         // by itself: 2 down
		gone(unready(a0, 16), 17),
		ready(18, "b0", "5", "v2"),
	}
	for _, check := range []struct {
		minReady time.Duration
		want     string
	}{
		{0, "2 1 0 1! 1 2! 2 1 1 2 2 1"},
		{5 * time.Second, "3 3 3 1! 1 2! 2 2 2 3 3 3"},
	} {
		var got []string
		for _, m := range replay(events, 3, check.minReady) {
			text := fmt.Sprint(m.down)
			if m.taken {
				text += "!"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != check.want {
			t.Errorf("minReady %s: %s, want %s", check.minReady, text, check.want)
		}
	}
	if apart := widest(events, "v2", map[string]int{"a": 2, "b": 1}); apart != 50 {
		t.Errorf("%.0f%% apart, want 50", apart)
	}
}
