// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// decide is the one place where it is decided what each child shall come to: by the ledger
// over all subsets, or by what the user asks for in each.
func (in *Input) decide(p *Plan) {
	defer in.unbound(p)
	if in.coordinates() && p.Initialized {
		in.coordinate(p)
		return
	}
	for _, s := range p.Subsets {
		if !s.Removed {
			s.Decision = coordination.Decision{Replicas: s.Desired, DesiredPartition: in.desiredPartition(p, s)}
			if in.coordinates() && in.whole() {
				s.Decision.Pace = coordination.RestingPace(in.observed(s.Name))
			}
		}
	}
}

// unbound lets children with a bound of their own replace at once what the ledger releases of
// them: it would keep them from that while others of their replicas are unavailable.
func (in *Input) unbound(p *Plan) {
	if !in.coordinates() || !in.traits().Paced {
		return
	}
	for _, s := range p.Subsets {
		s.Decision.Pace = adapters.Unbounded()
	}
}

// desiredPartition is that of a subset where no ledger decides. ReadSpec has refused
// what Manual cannot read; were it not so, Manual holds everything.
func (in *Input) desiredPartition(p *Plan, s *SubsetPlan) coordination.DesiredPartition {
	observed := in.observed(s.Name)
	switch {
	case observed == nil || p.Initialized:
	case !in.paused() && subset.RevisionOf(observed) != in.Update.Name:
		// A corrected template must reach every replica. Without one the child
		// knows one revision only, and there is nothing to tell apart.
		return openPartition(0)
	case subset.FirstRolloutPending(observed):
		return openPartition(subset.RecordedPartition(observed))
	}
	asked := in.floor(s)
	if !in.paused() {
		return asked
	}
	recorded := int32(0)
	if observed != nil {
		recorded = subset.RecordedPartition(observed)
	}
	return coordination.FreezeChild(asked, observed, recorded, s.Desired, in.pause())
}

// floor gives the partition that the user asks for, whatever a coordinated rollout does now.
func (in *Input) floor(s *SubsetPlan) coordination.DesiredPartition {
	strategy := &in.Parent.Spec.UpdateStrategy
	asked, _ := coordination.Manual(strategy.ManualUpdate, s.Name, s.Desired)
	if in.coordinates() {
		asked = coordination.Floor(strategy.RollingUpdate, s.Desired)
	}
	if in.counts() && in.proven(s) {
		return asked.Proven(s.Desired)
	}
	return asked
}

// proven reports whether what a subset protects makes the pods of the update revision.
func (in *Input) proven(s *SubsetPlan) bool {
	protected := revision.ByName(in.Revisions, s.Protected)
	return protected != nil && revision.SamePods(in.Update, protected, s.Name, s.overlay)
}

// coordinates reports whether the controller moves the partitions.
func (in *Input) coordinates() bool {
	return in.Parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy
}

// traits are what the kind of the children can do.
func (in *Input) traits() adapters.Traits { return in.Spec.Adapter.Traits() }

// whole reports whether a child is released as a whole.
func (in *Input) whole() bool { return in.traits().Partition == adapters.AllOrNothing }

// counts reports whether a child's controller counts its replicas, and chooses among them.
func (in *Input) counts() bool { return in.traits().Partition == adapters.ByCount }

// openPartition is the partition of a child of which no replica was ever ready, and whose
// template was corrected: open until the child's controller has forgotten the
// revision before, which never worked. Freezing it would hold replicas on that.
func openPartition(partition int32) coordination.DesiredPartition {
	return coordination.DesiredPartition{Partition: partition, Reason: "no replica has become ready yet, so nothing is protected"}
}
