// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package undone remembers writes that somebody takes back, so that they are made less and less often.
package undone

import (
	"fmt"
	"slices"
	"time"

	"github.com/unitedworkloads/united/controllers/united/memory"
)

// Repeats delays writes that are undone. If somebody, such as a mutating policy, changes something right after it was
// written, it would be written forever, as fast as the API server allows. So the same write is made less and less
// often: a few times at once, then every second, then with growing intervals up to MaxRepeat. The writes are remembered
// by object, with the last one at the end. Without a memory, nothing is delayed.
type Repeats struct{ memory.Named[[]*repeat] }

// RepeatsOf returns the writes for a parent.
func RepeatsOf(parent memory.Entry) Repeats { return Repeats{memory.Named[[]*repeat]{Entry: parent}} }

const (
	// RepeatsAtOnce is how often in a row the same write is repeated without a delay or a message: edits by hand are
	// repaired at once.
	RepeatsAtOnce = 10
	// RepeatsEachSecond is how often in a row a write is repeated before the delay, until then a second, begins to
	// grow.
	RepeatsEachSecond = 30
	// MaxRepeat bounds the delay, and therefore also how long a write remains undone after nobody undoes it anymore.
	MaxRepeat = 5 * time.Minute
	// Stands is how long a write must stand to compensate for one that did not. A pass over a large parent takes
	// seconds, so that time does not show that a write stood.
	Stands = 10 * time.Second
	// remembered is how many different writes to one object are remembered: a child that is deleted, or scaled to 0,
	// again and again is created, seeded with its protected revision, and then released step by step.
	remembered = 32
)

// repeat is one write and its history.
type repeat struct {
	// content identifies the write. written is what was written, if that is more; it is set only for the last write.
	content, written string
	// first is the time of the first such write, at that of the last one.
	first, at time.Time
	// undone is when the write was found undone; zero while it stands.
	undone time.Time
	// row is how many writes in a row had been undone at that time.
	row int
	// until is when the write may be made again.
	until time.Time
	// override is what last undid it.
	override Override
}

// WholeObject is the Field for an object that was deleted.
const WholeObject = "the whole object"

// Override describes how somebody has changed what was written.
type Override struct {
	// Field is the path of the first field that differs from what was written.
	Field string
	// By is the field manager that owns the field, "" if there is none: then admission changed the field when it was
	// written, or somebody removed it.
	By string
	// Unnamed: somebody changed the field, but managedFields do not show who.
	Unnamed bool
	// Admission: even the response to the write did not have the written value.
	Admission bool
	// Barred: the write did not raise the partition either.
	Barred bool
	// Generation is that of the parent in a write of a child that admission changed; 0 for all other writes.
	Generation int64
}

// continues reports whether another write was overridden in the same way before, without an edit of the parent in
// between, so that it is the same conflict. A write that protects replicas is always a new one.
func (o Override) continues(before Override) bool {
	return o.Admission && o.Generation != 0 && !o.Barred && o == before
}

func (o Override) String() string {
	switch {
	case o.Admission:
		return o.Field + " was changed by admission (a policy or webhook) when it was written"
	case o.By != "":
		return fmt.Sprintf("%s was changed by %q right after it was written", o.Field, o.By)
	case o.Unnamed:
		return o.Field + " was changed by somebody (managedFields do not say who) right after it was written"
	}
	return o.Field + " was removed right after it was written"
}

// OverriddenError means that a write is delayed because it was undone each time.
type OverriddenError struct {
	// Object is the written object, such as "StatefulSet web-zone-a".
	Object   string
	Override Override
	// Until is when the object is written again.
	Until time.Time
	// Lasting: this has lasted for half a minute.
	Lasting bool
	// NotRetried: it is not written again by itself.
	NotRetried bool
	// Fixed is the API server's error for a correction; "" if there was no error, or no correction.
	Fixed string
	// Contested: the field is written again each time, and nothing else is.
	Contested bool
}

func (e *OverriddenError) Error() string {
	if e.NotRetried {
		return fmt.Sprintf("%s: %s; United leaves it as it is until there is something else to write", e.Object, e.Override)
	}
	if e.Fixed != "" {
		return fmt.Sprintf("%s: %s, and the API server rejects a correction: %s", e.Object, e.Override, e.Fixed)
	}
	if e.Contested {
		return fmt.Sprintf("%s: %s, repeatedly; United raises it each time, and changes nothing else until nobody has touched it for %s", e.Object, e.Override, ContestQuiet)
	}
	return fmt.Sprintf("%s: %s, repeatedly; United writes it less and less often, at least every %s", e.Object, e.Override, MaxRepeat)
}

// Delay returns the reason why a write is delayed. It returns nil if the write is not delayed, because it differs from
// the last ones, the result of the last one stood, or it is time again. standing is the content of the object as it is
// now: if the last write still stands, the desired state has changed. If the write was newly undone, Delay calls
// override with the content that was written last to find out how.
func (r Repeats) Delay(object, content, standing string, override func(written string) Override, now time.Time) *OverriddenError {
	w, last := r.find(object, content), r.last(object)
	if w == nil || last.written == standing {
		return nil
	}
	if w.undone.IsZero() {
		w.undone = now
		w.row = max(0, r.row(object, w)-int(now.Sub(w.at)/Stands))
		w.until = w.at.Add(repeatSeries().Delay(w.row))
		if !w.override.Admission {
			w.override = override(last.written)
		}
	}
	if !now.Before(w.until) {
		return nil
	}
	return w.error(object)
}

// RecordWrite records a write. written is the content of the object after it, and override is what differs in the
// response already; zero if nothing differs.
func (r Repeats) RecordWrite(object, content, written string, override Override, now time.Time) {
	before, w := r.last(object), r.addOrFind(object, content)
	if w.undone.IsZero() && now.Sub(w.at) >= Stands {
		// The last write stood, and this one only reverts a previous value: it must not count as doubtful, or messages
		// about it would appear and disappear forever.
		w.row = min(w.row, RepeatsAtOnce)
	}
	if w.first.IsZero() && before != nil && override.continues(before.override) {
		// A rollout writes a child many times, each time with other content. If admission changes each write in the same
		// way, the repetitions of all these writes are one series.
		w.row = before.row
	}
	if w.first.IsZero() {
		w.first = now
	}
	w.written, w.at, w.undone = written, now, time.Time{}
	if override != (Override{}) || w.override.Admission {
		w.override = override
	}
}

// row returns how many writes in a row are undone, including w and those that are made alternately with it: a child
// that is scaled to 0 again and again gets its replicas back in several writes, and whichever of them is next when that
// happens is one more round of the same conflict. Writes that were not repeated because they were replaced by others,
// such as those from an earlier spec, do not count.
func (r Repeats) row(object string, w *repeat) int {
	writes, row, made := r.Get(object), w.row, 1
	newest := slices.MaxFunc(writes, func(a, b *repeat) int { return a.first.Compare(b.first) })
	for _, other := range writes {
		if other == w || other.at.Before(newest.first) {
			continue
		}
		row = max(row, other.row)
		if !other.at.Before(w.at) {
			made++
		}
	}
	return row + made
}

// RecordStanding records that the object is as it was written last.
func (r Repeats) RecordStanding(object string, now time.Time) {
	last := r.last(object)
	for _, w := range r.Get(object) {
		if !w.undone.IsZero() && !w.undone.Before(last.at) {
			w.at, w.undone = now, time.Time{}
		}
	}
}

// Overridden returns what undoes the writes to an object, while the last one is undone or it is uncertain whether it
// stands; nil if it stands, or was undone only a few times. Until is when to check that again.
func (r Repeats) Overridden(object string, now time.Time) *OverriddenError {
	last := r.last(object)
	var latest *OverriddenError
	for _, w := range r.Get(object) {
		// A write other than the last one counts until it has stood. After that, it also counts if it was found undone
		// since the last one, because several writes can alternate.
		if w == last || w.undone.IsZero() || !w.undone.Before(last.at) {
			if e := w.overridden(object, now); e != nil && (latest == nil || !e.Until.Before(latest.Until)) {
				latest = e
			}
		}
	}
	return latest
}

// overridden returns what undoes the write, nil if it stands or was undone only a few times.
func (w *repeat) overridden(object string, now time.Time) *OverriddenError {
	if w.row <= RepeatsAtOnce {
		return nil
	}
	e := w.error(object)
	switch {
	case w.undone.IsZero():
		e.Until = w.at.Add(Stands)
	case !now.Before(w.until):
		e.Until = w.until.Add(Stands) // the write is allowed again, but was not made: it is no longer needed
	}
	if !now.Before(e.Until) {
		return nil
	}
	return e
}

// BarredByAdmission reports whether admission prevented the last identical write from raising a partition.
func (r Repeats) BarredByAdmission(object, content string) bool {
	w := r.find(object, content)
	return w != nil && w.override.Admission && w.override.Barred
}

func (w *repeat) error(object string) *OverriddenError {
	return &OverriddenError{Object: object, Override: w.override, Until: w.until, Lasting: w.row > RepeatsEachSecond}
}

func (r Repeats) find(object, content string) *repeat {
	for _, w := range r.Get(object) {
		if w.content == content {
			return w
		}
	}
	return nil
}

// last returns the last write to an object, nil if there is none.
func (r Repeats) last(object string) *repeat {
	writes := r.Get(object)
	if len(writes) == 0 {
		return nil
	}
	return writes[len(writes)-1]
}

// addOrFind makes a write the last one. It drops the oldest one if there are too many.
func (r Repeats) addOrFind(object, content string) *repeat {
	w := r.find(object, content)
	if w == nil {
		w = &repeat{content: content}
	}
	others := slices.DeleteFunc(r.Get(object), func(other *repeat) bool { return other == w })
	for _, other := range others {
		other.written = ""
	}
	r.Set(object, append(others[max(0, len(others)-remembered+1):], w))
	return w
}

// repeatSeries has the delays after the previous write for one that was undone so many times in a row.
func repeatSeries() memory.Series {
	return memory.Series{Free: RepeatsAtOnce, Steady: RepeatsEachSecond, Most: MaxRepeat}
}
