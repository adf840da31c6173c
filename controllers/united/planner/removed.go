// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
)

// planRemoved adds the subsets that the spec does not have any more. Their children are
// deleted at once, unless a coordinated rollout takes replicas from them first.
func (in *Input) planRemoved(p *Plan) {
	plan := func(name string, step subset.Step) {
		p.Subsets = append(p.Subsets, &SubsetPlan{
			SubsetSpec: SubsetSpec{Subset: &v1alpha1.Subset{Name: name}}, Removed: true,
			Workload: adapters.ChildName(in.Parent.Name, name), Step: step,
		})
	}
	for _, name := range in.childrenToRemove() {
		plan(name, subset.Step{Action: subset.ActionRemove})
	}
	for _, name := range in.subsetsWithoutChild() {
		plan(name, subset.Step{Action: subset.ActionSeek, Child: in.ChildIdentity(name)})
	}
	for _, name := range slices.Sorted(maps.Keys(in.Unreadable)) {
		if !in.Spec.has(name) {
			plan(name, subset.Step{Action: subset.ActionHalt})
		}
	}
	for _, name := range in.terminatingRemoved() {
		plan(name, subset.Step{Action: subset.ActionWait, Reason: subset.DeletionReason(in.Children[name].Object)})
	}
}

// childrenToRemove are the children that the spec does not ask for any more.
func (in *Input) childrenToRemove() []string {
	return in.childrenNotInSpec(func(c *Child) bool {
		return !subset.WrittenLater(c.Observed, in.Parent.Generation) && c.Object.GetDeletionTimestamp() == nil
	})
}

// terminatingRemoved are the children of subsets that are gone, which were deleted and are still
// there: something holds a finalizer.
func (in *Input) terminatingRemoved() []string {
	return in.childrenNotInSpec(func(c *Child) bool { return c.Object.GetDeletionTimestamp() != nil })
}

// subsetsWithoutChild are the subsets that neither the spec has nor a child, and that the status still
// tells of.
func (in *Input) subsetsWithoutChild() []string {
	var names []string
	for _, s := range in.Parent.Status.Subsets {
		if in.Children[s.Name] == nil && in.Unreadable[s.Name] == nil && !in.Spec.has(s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// childrenNotInSpec are those of the children whose subset the spec does not have, by name.
func (in *Input) childrenNotInSpec(of func(*Child) bool) []string {
	var names []string
	for name, c := range in.Children {
		if of(c) && !in.Spec.has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
