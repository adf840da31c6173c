// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	"github.com/unitedworkloads/united/adapters"
)

// IsReserved reports whether a replica has no node and does not count. In a subset that keeps such replicas, these
// are all replicas that the scheduler reports as unschedulable.
func (s *SubsetPlan) IsReserved(r *adapters.Replica) bool {
	return s.Reserved > 0 && r.Unschedulable != "" && !r.Terminating
}

// unreached returns the replicas that a new image would not reach, because the child's controller waits for
// replicas without a node: these themselves and, if all above it are updated, the next one with a node. stuck are
// the replicas that are deleted anyway. proven: the protected revision of the subset makes the same pods as the
// update revision.
func (s *SubsetPlan) unreached(stuck []adapters.Replica, proven bool, now time.Time) (unreached []adapters.Replica) {
	observed := s.Observed
	asked := observed.WantedHashes(proven, s.ProtectedHash)
	if s.Reserved == 0 || asked == nil {
		return nil
	}
	for i := range observed.Pods {
		r := &observed.Pods[i]
		known := slices.ContainsFunc(stuck, func(k adapters.Replica) bool { return k.UID == r.UID })
		if s.IsReserved(r) && !known && observed.Replaceable(r, observed.Partition, asked) {
			unreached = append(unreached, *r)
		}
	}
	if next := s.nextBehindReserved(observed, now); next != nil && len(unreached)+len(stuck) == 0 {
		unreached = append(unreached, *next)
	}
	return unreached
}

// nextBehindReserved returns the highest released replica that is not updated, if it is available, and all above
// it are updated, and available or reserved; nil if there is none.
func (s *SubsetPlan) nextBehindReserved(observed *adapters.Observed, now time.Time) *adapters.Replica {
	above := observed.Replicas
	for i := range slices.Backward(observed.Pods) {
		r := &observed.Pods[i]
		available, _ := r.Available(observed.MinReadySeconds, now)
		switch {
		case r.Position < 0 || r.Position >= observed.Replicas:
		case r.Position != above-1 || r.Position < observed.Partition || !available && !s.IsReserved(r):
			return nil
		case r.Hash != observed.UpdateHash:
			return r
		default:
			above = r.Position
		}
	}
	return nil
}
