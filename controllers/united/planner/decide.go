// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// decide is the only place that decides on the goal for each child: by the ledger over all subsets, or by what the
// user asks for in each.
func decide(in *Input, p *Plan) {
	defer unbound(in, p)
	for _, s := range p.Subsets {
		if !s.Removed {
			s.Floor = floorOf(in, p, s)
		}
	}
	if in.Coordinates() && p.Initialized {
		coordinate(in, p)
		for _, s := range p.Subsets {
			s.recordAsked(in, coordination.DesiredPartition{})
		}
		return
	}
	for _, s := range p.Subsets {
		if !s.Removed {
			s.Decision = coordination.Decision{Replicas: s.Desired, DesiredPartition: desiredPartition(in, p, s, s.Floor)}
			s.recordAsked(in, s.Floor)
			s.takeTurns(in, p)
			if in.Coordinates() && in.Whole() {
				s.Decision.Pace = coordination.RestingPace(s.Observed)
			}
		}
	}
}

// unbound lets children with a bound of their own replace at once what the ledger releases. Their bound would
// prevent that while others of their replicas are unavailable.
func unbound(in *Input, p *Plan) {
	if !in.Coordinates() || !in.Traits().Paced {
		return
	}
	for _, s := range p.Subsets {
		s.Decision.Pace = adapters.Unbounded()
	}
}

// desiredPartition returns the partition of a subset that is not decided by a ledger. spec.Read has rejected what
// Manual cannot parse; if it had not, Manual would hold everything.
func desiredPartition(in *Input, p *Plan, s *SubsetPlan, asked coordination.DesiredPartition) coordination.DesiredPartition {
	switch {
	case s.Observed == nil || p.Initialized:
	case !in.Paused() && s.Revision != in.Update.Name:
		// A corrected template must reach every replica. Without a partition the child knows only one revision, so
		// it does not have to distinguish any.
		return openPartition(0)
	case s.FirstRolloutPending:
		return openPartition(*s.Recorded)
	}
	switch undoes := s.undoes(in, p); {
	case undoes && in.Paused():
		asked.Reason = coordination.GoingBack(in.Update.Name).Reason
	case undoes:
		return coordination.GoingBack(in.Update.Name)
	case !in.Paused():
		return asked
	}
	return coordination.FreezeChild(asked, s.Observed, ptr.Deref(s.Recorded, 0), s.Desired, in.pause())
}

// floorOf returns the partition that the user asks for, regardless of what a coordinated rollout does now.
func floorOf(in *Input, p *Plan, s *SubsetPlan) coordination.DesiredPartition {
	strategy, update := &in.Parent.Spec.UpdateStrategy, ""
	if p.Initialized {
		update = in.Update.Name
	}
	asked, _ := coordination.Manual(strategy.ManualUpdate, s.Name, s.Desired, update)
	if in.Coordinates() {
		asked = coordination.Floor(strategy.RollingUpdate, s.Desired)
	} else {
		was, samePods := s.lastAsked(in, asked)
		asked = asked.Scaled(was, samePods, s.Desired, s.runsUpdate(in))
	}
	if in.Counts() && s.Proven {
		return asked.Proven(s.Desired)
	}
	return asked
}

// openPartition returns the partition of a child of which no replica was ever ready, and whose template was
// corrected. It stays open until the child's controller has forgotten the previous revision, which never worked.
// Freezing it would hold replicas on that revision.
func openPartition(partition int32) coordination.DesiredPartition {
	return coordination.DesiredPartition{Partition: partition, Reason: "no replica has become ready yet, so nothing is protected"}
}
