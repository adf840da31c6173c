// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"slices"
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/test/worlds"
)

// mutant is a wrong controller.
type mutant struct {
	name, world string
	// rules are rules that it breaks, perhaps among others.
	rules []string
	spoil func(*planner.Plan)
	// budget, if set, replaces that of the world: with a smaller one, the walk gets deeper.
	budget worlds.Budget
}

// each makes the decision for each subset wrong.
func each(spoil func(*planner.SubsetPlan)) func(*planner.Plan) {
	return func(p *planner.Plan) {
		for _, s := range p.Subsets {
			spoil(s)
		}
	}
}

// allLike gives all subsets the version of the first child that matches.
func allLike(such func(p *planner.Plan, c *adapters.Child) bool) func(*planner.Plan) {
	return func(p *planner.Plan) {
		i := slices.IndexFunc(p.Subsets, func(s *planner.SubsetPlan) bool {
			return s.Step.Action == subset.ActionApply && such(p, &s.Step.Child)
		})
		if i >= 0 {
			like := &p.Subsets[i].Step.Child
			each(func(s *planner.SubsetPlan) {
				s.Step.Child.Revision, s.Step.Child.RevisionTemplate = like.Revision, like.RevisionTemplate
			})(p)
		}
	}
}

func mutants() []mutant {
	// Only what is released: a child that already allows more is not released at all.
	moreThanLeft := each(func(s *planner.SubsetPlan) {
		if pace := s.Step.Child.Pace; pace != nil && s.Step.Child.Partition == 0 {
			s.Step.Child.Pace = &adapters.Pace{MaxUnavailable: pace.MaxUnavailable + 1}
		}
	})
	neverStopped := each(func(s *planner.SubsetPlan) { s.Step.Child.Paused = false })
	oneLess := each(func(s *planner.SubsetPlan) {
		if s.Step.Child.Replicas > 1 {
			s.Step.Child.Replicas--
		}
	})
	notDrained := each(func(s *planner.SubsetPlan) {
		if s.Step.Action == subset.ActionShrink {
			s.Step.Action = subset.ActionRemove
		}
	})
	notCounted := each(func(s *planner.SubsetPlan) {
		if s.Step.Action == subset.ActionApply && s.Step.Child.Replicas > s.Desired {
			s.Step.Child.Replicas = s.Desired
		}
	})
	allAtOnce := allLike(func(p *planner.Plan, c *adapters.Child) bool { return c.Revision != p.CurrentRevision })
	spreads := allLike(func(_ *planner.Plan, c *adapters.Child) bool { return c.Paused })
	return []mutant{
		{"one more of a subset may be down", "roll-each", []string{"each", "taken"}, moreThanLeft, worlds.Budget{worlds.Templates: 1}},
		{"one more may be down than the ledger has left", "roll1", []string{"ledger", "taken"}, moreThanLeft, worlds.Budget{worlds.Templates: 1}},
		{"what is on its way is never stopped", "manual-pause", []string{"protected", "moves while held"}, neverStopped, worlds.Budget{}},
		{"a replica less", "roll-scale", []string{"I6"}, oneLess, worlds.Budget{}},
		{"what is released in one subset is in all", "manual", []string{"protected"}, allAtOnce, worlds.Budget{}},
		{"the order is not kept", "roll-seq", []string{"order"}, allAtOnce, worlds.Budget{}},
		{"what was stopped by hand spreads", "manual-pause", []string{"paused"}, spreads, worlds.Budget{}},
		{"what was stopped by a failure spreads", "roll-bad", []string{"frozen"}, spreads, worlds.Budget{worlds.Templates: 1}},
		{"a scale-down in the middle of an update is not counted", "roll-move", []string{"taken"}, notCounted, worlds.Budget{worlds.Templates: 1, worlds.Scales: 1}},
		{"what is removed is not drained", "roll-subsets", []string{"drain"}, notDrained, worlds.Budget{}},
	}
}

// TestMutants is the positive control: the oracle finds each violation.
func TestMutants(t *testing.T) {
	t.Parallel()
	all := settings()
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			c := all[slices.IndexFunc(all, func(c setting) bool { return c.Name == m.world })]
			if c.Mutant = m.spoil; m.budget != (worlds.Budget{}) {
				c.Budget = m.budget
			}
			worlds.Convict[state](t, newWorld(&c), 1_500, m.rules)
		})
	}
}
