// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Allocate decides how many replicas each subset gets, and which subsets are capped.
func Allocate(in *Input, p *Plan) {
	if in.Parent.Spec.Topology.Colocation != nil {
		allocateGroups(in, p)
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
			Last:   in.LastAllotted(s.Name), Observed: in.Observed(s.Name), Unknown: in.Unreadable[s.Name] != nil,
		}
		if was := world.SubsetStatus(&in.Parent.Status, s.Name); was != nil {
			states[i].Cap = was.Cap
		}
	}
	adapted := allocation.Adapt(spec.Replicas(in.Parent), states, spec.SchedulingRules(in.Parent), in.Now)
	p.Allocation, p.caps, p.reserved = adapted.Result, adapted.Caps, adapted.Reserved
	p.wakeAt(adapted.Wake)
}
