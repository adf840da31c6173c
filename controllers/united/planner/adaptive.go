// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Allocate decides how many replicas each subset gets, and which subsets are capped.
func (in *Input) Allocate(p *Plan) {
	if in.Parent.Spec.Topology.Colocation != nil {
		in.allocateGroups(p)
		return
	}
	subsets := in.Spec.Bounds()
	if !spec.Adaptive(in.Parent) {
		p.Allocation = allocation.Split(spec.Replicas(in.Parent), subsets)
		p.caps, p.reserved = make([]*v1alpha1.SubsetCap, len(subsets)), make([]int32, len(subsets))
		return
	}
	states := make([]allocation.State, len(subsets))
	for i := range subsets {
		s := &subsets[i]
		states[i] = allocation.State{
			Bounds: allocation.Bounds{Min: s.MinReplicas, Max: s.MaxReplicas},
			Last:   in.lastAllotted(s.Name), Observed: in.Observed(s.Name), Unknown: in.Unreadable[s.Name] != nil,
		}
		if was := SubsetStatus(&in.Parent.Status, s.Name); was != nil {
			states[i].Cap = was.Cap
		}
	}
	adapted := allocation.Adapt(spec.Replicas(in.Parent), states, spec.SchedulingRules(in.Parent), in.Now)
	p.Allocation, p.caps, p.reserved = adapted.Result, adapted.Caps, adapted.Reserved
	p.wakeAt(adapted.Wake)
}

// lastAllotted returns how many replicas a subset was given last, from the status, otherwise from its child. The
// status does not have the number for a subset that was being removed and is back in the spec.
func (in *Input) lastAllotted(name string) int32 {
	if was := SubsetStatus(&in.Parent.Status, name); was != nil && was.UpdateRevision != "" {
		return was.DesiredReplicas
	}
	if observed := in.Observed(name); observed != nil {
		return observed.Replicas
	}
	return 0
}
