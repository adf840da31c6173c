// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// State is a subset as Adapt finds it.
type State struct {
	Bounds
	// Last is how many replicas the subset was given last.
	Last int32
	// Cap is what is on record of it; nil if it is not capped.
	Cap *v1alpha1.SubsetCap
	// Observed is its child; nil when there is none. Unknown: there is one that cannot be read.
	Observed *adapters.Observed
	Unknown  bool
}

// Rules are how long a replica must have had no node before its subset is capped, and how long the
// cap stays when there is no such replica any more. With Reserve such replicas stay, and others are made
// beside them.
type Rules struct {
	Reschedule, Retry time.Duration
	Reserve           bool
}

// nextCap gives the cap of a subset from now on, nil if it has none, and when time alone makes
// it another; zero if never.
//
// A subset is capped when the scheduler has called a replica unschedulable for longer than
// Reschedule. It stays so while any replica is unschedulable, for however long: a replica without a node that
// is replaced is a new one, and nobody has found room in between. Where such replicas are kept, it stays so until all
// have a node: all of them can be replaced at once. Then the time of Retry begins.
func (s *State) nextCap(t Rules, now time.Time) (next *v1alpha1.SubsetCap, wake time.Time) {
	r := s.longestUnschedulable()
	judged := r != nil && t.unplaceable(r, now)
	if r != nil {
		wake = s.nextVerdict(t, now)
	}
	if s.Cap == nil && !judged {
		return nil, wake
	}
	next = &v1alpha1.SubsetCap{Replicas: s.Last, SinceTime: inSeconds(now)}
	if s.Cap != nil {
		next = s.Cap.DeepCopy()
	}
	if r != nil {
		next.Message = r.Describe()
	}
	if t.Reserve {
		next.Replicas = s.serving(next.Replicas)
	} else {
		next.Replicas = s.kept(min(s.Last, next.Replicas), t, now)
	}
	if r != nil || t.Reserve && s.withNode() < s.Last {
		next.ClearedTime = nil
		return next, wake
	}
	if next.ClearedTime == nil {
		cleared := inSeconds(now)
		next.ClearedTime = &cleared
	}
	if wake = next.ClearedTime.Add(t.Retry); wake.After(now) {
		return next, wake
	}
	return nil, time.Time{}
}

func inSeconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// unplaceable reports whether the scheduler has called a replica unschedulable for too long.
func (t Rules) unplaceable(r *adapters.Replica, now time.Time) bool {
	return unschedulable(r) && !now.Before(r.UnschedulableSince.Add(t.Reschedule))
}

func unschedulable(r *adapters.Replica) bool { return r.Unschedulable != "" && !r.Terminating }

// longestUnschedulable is the replica that has had no node for longest, of those that the subset is to
// have; nil if all have one, or the scheduler has not looked.
func (s *State) longestUnschedulable() *adapters.Replica {
	var longest *adapters.Replica
	for _, r := range s.replicas() {
		if unschedulable(r) && (longest == nil || r.UnschedulableSince.Before(longest.UnschedulableSince)) {
			longest = r
		}
	}
	return longest
}

// nextVerdict is when the next replica will have had no node for too long; zero if none.
func (s *State) nextVerdict(t Rules, now time.Time) time.Time {
	var next time.Time
	for _, r := range s.replicas() {
		if at := r.UnschedulableSince.Add(t.Reschedule); unschedulable(r) && at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// replicas are those that exist of what the subset is to have: no surplus that is about to go. A child
// that does not number its replicas has no such order.
func (s *State) replicas() []*adapters.Replica {
	if s.Observed == nil {
		return nil
	}
	var list []*adapters.Replica
	for i := range s.Observed.Pods {
		r := &s.Observed.Pods[i]
		if !s.numbered() || r.Position >= 0 && r.Position < s.Observed.Replicas {
			list = append(list, r)
		}
	}
	return list
}

// numbered reports whether a child that gets fewer replicas loses those with the highest numbers. Others
// lose those first that have no node.
func (s *State) numbered() bool { return s.Observed.Traits.Partition == adapters.ByOrdinal }

// kept is how many of so many replicas a capped subset keeps: those that have a node, and those of
// which the scheduler has not said for long enough that there is none. A replica that is missing
// for a moment, or starts again, counts as kept: only the scheduler's word moves anything.
func (s *State) kept(of int32, t Rules, now time.Time) int32 {
	if s.Observed == nil {
		return of
	}
	return max(s.placed(s.Last), of-s.top(of, func(r *adapters.Replica) bool { return t.unplaceable(r, now) }, s.Observed.Ordered))
}

// below is how many replicas have had no node for too long, and are below one that has a node, so that they cannot be removed.
// In order, nothing is above one that is not ready, except for a moment.
func (s *State) below(t Rules, now time.Time) int32 {
	if s.Observed == nil || !s.numbered() || s.Observed.Ordered {
		return 0
	}
	below, top := int32(0), s.placed(s.Last)
	for _, r := range s.replicas() {
		if r.Position < top && t.unplaceable(r, now) {
			below++
		}
	}
	return below
}

// placed is how many of so many replicas must be there so that all that have a node stay: where they have
// numbers, the highest such number + 1.
func (s *State) placed(of int32) int32 {
	if s.Unknown {
		return of
	}
	placed := int32(0)
	for _, r := range s.replicas() {
		switch {
		case !r.Placed:
		case s.numbered():
			if r.Position < of {
				placed = max(placed, r.Position+1) // on its way out or not: it comes back there
			}
		case !r.Terminating:
			placed++
		}
	}
	return min(placed, of)
}

// top is how many of so many replicas are of a kind, and go before all others when there are to be fewer.
// Where they have numbers that is a run from the highest one down; gaps says whether it goes on over
// replicas that are missing, as long as there is one of the kind below.
func (s *State) top(of int32, kind func(*adapters.Replica) bool, gaps bool) int32 {
	if s.Observed == nil {
		return 0
	}
	if !s.numbered() {
		return s.count(of, kind)
	}
	lowest := of
	for _, r := range slices.Backward(s.replicas()) {
		switch {
		case r.Position >= of:
		case !kind(r), r.Position < lowest-1 && !gaps:
			return of - lowest
		default:
			lowest = r.Position
		}
	}
	return of - lowest
}

// count is top of replicas without numbers. What there is beyond so many is about to go, and goes first.
func (s *State) count(of int32, kind func(*adapters.Replica) bool) int32 {
	count, surplus := int32(0), -of
	for _, r := range s.replicas() {
		if !r.Terminating {
			surplus++
		}
		if kind(r) {
			count++
		}
	}
	return min(max(0, count-max(0, surplus)), of)
}
