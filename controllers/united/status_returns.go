// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"crypto/sha256"
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/perparent"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// statusReturns bounds how often a status is written that goes to and fro. Where somebody scales a child to 0
// again and again, or a replica is ready every other second, each status is another one than the last, so that
// none of them is a repeat, and each says something that goes at once. But all of them were written before.
// A rollout never comes back to the same status many times within seconds; so what does is written at once a few
// times, then each second, and then less often. What was not written before goes at once all the same.
//
// What is forgotten costs writes and no more.
type statusReturns struct {
	perparent.Memory[*returns]
}

const (
	// returnsAtOnce is how many returns in a row are written without delay, returnsEachSecond how many before
	// the delay, a second until then, begins to grow.
	returnsAtOnce     = 10
	returnsEachSecond = 30
	// returnWithin is for how long a status is remembered, and after how long without a return a row ends.
	returnWithin = 30 * time.Second
	// returnsRemembered is how many statuses of a parent are remembered.
	returnsRemembered = 64
)

// returns are the statuses that were written of a parent.
type returns struct {
	// written is when each was written last, by what it says; last is the latest of these times.
	written map[statusKey]time.Time
	last    time.Time
	// row is how many returns there were, each within returnWithin of the one before, and at the last of them.
	row int
	at  time.Time
}

type statusKey [sha256.Size]byte

// keyOfStatus tells statuses apart by what they say to those who wait for it.
func keyOfStatus(status *v1alpha1.UnitedDeploymentStatus) (statusKey, error) {
	fields, err := timeless(planner.Recurring(status))
	if err != nil {
		return statusKey{}, err
	}
	return sha256.Sum256([]byte(statusText(fields))), nil
}

// delay gives for how long a status is to wait since it returns to what was written before; 0 when it is to be
// written now.
func (s *statusReturns) delay(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, b StatusBatching, now time.Time) (time.Duration, error) {
	kept := s.Get(client.ObjectKeyFromObject(parent), "")
	if b.MaxReturn == 0 || kept == nil || kept.row < returnsAtOnce || now.Sub(kept.at) >= returnWithin {
		return 0, nil
	}
	returned, err := kept.returned(parent, status, now)
	if err != nil || !returned {
		return 0, err
	}
	return max(0, returnDelay(kept.row, b.MaxReturn)-now.Sub(kept.last)), nil
}

// recordWritten notes that a status was written in the place of the one that the parent had.
func (s *statusReturns) recordWritten(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, b StatusBatching, now time.Time) error {
	if b.MaxReturn == 0 {
		return nil
	}
	key, err := keyOfStatus(status)
	if err != nil {
		return err
	}
	name := client.ObjectKeyFromObject(parent)
	kept := s.Get(name, "")
	if kept == nil {
		kept = &returns{written: map[statusKey]time.Time{}}
		s.Set(name, "", kept)
	}
	if now.Sub(kept.at) >= returnWithin {
		kept.row = 0
	}
	switch returned, err := kept.returned(parent, status, now); {
	case err != nil:
		return err
	case returned:
		kept.row, kept.at = min(kept.row+1, returnsEachSecond+8), now
	}
	maps.DeleteFunc(kept.written, func(_ statusKey, at time.Time) bool { return now.Sub(at) >= returnWithin })
	if len(kept.written) >= returnsRemembered {
		clear(kept.written)
	}
	kept.written[key], kept.last = now, now
	return nil
}

// returned reports whether a status says what one said that was written before. One that differs from the
// parent's in nothing but a count, which has become what is wanted, is no return: that it is comes once.
func (k *returns) returned(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, now time.Time) (bool, error) {
	if planner.SameButCounters(&parent.Status, status) {
		return false, nil
	}
	key, err := keyOfStatus(status)
	if err != nil {
		return false, err
	}
	at, known := k.written[key]
	return known && now.Sub(at) < returnWithin, nil
}

// returnDelay is how long after the last status one is written that is a return, after so many of them.
func returnDelay(row int, most time.Duration) time.Duration {
	switch grown := row - returnsEachSecond; {
	case row < returnsAtOnce:
		return 0
	case grown <= 0:
		return min(most, time.Second)
	default:
		return min(most, time.Second<<min(grown, 8))
	}
}
