// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"crypto/sha256"
	"maps"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/memory"
)

// Batching is how long a status waits for the next one if nothing changed in it that somebody may be waiting for.
// While replicas are created and deleted, each status changes several times within a second, and every watcher of the
// status receives it again. With the zero value no status waits.
type Batching struct {
	// Delay is how long a status waits if only counters changed (Counts).
	Delay time.Duration
	// Interval is the minimum time between the last status and such a one: while counters keep changing, they are
	// written at this interval.
	Interval time.Duration
	// ProvisioningInterval is the interval for a UnitedDeployment that has never been Ready (Provisioning).
	// Its readers want to know when it is, and that is written at once.
	ProvisioningInterval time.Duration
	// MaxReturn is the maximum time that a status waits if it returns to an earlier one again and again
	// (returns). With 0, none waits.
	MaxReturn time.Duration
}

// StandardBatching returns what the manager uses.
func StandardBatching() Batching {
	return Batching{Delay: 200 * time.Millisecond, Interval: 2 * time.Second, ProvisioningInterval: 10 * time.Second, MaxReturn: 5 * time.Second}
}

// quiet is the version of a parent whose last write changed only what no pass decides by. Others read it while a pass runs.
type quiet string

// Quiet reports whether a version of a parent is that one.
func Quiet(of memory.Entry, resourceVersion string) bool {
	return memory.Slot[quiet]{Entry: of}.Get() == quiet(resourceVersion)
}

// publishedOf returns what was published of a parent.
func publishedOf(of memory.Entry) *published {
	slot := memory.Slot[*published]{Entry: of}
	kept := slot.Get()
	if kept == nil {
		kept = &published{}
		slot.Set(kept)
	}
	return kept
}

// published is what is remembered of what was published of a parent. If it is lost, that costs only additional writes.
type published struct {
	// since is when the first change occurred that is not written; zero if all changes are.
	since time.Time
	// written is when the status was last written; zero if it was not written by this process.
	written time.Time
	returns returns
}

// delay returns how long a status with a change must wait for the next one; 0 if it must be written now. events: there are
// events that must not wait.
func (p *published) delay(status *v1alpha1.UnitedDeploymentStatus, c Change, events bool, b Batching, now time.Time) (time.Duration, error) {
	switch {
	case c == Anything:
		return p.returns.delay(status, b, now)
	case !c.MayWait() || events || b == Batching{}:
		return 0, nil
	}
	if p.since.IsZero() {
		p.since = now
	}
	interval := b.Interval
	if c == Provisioning {
		interval = b.ProvisioningInterval
	}
	return max(0, b.Delay-now.Sub(p.since), interval-now.Sub(p.written)), nil
}

// recordUpToDate records that a status is up to date. If it had a change, that was written.
func (p *published) recordUpToDate(status *v1alpha1.UnitedDeploymentStatus, c Change, b Batching, now time.Time) error {
	p.since = time.Time{}
	if c == Same {
		return nil
	}
	p.written = now
	return p.returns.recordWritten(status, c, b, now)
}

// returns bounds how often a status is written that alternates between the same values. If somebody scales a
// child to 0 again and again, or a replica is ready every other second, each status differs from the last one, so none
// of them is a repeat, and each has a change that must be written at once. But all of them were written before. A
// rollout never returns to the same status many times within seconds. So a status that does is written at once a few
// times, then every second, and then less often. A status that was not written before is still written at once.
type returns struct {
	// written is when each status was last written, by its content; last is the latest of these times.
	written map[statusKey]time.Time
	last    time.Time
	// row is the number of returns that were each within returnWithin of the previous one, and at is the time of the
	// last one.
	row int
	at  time.Time
}

const (
	// returnsAtOnce is how many returns in a row are written without a delay, and returnsEachSecond how many before the
	// delay, until then a second, begins to grow.
	returnsAtOnce     = 10
	returnsEachSecond = 30
	// returnWithin is how long a status is remembered, and after how long without a return a series ends.
	returnWithin = 30 * time.Second
	// returnsRemembered is how many statuses of a parent are remembered.
	returnsRemembered = 64
)

type statusKey [sha256.Size]byte

// keyOfStatus identifies a status by the content that matters to those who wait for it.
func keyOfStatus(status *v1alpha1.UnitedDeploymentStatus) (statusKey, error) {
	text, err := timeless(recurring(status))
	return sha256.Sum256(text), err
}

// delay returns how long a status must wait because it returns to an earlier one; 0 if it must be written now.
func (r *returns) delay(status *v1alpha1.UnitedDeploymentStatus, b Batching, now time.Time) (time.Duration, error) {
	wait := b.returnSeries().Delay(r.row)
	if wait == 0 || now.Sub(r.at) >= returnWithin {
		return 0, nil
	}
	key, err := keyOfStatus(status)
	if err != nil || !r.known(key, now) {
		return 0, err
	}
	return max(0, wait-now.Sub(r.last)), nil
}

// known reports whether a status with this content was written before.
func (r *returns) known(key statusKey, now time.Time) bool {
	at, known := r.written[key]
	return known && now.Sub(at) < returnWithin
}

// recordWritten records that a status was written. One that differs from the previous one only in counts is not a return:
// a count reaches the wanted number once.
func (r *returns) recordWritten(status *v1alpha1.UnitedDeploymentStatus, c Change, b Batching, now time.Time) error {
	if b.MaxReturn == 0 {
		return nil
	}
	key, err := keyOfStatus(status)
	if err != nil {
		return err
	}
	if now.Sub(r.at) >= returnWithin {
		r.row = 0
	}
	if c == Anything && r.known(key, now) {
		r.row, r.at = r.row+1, now
	}
	maps.DeleteFunc(r.written, func(_ statusKey, at time.Time) bool { return now.Sub(at) >= returnWithin })
	if r.written == nil || len(r.written) >= returnsRemembered {
		r.written = map[statusKey]time.Time{}
	}
	r.written[key], r.last = now, now
	return nil
}

// returnSeries has the delays after the last status for one more return, after so many of them in a row: so one less is free.
func (b Batching) returnSeries() memory.Series {
	return memory.Series{Free: returnsAtOnce - 1, Steady: returnsEachSecond, Most: b.MaxReturn}
}
