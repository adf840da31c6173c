// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/shares"
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

// share is the time that one pass may use.
type share struct {
	turn *shares.Turn
	used func() time.Duration
	stop func()
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

// startPass returns the share of the pass, or nil and the longest time until the next attempt.
func (r *Reconciler) startPass(key client.ObjectKey) (*share, time.Duration) {
	turn, wait := r.Shares.Begin(key, r.Clock.Now())
	if turn == nil {
		return nil, wait
	}
	s := &share{turn: turn, used: func() time.Duration { return 0 }, stop: func() {}}
	if r.Meter != nil {
		s.used, s.stop = r.Meter()
	}
	return s, 0
}

func (r *Reconciler) endPass(s *share) {
	s.turn.End(s.used(), r.Clock.Now())
	s.stop()
}

// mayContinue reports whether a pass should continue with the next subset: it has time, or a place among the passes
// that take long, and its parent still exists and is unchanged. The remaining subsets are treated as if their writes
// had been rejected for now. Nothing is lost, because every pass starts from the observed state.
func (r *Reconciler) mayContinue(ctx context.Context, parent *v1alpha1.UnitedDeployment, s *share) bool {
	if s == nil {
		return true
	}
	if s.stopped == "" {
		s.stopped = r.stopReason(ctx, parent, s)
		if s.stopped != "" {
			ctrl.LoggerFrom(ctx).Info("pass ended early", "reason", s.stopped)
		}
	}
	return s.stopped == ""
}

// stopReason returns why a pass should not continue; "" if it should.
func (r *Reconciler) stopReason(ctx context.Context, parent *v1alpha1.UnitedDeployment, s *share) string {
	used, now := s.used(), r.Clock.Now()
	if s.since.IsZero() {
		s.since = now
	}
	switch {
	case ctx.Err() != nil:
		return stoppedByTime
	case now.Sub(s.since) >= maxExecution:
		return stoppedByStatus
	case used-s.checkedAt < checkEvery:
		return ""
	case !s.turn.MayContinue(used):
		return stoppedByOthers
	}
	s.checkedAt = used
	latest := &v1alpha1.UnitedDeployment{}
	// The cache is read as it is: the writes of this pass do not matter here, and the object is not kept.
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(parent), latest,
		&client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true), DisableReadYourWritesConsistency: true})
	switch {
	case apierrors.IsNotFound(err), err == nil && (latest.UID != parent.UID || latest.DeletionTimestamp != nil):
		return stoppedByDeletion
	case err == nil && latest.Generation != parent.Generation:
		return stoppedByChange
	}
	return ""
}
