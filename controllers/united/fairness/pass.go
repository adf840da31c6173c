// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// checkEvery is how much time a pass may use between two checks whether it should continue. The checks are cheap, but
// there can be a hundred subsets, each of which takes almost no time.
const checkEvery = 20 * time.Millisecond

// maxExecution is how long a pass may write children before it writes the status. With a hundred of them, that can take
// minutes if the API server is slow, or its responses are large. Until then nobody would know what the pass is waiting
// for.
const maxExecution = 10 * time.Second

// Meter starts to measure the time that a pass uses; stop ends the measurement. The goroutine that started it must call
// both functions.
type Meter func() (used func() time.Duration, stop func())

// Passes starts and ends passes, so that no parent uses the time of all.
type Passes struct {
	// Shares and Meter may be nil: then there are no limits.
	Shares *Shares
	Meter  Meter
	// Client reads from the cache.
	Client client.Reader
	Clock  clock.PassiveClock
}

// Pass is the time that one pass may use.
type Pass struct {
	passes *Passes
	turn   *Turn
	// used returns what the pass counts as so far; measured, nil before the time is measured, what the Meter says.
	used, measured func() time.Duration
	stop           func()
	begun          time.Time
	// since is when the pass started to write children.
	since time.Time
	// checkedAt is the used time at the last check.
	checkedAt time.Duration
	// stopped is why the pass ended early; "" if it did not.
	stopped string
}

// Reasons why a pass ends early.
const (
	stoppedByTime     = "the pass has run out of time"
	stoppedByStatus   = "the status is written before it continues"
	stoppedByOthers   = "other UnitedDeployments that take long are being reconciled"
	stoppedByDeletion = "the UnitedDeployment is gone"
	stoppedByChange   = "the UnitedDeployment has changed"
)

// Start returns a pass, or nil and the longest time until the next attempt.
func (f *Passes) Start(key client.ObjectKey) (*Pass, time.Duration) {
	now := f.Clock.Now()
	turn, wait := f.Shares.Begin(key, now)
	if turn == nil {
		return nil, wait
	}
	p := &Pass{passes: f, turn: turn, begun: now, used: func() time.Duration { return 0 }, stop: func() {}}
	switch {
	case f.Meter == nil:
	case turn.quick:
		p.used = p.estimate
	default:
		p.used, p.stop = f.Meter()
	}
	return p, 0
}

// estimate returns the used time of a pass over a parent whose last pass was quick. To measure it, the goroutine is locked
// to its thread, so that every wait switches threads, which costs more than many passes. So such a pass counts as a fixed
// cost and the share of its time that waiting costs, and is measured only from when it has taken longer than that. If it took
// long before that, waiting or not, the next one is measured from the start.
func (p *Pass) estimate() time.Duration {
	if p.measured == nil {
		p.turn.unmeasured = p.passes.Clock.Since(p.begun)
		if p.turn.unmeasured <= quickCost {
			return p.turn.unmeasured
		}
		p.measured, p.stop = p.passes.Meter()
	}
	return quickCost + p.turn.unmeasured/waitingCosts + p.measured()
}

// End ends the pass.
func (p *Pass) End() {
	p.turn.End(p.used(), p.passes.Clock.Now())
	p.stop()
}

// MayContinue reports whether the pass should continue with the next subset: it has time, or a place among the passes
// that take long, and its parent still exists and is unchanged. The remaining subsets are treated as if their writes
// had been rejected for now. Nothing is lost, because every pass starts from the observed state.
func (p *Pass) MayContinue(ctx context.Context, parent *v1alpha1.UnitedDeployment) bool {
	if p == nil {
		return true
	}
	if p.stopped == "" {
		p.stopped = p.stopReason(ctx, parent)
		if p.stopped != "" {
			ctrl.LoggerFrom(ctx).Info("pass ended early", "reason", p.stopped)
		}
	}
	return p.stopped == ""
}

// ParentIsGone reports whether the pass ended early because there is no parent anymore.
func (p *Pass) ParentIsGone() bool { return p != nil && p.stopped == stoppedByDeletion }

// stopReason returns why a pass should not continue; "" if it should.
func (p *Pass) stopReason(ctx context.Context, parent *v1alpha1.UnitedDeployment) string {
	used, now := p.used(), p.passes.Clock.Now()
	if p.since.IsZero() {
		p.since = now
	}
	switch {
	case ctx.Err() != nil:
		return stoppedByTime
	case now.Sub(p.since) >= maxExecution:
		return stoppedByStatus
	case used-p.checkedAt < checkEvery:
		return ""
	case !p.turn.MayContinue(used):
		return stoppedByOthers
	}
	p.checkedAt = used
	latest := &v1alpha1.UnitedDeployment{}
	// The cache is read as it is: the writes of this pass do not matter here, and the object is not kept.
	err := p.passes.Client.Get(ctx, client.ObjectKeyFromObject(parent), latest,
		&client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true), DisableReadYourWritesConsistency: true})
	switch {
	case apierrors.IsNotFound(err), err == nil && (latest.UID != parent.UID || latest.DeletionTimestamp != nil):
		return stoppedByDeletion
	case err == nil && latest.Generation != parent.Generation:
		return stoppedByChange
	}
	return ""
}
