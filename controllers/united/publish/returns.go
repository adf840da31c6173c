// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"crypto/sha256"
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/perparent"
)

// statusReturns bounds how often a status is written that alternates between the same values. If somebody scales a
// child to 0 again and again, or a replica is ready every other second, each status differs from the last one, so none
// of them is a repeat, and each has a change that must be written at once. But all of them were written before. A
// rollout never returns to the same status many times within seconds. So a status that does is written at once a few
// times, then every second, and then less often. A status that was not written before is still written at once.
//
// If this memory is lost, it costs only additional writes.
type statusReturns struct {
	perparent.Memory[*returns]
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

// returns has the statuses of a parent that were written.
type returns struct {
	// written is when each status was last written, by its content; last is the latest of these times.
	written map[statusKey]time.Time
	last    time.Time
	// row is the number of returns that were each within returnWithin of the previous one, and at is the time of the
	// last one.
	row int
	at  time.Time
}

type statusKey [sha256.Size]byte

// keyOfStatus identifies a status by the content that matters to those who wait for it.
func keyOfStatus(status *v1alpha1.UnitedDeploymentStatus) (statusKey, error) {
	fields, err := timeless(Recurring(status))
	if err != nil {
		return statusKey{}, err
	}
	return sha256.Sum256([]byte(statusText(fields))), nil
}

// delay returns how long a status must wait because it returns to an earlier one; 0 if it must be written now.
func (s *statusReturns) delay(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, b Batching, now time.Time) (time.Duration, error) {
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

// recordWritten records that a status was written in place of the parent's present one.
func (s *statusReturns) recordWritten(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, b Batching, now time.Time) error {
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

// returned reports whether a status has the same content as an earlier one. A status that differs from the parent's
// only in a count, which has reached its desired value, is not a return, because that happens once.
func (k *returns) returned(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, now time.Time) (bool, error) {
	if SameButCounters(&parent.Status, status) {
		return false, nil
	}
	key, err := keyOfStatus(status)
	if err != nil {
		return false, err
	}
	at, known := k.written[key]
	return known && now.Sub(at) < returnWithin, nil
}

// returnDelay returns the delay after the last status for a return, after that many of them.
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
