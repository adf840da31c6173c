// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// reserving is one run of Adapt that keeps the replicas of capped subsets that have no node.
//
// The total is filled in as Fill does, where a capped subset has room for the replicas with a node alone:
// these are the replicas that count (effective). Beside them a capped subset keeps those without one, as far as
// it would be given them if it were not capped. And as long as something that counts has yet to
// become available, what it replaces stays: the end of the list goes first.
type reserving struct {
	adapting
	caps      []*v1alpha1.SubsetCap
	effective []int32
	now       time.Time
}

// reserve gives what each subset gets, and how many of that have no node, and do not count.
func (a *adapting) reserve(caps []*v1alpha1.SubsetCap, now time.Time) (replicas, reserved []int32) {
	r := reserving{adapting: *a, caps: caps, now: now}
	r.effective = r.fillExcept(-1)
	replicas, reserved = make([]int32, len(caps)), make([]int32, len(caps))
	for i, limit := range caps {
		replicas[i] = r.effective[i]
		if limit != nil {
			wished := min(r.fillExcept(i)[i], a.subsets[i].Last)
			replicas[i] = max(replicas[i], wished, r.granted(i))
		}
		reserved[i] = replicas[i] - r.effective[i]
	}
	r.keepSubstitutes(replicas)
	for i, limit := range caps {
		if limit != nil {
			// A replica that stays may be above one without a node, which stays for it.
			reserved[i] = max(reserved[i], min(replicas[i]-r.effective[i], a.subsets[i].waiting(replicas[i])))
		}
	}
	return replicas, reserved
}

// granted is the minimum of a subset, as far as the total goes.
func (r *reserving) granted(i int) int32 {
	left := r.total
	for _, b := range r.bounds[:i] {
		left -= min(left, b.min)
	}
	return min(left, r.bounds[i].min)
}

// fillExcept fills the total in, as if one subset, if any, were not capped.
func (r *reserving) fillExcept(uncapped int) []int32 {
	a := adapting{subsets: r.subsets, filling: filling{total: r.total, bounds: r.bounds, replicas: make([]int32, len(r.bounds))}}
	for i, b := range r.bounds {
		most := b.max
		if i != uncapped {
			most = min(most, r.room(i))
		}
		a.most = append(a.most, most)
		a.replicas[i] = min(r.granted(i), most)
	}
	a.grow(a.left())
	return a.replicas
}

// room is how many replicas a subset takes that count. One of which the scheduler has yet to be believed
// that a replica has no node gets no substitutes for others.
func (r *reserving) room(i int) int32 {
	s := &r.subsets[i]
	switch {
	case r.caps[i] != nil:
		return r.caps[i].Replicas
	case s.longestUnschedulable() == nil:
		return noMaximum
	}
	for _, limit := range r.caps {
		if limit != nil {
			return max(s.Last, r.granted(i))
		}
	}
	return noMaximum
}

// keepSubstitutes lets replicas stay that are not asked for any more, as many as those that are have yet to
// become available. Those without a node are of no use.
func (r *reserving) keepSubstitutes(replicas []int32) {
	outstanding := int32(0)
	for i := range r.subsets {
		outstanding += max(0, r.effective[i]-r.subsets[i].served(replicas[i], r.now))
	}
	for i := range r.subsets {
		s := &r.subsets[i]
		kept := s.Last - s.top(s.Last, unschedulable, true)
		if extra := min(outstanding, kept-replicas[i]); extra > 0 {
			replicas[i] += extra
			outstanding -= extra
		}
	}
}

// served is how many of so many replicas are available, or were ready before: that one is not ready for a moment
// makes no difference.
func (s *State) served(of int32, now time.Time) int32 {
	if s.Unknown {
		return of
	}
	served := int32(0)
	for _, r := range s.replicas() {
		if s.numbered() && r.Position >= of || r.Terminating || !r.Placed {
			continue
		}
		if available, _ := r.Available(s.Observed.MinReadySeconds, now); available || !r.Ready && !r.NeverReady {
			served++
		}
	}
	return min(served, of)
}

// serving is how many of the replicas that a capped subset was given count, and that was so many before. It falls by
// those that the scheduler calls unschedulable, and rises by those that have a node. One that is missing for a moment
// changes nothing.
func (s *State) serving(before int32) int32 {
	return max(s.withNode(), min(before, s.Last-s.waiting(s.Last)))
}

// waiting is how many of so many replicas the scheduler calls unschedulable.
func (s *State) waiting(of int32) int32 {
	waiting := int32(0)
	for _, r := range s.replicas() {
		if unschedulable(r) && (!s.numbered() || r.Position < of) {
			waiting++
		}
	}
	return waiting
}

// withNode is how many replicas that the subset was given have a node.
func (s *State) withNode() int32 {
	if s.Unknown {
		return s.Last
	}
	count := int32(0)
	for _, r := range s.replicas() {
		if r.Placed && !r.Terminating && (!s.numbered() || r.Position < s.Last) {
			count++
		}
	}
	return min(count, s.Last)
}
