// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"slices"
	"strings"
	"time"
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
	w.T.Helper()
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
	Event PodEvent
	Down  int
	// taken: an available replica was deleted.
	Taken bool
}

func (m moment) String() string {
	how := "changed"
	switch {
	case m.Event.Gone:
		how = "gone"
	case m.Event.Terminating:
		how = "terminating"
	case m.Event.Ready:
		how = "ready"
	}
	return fmt.Sprintf("%s on %s %s, %d down", m.Event.Name, m.Event.Image, how, m.Down)
}

func (l *Ledger) Moments() []moment {
	l.history.E.T.Helper()
	events, from := l.history.Events(l.parent), l.from
	if l.subset != "" {
		other := func(event PodEvent) bool { return event.Subset != l.subset }
		from = len(slices.DeleteFunc(slices.Clone(events[:from]), other))
		events = slices.DeleteFunc(slices.Clone(events), other)
	}
	return Replay(events, l.replicas, l.minReady)[from:]
}

// Replay returns a moment for every event.
func Replay(events []PodEvent, replicas int, minReady time.Duration) []moment {
	living := map[string]Pod{} // by name
	available := func(p Pod, now time.Time) bool {
		return p.Ready && !p.Terminating && !p.ReadySince.Add(minReady).After(now)
	}
	moments := make([]moment, 0, len(events))
	for _, event := range events {
		before, existed := living[event.Name]
		was := existed && before.UID == event.UID && available(before, event.At)
		switch {
		case !event.Gone:
			living[event.Name] = event.Pod
		case existed && before.UID == event.UID:
			delete(living, event.Name)
		}
		m := moment{Event: event, Down: replicas, Taken: was && (event.Gone || event.Terminating)}
		for _, p := range living {
			if available(p, event.At) {
				m.Down--
			}
		}
		moments = append(moments, m)
	}
	return moments
}

// downs returns how many replicas were down, at the beginning none, and then after each event.
func (l *Ledger) downs() []int {
	l.history.E.T.Helper()
	downs := []int{0}
	for _, m := range l.Moments() {
		downs = append(downs, m.Down)
	}
	return downs
}

// Most returns the largest number of replicas that were down at once.
func (l *Ledger) Most() int {
	l.history.E.T.Helper()
	return slices.Max(l.downs())
}

// Least is the opposite of Most: it is negative if more replicas were available than were asked for.
func (l *Ledger) Least() int {
	l.history.E.T.Helper()
	return slices.Min(l.downs())
}

// Taken returns the largest number of replicas that were down right after an available one was deleted.
// Replicas that go down by themselves increase Most, but not Taken.
func (l *Ledger) Taken() int {
	l.history.E.T.Helper()
	most := 0
	for _, m := range l.Moments() {
		if m.Taken {
			most = max(most, m.Down)
		}
	}
	return most
}

// Within fails the test if more than maxUnavailable were ever down at once. It also fails if there were
// never as many, because the oracle, or the test, has then seen nothing.
func (l *Ledger) Within(maxUnavailable int) {
	l.history.E.T.Helper()
	if most := l.Most(); most != maxUnavailable {
		l.history.E.T.Fatalf("%d replicas were down at once, want %d:\n%s", most, maxUnavailable, l)
	}
}

// TakenWithin is Within for a test that itself takes replicas down: only deletions of available
// replicas count.
func (l *Ledger) TakenWithin(maxUnavailable int) {
	l.history.E.T.Helper()
	if most := l.Taken(); most != maxUnavailable {
		l.history.E.T.Fatalf("an available replica was deleted so that %d were down, want %d:\n%s", most, maxUnavailable, l)
	}
}

// GrownWithin is TakenWithin for a workload that gets new replicas, those from an ordinal on. Until all
// replicas have been available at once, a new one may go down again: it was released before it existed,
// came up on the old revision nevertheless, and counted as down all the time.
func (l *Ledger) GrownWithin(maxUnavailable, first int) {
	l.history.E.T.Helper()
	up, seen := false, false
	for _, m := range l.Moments() {
		up = up || m.Down == 0
		seen = seen || m.Taken
		if m.Taken && m.Down > maxUnavailable && (up || m.Event.Ordinal < first) {
			l.history.E.T.Fatalf("an available replica was deleted: %s\n%s", m, l)
		}
	}
	if !seen {
		l.history.E.T.Fatalf("nothing was deleted:\n%s", l)
	}
}

// TookNothing fails the test if an available replica was deleted.
func (l *Ledger) TookNothing() {
	l.history.E.T.Helper()
	for _, m := range l.Moments() {
		if m.Taken {
			l.history.E.T.Fatalf("an available replica was deleted: %s\n%s", m, l)
		}
	}
}

func (l *Ledger) String() string {
	l.history.E.T.Helper()
	var text strings.Builder
	for _, m := range l.Moments() {
		text.WriteString("  " + m.String())
		if m.Taken {
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
	l.history.E.T.Helper()
	return Widest(l.history.Events(l.parent)[l.from:], image, sizes)
}

func Widest(events []PodEvent, image string, sizes map[string]int) float64 {
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
