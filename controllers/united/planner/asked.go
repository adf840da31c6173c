// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// lastAsked returns what was last asked of a subset, nil if it is new, and whether the update revision makes the same pods
// as then. Without a record, what the child has counts as unchanged.
func (s *SubsetPlan) lastAsked(in *Input, now coordination.DesiredPartition) (was *known.Asked, samePods bool) {
	switch {
	case s.Asked == nil && s.Observed != nil:
		return &known.Asked{Value: now.ValueText(), Partition: *s.Recorded, Replicas: s.Observed.Replicas}, true
	case s.Asked == nil:
		return nil, false
	case s.Asked.Update == in.Update.Name:
		return s.Asked, true
	}
	then := revision.ByName(in.Revisions, s.Asked.Update)
	return s.Asked, then != nil && revision.SamePods(in.Update, then, s.Name, s.Overlay)
}

// recordAsked records what is asked of the subset now. What is only pushed, because the rollout is paused or goes back, does
// not count.
func (s *SubsetPlan) recordAsked(in *Input, now coordination.DesiredPartition) {
	if in.Coordinates() {
		s.askedNow = known.Asked{Value: known.Coordinated}
		return
	}
	s.askedNow = known.Asked{Value: now.ValueText(), Update: in.Update.Name, Partition: now.Partition, Replicas: s.Desired}
}

// runsUpdate returns whether a replica runs the update revision, by position. Of a kind that counts its replicas, those that
// do not run it come first. One that is going runs nothing: it may have come up unreleased.
func (s *SubsetPlan) runsUpdate(in *Input) func(position int32) bool {
	updated := map[int32]bool{}
	for _, r := range s.States(in.Terms()) {
		if s.OnUpdate && r.OnTemplate && r.HashChanged == "" && !r.Terminating && r.Position >= 0 && r.Position < s.Observed.Replicas {
			updated[r.Position] = true
		}
	}
	if in.Counts() && s.Observed != nil {
		return func(position int32) bool { return position >= s.Observed.Replicas-int32(len(updated)) }
	}
	return func(position int32) bool { return updated[position] }
}

// undoes reports whether a subset goes back by hand to what it protects, or to what all replicas ran last: then partitions
// protect nothing from that, until every replica runs it.
func (s *SubsetPlan) undoes(in *Input, p *Plan) bool {
	o := s.Observed
	switch {
	case in.Coordinates() || o == nil || !p.Initialized:
		return false
	case !s.Proven:
		return in.Update.Name == p.CurrentRevision
	}
	switch {
	case !s.OnUpdate && in.Traits().Protection == adapters.Withheld:
		return true // it is in the middle of the other revision
	case s.OnUpdate && !o.SpecObserved && *s.Recorded == 0:
		return true // it is not known yet whether that has ended
	case s.OnUpdate && o.SpecObserved && in.Traits().Protection == adapters.Remembered && o.CurrentHash != o.UpdateHash && o.Replicas > 0:
		return true // a protected replica would come back on the other one
	}
	return slices.ContainsFunc(o.Pods, func(r adapters.Replica) bool {
		returned := s.OnUpdate && o.SpecObserved && r.Hash == o.UpdateHash || s.ProtectedHash != "" && r.Hash == s.ProtectedHash
		known := r.Hash != "" && r.HashChanged == "" && (o.SpecObserved || s.ProtectedHash != "")
		return known && !returned && r.Position >= 0 && r.Position < o.Replicas
	})
}
