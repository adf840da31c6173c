// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/unitedworkloads/united/adapters"
)

// IsReserved reports whether a replica has no node and does not count. In a subset that keeps such replicas, these
// are all replicas that the scheduler reports as unschedulable.
func (s *SubsetPlan) IsReserved(r *adapters.Replica) bool {
	return s.Reserved > 0 && r.Unschedulable != "" && !r.Terminating
}

// unreached returns the replicas that a new image would not reach, because the child's controller waits for
// replicas without a node: these themselves and, if all above it are updated, the next one with a node. stuck are
// the replicas that are deleted anyway.
func (s *SubsetPlan) unreached(in *Input, stuck []adapters.Replica) (unreached []adapters.Replica) {
	observed, wanted := s.Observed, s.Wanted()
	if s.Reserved == 0 || wanted == nil {
		return nil
	}
	for i := range observed.Pods {
		r := &observed.Pods[i]
		known := slices.ContainsFunc(stuck, func(k adapters.Replica) bool { return k.UID == r.UID })
		if s.IsReserved(r) && !known && observed.Replaceable(r, observed.Partition, wanted) {
			unreached = append(unreached, *r)
		}
	}
	if next := s.nextBehindReserved(in.Terms()); next != nil && len(unreached)+len(stuck) == 0 {
		unreached = append(unreached, *next)
	}
	return unreached
}

// nextBehindReserved returns the highest released replica that is not updated, if it is available, and all above
// it are updated, and available or reserved; nil if there is none.
func (s *SubsetPlan) nextBehindReserved(t adapters.Terms) *adapters.Replica {
	above := s.Observed.Replicas
	for _, r := range slices.Backward(s.States(t)) {
		switch {
		case r.Position < 0 || r.Position >= s.Observed.Replicas:
		case r.Position != above-1 || r.Position < s.Observed.Partition || !r.Available && !s.IsReserved(r.Replica):
			return nil
		case !r.OnTemplate:
			return r.Replica
		default:
			above = r.Position
		}
	}
	return nil
}
