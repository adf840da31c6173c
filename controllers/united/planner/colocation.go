// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// groupedGrowth is how far the groups of a parent have come.
type groupedGrowth struct {
	// Groups is how many groups are created now, total how many there are in the end.
	Groups, Total int32
	// WaitsFor is what the next group waits for.
	WaitsFor string
}

// allocateGroups decides how many replicas each subset gets if some of them are members of groups. With order
// Sequential, the replicas of the next group are allotted when all pods of the previous one are ready.
func allocateGroups(in *Input, p *Plan) {
	subsets, c := in.Parent.Spec.Topology.Subsets, in.Parent.Spec.Topology.Colocation
	p.Allocation = allocation.Grouped(spec.Replicas(in.Parent), subsets, c.Ratios)
	p.caps, p.reserved = make([]*v1alpha1.SubsetCap, len(subsets)), make([]int32, len(subsets))
	if c.Order == v1alpha1.ParallelGroups {
		return
	}
	wanted, ratios, has := p.Allocation.Replicas, allocation.RatiosOf(subsets, c.Ratios), make([]int32, len(subsets))
	for i := range subsets {
		has[i] = begun(in, subsets[i].Name)
	}
	waitsFor := ""
	limited, groups := allocation.Sequential(wanted, has, ratios, func(group int32) bool {
		waitsFor = groupWaitsFor(in, group, wanted, ratios)
		return waitsFor == ""
	})
	if total := allocation.Groups(wanted, ratios); groups < total {
		p.Growth = &groupedGrowth{Groups: groups, Total: total, WaitsFor: waitsFor}
	}
	p.Allocation.Replicas = limited
}

// begun returns how many replicas a subset has, or was given. Trap: a status that could not be written in time says less
// than the child has, and replicas that exist must not be removed because of that.
func begun(in *Input, name string) int32 {
	begun := in.LastAllotted(name)
	if observed := in.Observed(name); observed != nil {
		begun = max(begun, observed.Replicas)
	}
	return begun
}

// groupWaitsFor names a replica of a group that is not ready; "" if all are.
func groupWaitsFor(in *Input, group int32, wanted, ratios []int32) string {
	for i, ratio := range ratios {
		name := in.Parent.Spec.Topology.Subsets[i].Name
		for position := int64(group) * int64(ratio); position < min(int64(group+1)*int64(ratio), int64(wanted[i])); position++ {
			if child := in.Unreadable[name]; child != nil {
				return name + " (" + child.Why + ")"
			}
			if why := whyNotReady(in.Observed(name), adapters.ChildName(in.Parent.Name, name), int32(position)); why != "" {
				return why
			}
		}
	}
	return ""
}

// whyNotReady describes the replica at a position of the named child; "" if it is ready. Trap: one that the child is not
// asked for may still be ready, because the child has yet to delete it.
func whyNotReady(observed *adapters.Observed, child string, position int32) string {
	if observed != nil && position < observed.Replicas {
		for i := range observed.Pods {
			if r := &observed.Pods[i]; r.Position == position {
				if r.Serves() {
					return ""
				}
				return r.Describe()
			}
		}
	}
	return observed.DescribeMissing(child, position)
}
