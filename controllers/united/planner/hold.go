// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Hold returns the step of a subset in the form in which it should be carried out after the results of those
// before it in Order. If it removes fewer replicas than the plan, Hold also returns why; otherwise "".
//
// It keeps replicas that others were going to replace. If the child of a subset is refused, the subset cannot
// grow, and the scale-downs of the same pass would make room for replicas that do not come. So the children
// together are not asked for fewer replicas than the parent has. This does not affect a scale-down of the parent.
func (p *Plan) Hold(in *Input, s *SubsetPlan, results Results) (step subset.Step, why string) {
	observed := in.Observed(s.Name)
	if observed == nil || !shrinks(s.Step.Action) || s.Step.Child.Replicas >= observed.Replicas {
		return s.Step, ""
	}
	refused := p.firstNotGrown(in, results)
	if refused == "" {
		return s.Step, ""
	}
	spare := max(0, in.currentReplicas(results)-int64(spec.Replicas(in.Parent)))
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

// firstNotGrown returns the name of the first subset that could not grow in this pass; "" if there is none.
func (p *Plan) firstNotGrown(in *Input, results Results) string {
	for _, s := range p.Order(in) {
		if r := results[s.Name]; !s.Removed && r != nil && r.Refused() && in.replicas(s.Name, r) < s.Decision.Replicas {
			return s.Name
		}
	}
	return ""
}

// currentReplicas returns how many replicas the children are asked for now.
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
			living += int64(in.replicas(name, r)) // created in this pass
		}
	}
	return living
}

// replicas returns how many replicas the child of a subset is asked for after r, which is nil if nothing has been
// tried yet; 0 without a child. For an unreadable child, it is at most the number that the child was last known to
// have, so that nothing is removed in exchange for replicas that may not exist.
func (in *Input) replicas(name string, r *Result) int32 {
	if in.Unreadable[name] != nil {
		was := in.LastKnown(name)
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

// keepReplicas returns a step that scales a child down, but keeps the given number of replicas. The replicas that
// it keeps do not move: the partition does not fall, and protects all of them if the step has another template. It
// does not rise over released replicas: they are removed, or stay as they are.
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
