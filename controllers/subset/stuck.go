// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"slices"
	"time"

	"github.com/unitedworkloads/united/adapters"
)

// Stuck gives the replicas to delete under Manual, and when time alone makes it
// another list; zero if it does not. The child's template must be the update revision.
//
// Broken replicas are deleted that are released and not on the update revision, for a
// StatefulSet with OrderedReady waits for such a replica forever; and broken ones that
// are protected but of a revision that nobody asks for: they come back on the protected
// one. proven tells that this is the update revision too. From a child that works in
// order at most one is given, the lowest, and only when all below it are ready: one that
// is deleted above an unready one is not made again.
//
// What is merely unready is left alone. One replica that is available is given where the
// user has released it and the StatefulSet would not replace it (see barred).
func Stuck(o *adapters.Observed, t adapters.Terms, proven bool) (stuck []adapters.Replica, wake time.Time) {
	asked := o.WantedHashes(proven, ProtectedHash(o))
	if asked == nil {
		return nil, time.Time{} // what a deleted replica comes back on is not known
	}
	for i := range o.Pods {
		r := &o.Pods[i]
		broken, at := t.Broken(r, asked)
		if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
		if broken && o.Replaceable(r, o.Partition, asked) && (!o.Ordered || r == o.FirstUnready()) {
			stuck = append(stuck, *r)
		}
	}
	if r := barred(o, t); r != nil && len(stuck) == 0 {
		stuck = append(stuck, *r)
	}
	return stuck, wake
}

// barred is the released replica that a StatefulSet up to Kubernetes 1.36 replaces next,
// and a later one does not since a protected replica is unavailable: from 1.37 on every
// unavailable replica counts against its maxUnavailable. nil if there is none. Children
// that work in order are the same on both: they move nothing while one is unavailable.
func barred(o *adapters.Observed, t adapters.Terms) *adapters.Replica {
	if o.Ordered || o.Traits.Paced {
		return nil // how many it takes at a time is for its template to say
	}
	var next *adapters.Replica
	available := int32(0) // below the partition
	above := o.Replicas
	for i := range slices.Backward(o.Pods) {
		r := &o.Pods[i]
		well, _ := r.Available(o.MinReadySeconds, t.Now)
		switch {
		case r.Position < 0 || r.Position >= o.Replicas:
		case r.Position < o.Partition:
			if well {
				available++
			}
		case r.Position != above-1 || !well:
			return nil // it is on its way, or its controller takes it by itself
		default:
			above = r.Position
			if next == nil && r.Hash != o.UpdateHash {
				next = r
			}
		}
	}
	if above > o.Partition || available >= min(o.Partition, o.Replicas) {
		return nil
	}
	return next
}
