// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// planRemoved adds the subsets that the spec no longer has. Their children are deleted at once, unless a
// coordinated rollout takes replicas from them first.
func planRemoved(in *Input, p *Plan) {
	plan := func(name string, step subset.Step) {
		s := &SubsetPlan{
			Subset: spec.Subset{Subset: &v1alpha1.Subset{Name: name}}, Facts: subset.FactsOf(in.Observed(name)), Removed: true,
			Workload: adapters.ChildName(in.Parent.Name, name), Step: step,
		}
		if child := in.Unreadable[name]; child != nil {
			s.Unreadable = child.Why
		}
		p.Subsets = append(p.Subsets, s)
	}
	remove := subset.Step{Action: subset.ActionRemove}
	if in.LostSubsets() {
		remove = subset.Step{Action: subset.ActionWait, Reason: "keeping its replicas, because spec.topology.subsets is empty"}
	}
	terminating := func(c *world.Child) bool { return c.Object.GetDeletionTimestamp() != nil }
	for _, name := range in.ChildrenNotInSpec(func(c *world.Child) bool {
		return !subset.WrittenLater(c.Observed, in.Parent.Generation) && !terminating(c)
	}) {
		plan(name, remove)
	}
	for _, name := range in.subsetsWithoutChild() {
		plan(name, subset.Step{Action: subset.ActionSeek, Child: in.ChildIdentity(name)})
	}
	for _, name := range slices.Sorted(maps.Keys(in.Unreadable)) {
		if !in.Spec.Has(name) {
			plan(name, subset.Step{Action: subset.ActionHalt})
		}
	}
	for _, name := range in.ChildrenNotInSpec(terminating) { // it still exists because of a finalizer
		plan(name, subset.Step{Action: subset.ActionWait, Reason: subset.DeletionReason(in.Children[name].Object)})
	}
}

// subsetsWithoutChild returns the subsets that the status still has, but neither the spec nor a child.
func (in *Input) subsetsWithoutChild() []string {
	var names []string
	for _, s := range in.Parent.Status.Subsets {
		if in.Children[s.Name] == nil && in.Unreadable[s.Name] == nil && !in.Spec.Has(s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}
