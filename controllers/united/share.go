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

// checkEvery is how much a pass may use between two looks at whether it is still wanted.
// Looks are cheap, but there can be a hundred subsets, of which each takes next to
// nothing.
const checkEvery = 20 * time.Millisecond

// maxExecution is how long a pass may write children before it writes the status. With a hundred of them it can take
// minutes, if the API server is slow, or its answers are long; until then nobody would know what it waits for.
const maxExecution = 10 * time.Second

// Meter begins to measure what a pass uses; stop ends it. Both are called by the
// goroutine that began.
type Meter func() (used func() time.Duration, stop func())

// share is the part of one pass in the time of all.
type share struct {
	turn *shares.Turn
	used func() time.Duration
	stop func()
	// since is when it began to write children.
	since time.Time
	// checkedAt is what had been used at the last look.
	checkedAt time.Duration
	// stopped is why the pass has ended early; "" if it has not.
	stopped string
}

// Why a pass ends early.
const (
	stoppedByTime     = "the pass has run out of time"
	stoppedByStatus   = "the status is written before it continues"
	stoppedByOthers   = "other UnitedDeployments that take long are being reconciled"
	stoppedByDeletion = "the UnitedDeployment is gone"
	stoppedByChange   = "the UnitedDeployment has changed"
)

// startPass gives the pass its share, or nil and when to try again at the latest.
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

// mayContinue reports whether a pass, between two subsets, is to go on: it has time, or a place
// among those that take long, and its parent is still there, and asks for the same. The
// rest is left as if it had been refused for the moment: nothing is lost by that, since
// every pass starts from what there is.
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

// stopReason is why a pass shall not go on; "" if it shall.
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
	// The cache as it is: what this pass has written makes no difference here, and
	// nothing of what is read is kept.
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
