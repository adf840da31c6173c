// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"slices"
	"time"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// Stuck returns the replicas to delete under Manual, and when the passage of time alone changes that list; zero if it
// does not. The child's template must be the update revision.
//
// It returns broken replicas that are released and not on the update revision, because a StatefulSet with OrderedReady
// waits for such a replica forever. It also returns broken ones that are protected, but have a revision that is not
// wanted: they come back on the protected one. For an ordered child it returns at most one, the lowest, and only if all below it are ready, because a replica that
// is deleted above an unready one is not created again.
//
// Replicas that are only unready are left alone. One available replica is returned if the user has released it and the
// StatefulSet would not replace it (see barred).
func Stuck(f *known.Facts, t adapters.Terms) (stuck []adapters.Replica, wake time.Time) {
	o, wanted := f.Observed, f.Wanted()
	if wanted == nil {
		return nil, time.Time{} // it is not known on which revision a deleted replica would come back
	}
	states := f.States(t)
	for i := range states {
		r := &states[i]
		if at := r.BrokenAt; !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
		if r.Broken && o.Replaceable(r.Replica, o.Partition, wanted) && (!o.Ordered || r.Replica == o.FirstUnready()) {
			stuck = append(stuck, *r.Replica)
		}
	}
	if r := barred(o, states); r != nil && len(stuck) == 0 {
		stuck = append(stuck, *r)
	}
	return stuck, wake
}

// barred returns the released replica that a StatefulSet of Kubernetes 1.36 or earlier replaces next, and that a later
// one does not replace because a protected replica is unavailable: since 1.37, every unavailable replica counts towards
// maxUnavailable. It is nil if there is none. Ordered children behave the same in both versions: they do not update any
// replica while one is unavailable.
func barred(o *adapters.Observed, states []known.Replica) *adapters.Replica {
	if o.Ordered || o.Traits.Paced {
		return nil // its template decides how many replicas it updates at a time
	}
	var next *adapters.Replica
	available := int32(0) // below the partition
	above := o.Replicas
	for _, r := range slices.Backward(states) {
		switch {
		case r.Position < 0 || r.Position >= o.Replicas:
		case r.Position < o.Partition:
			if r.Available {
				available++
			}
		case r.Position != above-1 || !r.Available:
			return nil // it is being replaced, or its controller replaces it by itself
		default:
			above = r.Position
			if next == nil && !r.OnTemplate {
				next = r.Replica
			}
		}
	}
	if above > o.Partition || available >= min(o.Partition, o.Replicas) {
		return nil
	}
	return next
}
