// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Write is the next write of a plan.
type Write struct {
	*SubsetPlan
	// Step is the step of the plan in the form in which it should be carried out. If it removes fewer replicas than the
	// plan, Why says why; otherwise that is "".
	Step subset.Step
	Why  string
	// Deferred: it is left to the next pass, which comes soon. Yielded: it is left to another pass, because this one has
	// taken its time.
	Deferred, Yielded bool
}

// Next returns the next write of the plan after the results so far; nil if all subsets have a result. Whoever carries out
// the plan adds the result of each write, and asks again.
func (p *Plan) Next(results Results) *Write {
	yielded := false
	for _, s := range p.order {
		if r := results[s.Name]; r != nil {
			yielded = yielded || r.Yielded
			continue
		}
		step, why := p.hold(s, results)
		return &Write{SubsetPlan: s, Step: step, Why: why, Deferred: s.deferred, Yielded: yielded}
	}
	return nil
}

// LeftOut returns the result of a write that is not carried out in this pass; nil if it is.
func (w *Write) LeftOut() *Result {
	if w.Deferred || w.Yielded {
		return &Result{Stale: true, Yielded: w.Yielded} // as if it had been rejected
	}
	return nil
}

// Waits reports whether something of the plan waits for a replica, or for the controller of a child, so that an event of
// these may allow the next write.
func (p *Plan) Waits(results Results) bool {
	if p.Growth != nil || p.Rollout != nil && p.Rollout.State != nil && p.Rollout.State.Phase != v1alpha1.RolloutDone {
		return true
	}
	return slices.ContainsFunc(p.Subsets, func(s *SubsetPlan) bool {
		r := results.Of(s.Name)
		alone := s.Step.Action == subset.ActionCreate || s.Step.Action == subset.ActionApply && s.Step.Reason == ""
		return !alone || len(s.Deletes) > 0 || s.Decision.WaitReason != "" || r.Refused() || r.WaitReason != ""
	})
}

// Unreached returns the places of the subsets that were not reached, in a queue that begins with 1.
func (p *Plan) Unreached(results Results) map[string]int {
	unreached := map[string]int{}
	for _, s := range p.order {
		if results.Of(s.Name).Yielded {
			unreached[s.Name] = len(unreached) + 1
		}
	}
	return unreached
}

// ordered returns the subsets in the order in which their children are written: creates and scale-ups first, then
// those that keep their replicas, then scale-downs, so that no replica is removed before another has come. A
// partition that moves does not wait until all other children have been checked. Subsets that the spec no longer
// has come last.
//
// The subsets that the last pass did not reach come before all others except scale-downs, so that no subset always waits
// behind others that take long, and fail: a hundred creates that are rejected after a second each would otherwise take
// every pass. Before these come a partition that rises within a revision, and changes of children whose last write did
// not fail: as there is only one write for each, they keep the others waiting no more than once.
func ordered(in *Input, subsets []*SubsetPlan) []*SubsetPlan {
	turn := func(s *SubsetPlan) int {
		rank := orderOf(s)
		switch {
		case rank >= shrinking || len(in.Unreached) == 0:
			return rank
		case rank < rests && s.Observed != nil && (raises(s) || !mayFail(in, s)):
			return changes
		case in.Unreached[s.Name] > 0:
			return unreached
		}
		return rank
	}
	place := func(s *SubsetPlan) int { return cmp.Or(in.Unreached[s.Name], math.MaxInt) }
	ordered := slices.Clone(subsets)
	slices.SortStableFunc(ordered, func(a, b *SubsetPlan) int {
		return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(place(a), place(b)))
	})
	return ordered
}

// raises reports whether the partition of a child rises within its revision.
func raises(s *SubsetPlan) bool {
	return orderOf(s) == moves && s.Step.Child.Partition > s.Observed.Partition && s.Step.Child.Revision == s.Revision
}

// mayFail reports whether the last write of a child failed, as far as the status knows.
func mayFail(in *Input, s *SubsetPlan) bool {
	last := world.SubsetStatus(&in.Parent.Status, s.Name)
	return last == nil || last.Phase == v1alpha1.PhasePending || last.Phase == v1alpha1.PhaseStalled
}

// The places of subsets in an order. The first two are for a pass after one that did not reach all of them.
const (
	changes = iota
	unreached
	grows
	moves
	rests
	shrinking
	removed
)

func orderOf(s *SubsetPlan) int {
	observed := s.Observed
	switch {
	case s.Removed:
		return removed
	case observed == nil || s.Decision.Replicas > observed.Replicas:
		return grows
	case s.Decision.Replicas < observed.Replicas:
		return shrinking
	case s.Step.Action == subset.ActionApply && s.Step.Child.Partition != observed.Partition:
		return moves
	}
	return rests
}

// hold returns the step of a subset in the form in which it should be carried out after the results of those
// before it. If it removes fewer replicas than the plan, hold also returns why; otherwise "".
//
// It keeps replicas that others were going to replace. If the child of a subset is refused, the subset cannot
// grow, and the scale-downs of the same pass would make room for replicas that do not come. So the children
// together are not asked for fewer replicas than the parent has. This does not affect a scale-down of the parent.
func (p *Plan) hold(s *SubsetPlan, results Results) (step subset.Step, why string) {
	in, observed := p.in, s.Observed
	if observed == nil || !shrinks(s.Step.Action) || s.Step.Child.Replicas >= observed.Replicas {
		return s.Step, ""
	}
	refused := p.firstNotGrown(results)
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
		step = keepReplicas(step, keep, *s.Recorded, s.Revision)
	}
	return step, fmt.Sprintf("keeping %d replicas until %s can grow", keep, refused)
}

// shrinks reports whether an action may take replicas from a child.
func shrinks(a subset.Action) bool {
	return a == subset.ActionApply || a == subset.ActionShrink || a == subset.ActionRemove
}

// firstNotGrown returns the name of the first subset that could not grow in this pass; "" if there is none.
func (p *Plan) firstNotGrown(results Results) string {
	for _, s := range p.order {
		if r := results[s.Name]; !s.Removed && r != nil && r.Refused() && p.in.replicas(s.Name, r) < s.Decision.Replicas {
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
