// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/unitedworkloads/united/controllers/subset"
)

// Hold gives the step of a subset as it is to be carried out after what became of those
// before it in Order, and why it takes less away than the plan, "" if it does not.
//
// It keeps replicas that others were to replace. A subset whose child is refused cannot
// grow, and the scale-downs of the same pass would pay for what does not come: so the
// children are not asked for fewer replicas than the parent has, all together. A
// scale-down of the parent is not affected.
func (p *Plan) Hold(in *Input, s *SubsetPlan, results Results) (step subset.Step, why string) {
	observed := in.observed(s.Name)
	if observed == nil || !shrinks(s.Step.Action) || s.Step.Child.Replicas >= observed.Replicas {
		return s.Step, ""
	}
	refused := p.firstNotGrown(in, results)
	if refused == "" {
		return s.Step, ""
	}
	spare := max(0, in.currentReplicas(results)-int64(replicasOf(in.Parent)))
	keep := observed.Replicas - int32(min(spare, int64(observed.Replicas)))
	if keep <= s.Step.Child.Replicas {
		return s.Step, ""
	}
	step = s.Step
	switch step.Action {
	case subset.ActionRemove:
		step, keep = subset.Step{Action: subset.ActionWait}, observed.Replicas
	case subset.ActionShrink:
		step.Child.Replicas = keep
	default:
		step = keepReplicas(step, keep, subset.RecordedPartition(observed), subset.RevisionOf(observed))
	}
	return step, fmt.Sprintf("keeping %d replicas until %s can grow", keep, refused)
}

// shrinks reports whether an action may take replicas from a child.
func shrinks(a subset.Action) bool {
	return a == subset.ActionApply || a == subset.ActionShrink || a == subset.ActionRemove
}

// firstNotGrown names the first subset that could not grow in this pass; "" if none.
func (p *Plan) firstNotGrown(in *Input, results Results) string {
	for _, s := range p.Order(in) {
		if r := results[s.Name]; !s.Removed && r != nil && r.Refused() && in.replicas(s.Name, r) < s.Decision.Replicas {
			return s.Name
		}
	}
	return ""
}

// currentReplicas is how many replicas the children are asked for now.
func (in *Input) currentReplicas(results Results) int64 {
	living := int64(0)
	for name := range in.Children {
		living += int64(in.replicas(name, results[name]))
	}
	for name := range in.Unreadable {
		living += int64(in.replicas(name, nil))
	}
	for name, r := range results {
		if in.Children[name] == nil && in.Unreadable[name] == nil {
			living += int64(in.replicas(name, r)) // made in this pass
		}
	}
	return living
}

// replicas are what the child of a subset is asked for after r, nil when nothing was tried
// yet; 0 without one. Of one that cannot be read it is no more than what it was last known
// to have: nothing goes for what may not be there.
func (in *Input) replicas(name string, r *Result) int32 {
	if in.Unreadable[name] != nil {
		was := in.lastKnown(name)
		return min(was.Replicas, was.DesiredReplicas)
	}
	c := in.Children[name]
	if r != nil && r.Child != nil {
		c = r.Child
	}
	if c == nil || r != nil && r.Deleted {
		return 0
	}
	return c.Observed.Replicas
}

// keepReplicas is a step that scales a child down, but keeps so many replicas. Those
// that it keeps do not move: the partition does not fall, and protects all of them when
// another template comes. It does not rise over those that were released: they go, or stay
// what they are.
func keepReplicas(step subset.Step, keep, partition int32, revision string) subset.Step {
	c := &step.Child
	if c.Revision != revision {
		c.Partition = max(c.Partition, keep)
	} else {
		c.Partition = max(c.Partition, partition)
	}
	c.Replicas = keep
	return step
}
