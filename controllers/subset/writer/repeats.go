// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/controllers/perparent"
)

// Repeats spaces writes that are undone. What somebody changes again right after it was
// written, such as a mutating policy that overrides it, would be written for ever, as
// fast as the API server can. So the same write is made less and less often: at once a
// few times, then each second, then up to MaxRepeat apart. The writes are remembered by object, the last
// one last; a nil *Repeats spaces nothing.
type Repeats struct {
	perparent.Memory[[]*repeat]
}

const (
	// repeatsAtOnce is how often in a row the same write is repeated without delay, and
	// nothing is said: edits by hand are put right at once.
	repeatsAtOnce = 10
	// repeatsEachSecond is how often in a row it is repeated before the delay, a second
	// until then, begins to grow.
	repeatsEachSecond = 30
	// MaxRepeat bounds the delay, and so for how long what was written stays undone when
	// nobody undoes it any more.
	MaxRepeat = 5 * time.Minute
	// stands is how long a write must stand to make up for one that did not. A pass over
	// a large parent takes seconds, so that is no sign that a write stood.
	stands = 10 * time.Second
	// remembered is how many different writes to one object are remembered: a child that
	// is deleted, or scaled to 0, again and again is created, taught what it protects, and
	// then released step by step.
	remembered = 32
)

// repeat is one write, and how it fared.
type repeat struct {
	// content tells writes apart. written is what was written, where that is more; only of the
	// last write.
	content, written string
	// first is when it was made first, at when it was made last.
	first, at time.Time
	// undone is when it was found undone; zero while it stands.
	undone time.Time
	// row is how many writes in a row were undone when it was.
	row int
	// until is when it may be made again.
	until time.Time
	// override is what was found undone last.
	override Override
}

// WholeObject is the Field of an object that was deleted.
const WholeObject = "the whole object"

// Override is what somebody has made of a write.
type Override struct {
	// Field is the path of the first field that is not as it was written.
	Field string
	// By is the field manager that has it, "" if none has: then it was changed as it was
	// written, by admission, or removed.
	By string
	// Unnamed: it was changed, and managedFields do not tell who did it.
	Unnamed bool
	// Admission: it was never as written, in the answer to the write itself.
	Admission bool
	// Barred: nor was the partition raised by that write.
	Barred bool
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

// OverriddenError says that a write is put off, because it was undone each time.
type OverriddenError struct {
	// Object is what was written, such as "StatefulSet web-zone-a".
	Object   string
	Override Override
	// Until is when it is written again.
	Until time.Time
	// Lasting: that has been going on for half a minute.
	Lasting bool
	// NotRetried: it is not written again by itself.
	NotRetried bool
	// Fixed is what the API server answers to a write that would correct it; "" if nothing, or if there was none.
	Fixed string
	// Contested: it is written again each time, and nothing else is.
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
		return fmt.Sprintf("%s: %s, repeatedly; United raises it each time, and changes nothing else until nobody has touched it for %s", e.Object, e.Override, contestQuiet)
	}
	return fmt.Sprintf("%s: %s, repeatedly; United writes it less and less often, at least every %s", e.Object, e.Override, MaxRepeat)
}

// Delay gives why a write is put off, and nil when it is not: it is another write than
// the last ones, what it wrote last stood, or it is time again. standing is the content
// of the object as it is now: when the last write still stands, it is we who want
// something else now. override is asked what was undone, of what was written last, when that
// is new.
func (r *Repeats) Delay(parent types.NamespacedName, object, content, standing string, override func(written string) Override, now time.Time) *OverriddenError {
	w, last := r.find(parent, object, content), r.last(parent, object)
	if w == nil || last.written == standing {
		return nil
	}
	if w.undone.IsZero() {
		w.undone = now
		w.row = max(0, r.row(parent, object, w)-int(now.Sub(w.at)/stands))
		w.until = w.at.Add(repeatDelay(w.row))
		if !w.override.Admission {
			w.override = override(last.written)
		}
	}
	if !now.Before(w.until) {
		return nil
	}
	return w.error(object)
}

// RecordWrite notes a write. written is what the object is by it, override what the answer to it
// had changed already; zero if nothing.
func (r *Repeats) RecordWrite(parent types.NamespacedName, object, content, written string, override Override, now time.Time) {
	if r == nil {
		return
	}
	w := r.addOrFind(parent, object, content)
	if w.undone.IsZero() && now.Sub(w.at) >= stands {
		// The last one stood, and this one only takes back what was said of it: not to be
		// doubted, or it would be said again, and taken back, for ever.
		w.row = min(w.row, repeatsAtOnce)
	}
	if w.first.IsZero() {
		w.first = now
	}
	w.written, w.at, w.undone = written, now, time.Time{}
	if override != (Override{}) || w.override.Admission {
		w.override = override
	}
}

// row is how many writes in a row are undone, w and those that are made in turn with it: a child that is
// scaled to 0 again and again gets its replicas back in several writes, and whichever of them is the next
// when that happens is one more round of the same fight. Writes that were not made again since there is
// another one, such as those from an earlier spec, are no part of it.
func (r *Repeats) row(parent types.NamespacedName, object string, w *repeat) int {
	writes, row, made := r.writes(parent, object), w.row, 1
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

// RecordStanding notes that the object is as it was written last.
func (r *Repeats) RecordStanding(parent types.NamespacedName, object string, now time.Time) {
	last := r.last(parent, object)
	for _, w := range r.writes(parent, object) {
		if !w.undone.IsZero() && !w.undone.Before(last.at) {
			w.at, w.undone = now, time.Time{}
		}
	}
}

// Overridden gives what undoes the writes to an object, while the last one is undone or it is
// not sure that it stands; nil when it does, or when it was undone only a few times.
// Until is when that is to be looked at again.
func (r *Repeats) Overridden(parent types.NamespacedName, object string, now time.Time) *OverriddenError {
	last := r.last(parent, object)
	var latest *OverriddenError
	for _, w := range r.writes(parent, object) {
		// Another write than the last one counts until it has stood, and after that one too
		// when it was found undone since: several writes can be made in turn.
		if w == last || w.undone.IsZero() || !w.undone.Before(last.at) {
			if e := w.overridden(object, now); e != nil && (latest == nil || !e.Until.Before(latest.Until)) {
				latest = e
			}
		}
	}
	return latest
}

// overridden is what undoes the write, nil when it stands or was undone only a few times.
func (w *repeat) overridden(object string, now time.Time) *OverriddenError {
	if w.row <= repeatsAtOnce {
		return nil
	}
	e := w.error(object)
	switch {
	case w.undone.IsZero():
		e.Until = w.at.Add(stands)
	case !now.Before(w.until):
		e.Until = w.until.Add(stands) // it may be written again, and nobody has: it is not wanted any more
	}
	if !now.Before(e.Until) {
		return nil
	}
	return e
}

// BarredByAdmission reports whether the same write, when it was made last, was kept by admission from
// raising a partition.
func (r *Repeats) BarredByAdmission(parent types.NamespacedName, object, content string) bool {
	w := r.find(parent, object, content)
	return w != nil && w.override.Admission && w.override.Barred
}

// Forget forgets the writes for a parent that is gone.
func (r *Repeats) Forget(parent types.NamespacedName) {
	if r != nil {
		r.Memory.Forget(parent)
	}
}

// ForgetObject forgets the writes to one object that is gone.
func (r *Repeats) ForgetObject(parent types.NamespacedName, object string) {
	if r != nil {
		r.Delete(parent, object)
	}
}

func (w *repeat) error(object string) *OverriddenError {
	return &OverriddenError{Object: object, Override: w.override, Until: w.until, Lasting: w.row > repeatsEachSecond}
}

func (r *Repeats) writes(parent types.NamespacedName, object string) []*repeat {
	if r == nil {
		return nil
	}
	return r.Get(parent, object)
}

func (r *Repeats) find(parent types.NamespacedName, object, content string) *repeat {
	for _, w := range r.writes(parent, object) {
		if w.content == content {
			return w
		}
	}
	return nil
}

// last is the last write to an object, nil if there is none.
func (r *Repeats) last(parent types.NamespacedName, object string) *repeat {
	writes := r.writes(parent, object)
	if len(writes) == 0 {
		return nil
	}
	return writes[len(writes)-1]
}

// addOrFind makes a write the last one. The oldest is dropped when there are too many.
func (r *Repeats) addOrFind(parent types.NamespacedName, object, content string) *repeat {
	w := r.find(parent, object, content)
	if w == nil {
		w = &repeat{content: content}
	}
	others := slices.DeleteFunc(r.writes(parent, object), func(other *repeat) bool { return other == w })
	for _, other := range others {
		other.written = ""
	}
	r.Set(parent, object, append(others[max(0, len(others)-remembered+1):], w))
	return w
}

// repeatDelay is how long after the last one a write is repeated that was undone so often
// in a row.
func repeatDelay(row int) time.Duration {
	switch grown := row - repeatsEachSecond; {
	case row <= repeatsAtOnce:
		return 0
	case grown <= 0:
		return time.Second
	case grown > 8:
		return MaxRepeat
	default:
		return min(MaxRepeat, time.Second<<grown)
	}
}
