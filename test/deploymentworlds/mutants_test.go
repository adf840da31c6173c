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

// allLike gives all subsets the version of the first child that matches.
func allLike(such func(p *planner.Plan, c *adapters.Child) bool) func(*planner.Input, *planner.Plan) {
	return func(in *planner.Input, p *planner.Plan) {
		i := slices.IndexFunc(p.Subsets, func(s *planner.SubsetPlan) bool {
			return s.Step.Action == subset.ActionApply && such(p, &s.Step.Child)
		})
		if i >= 0 {
			like := &p.Subsets[i].Step.Child
			worlds.Each(func(s *planner.SubsetPlan) {
				s.Step.Child.Revision, s.Step.Child.RevisionTemplate = like.Revision, like.RevisionTemplate
			})(in, p)
		}
	}
}

func mutants() []worlds.Mutant {
	// Only what is released: a child that already allows more is not released at all.
	moreThanLeft := worlds.Each(func(s *planner.SubsetPlan) {
		if pace := s.Step.Child.Pace; pace != nil && s.Step.Child.Partition == 0 {
			s.Step.Child.Pace = &adapters.Pace{MaxUnavailable: pace.MaxUnavailable + 1}
		}
	})
	neverStopped := worlds.Each(func(s *planner.SubsetPlan) { s.Step.Child.Paused = false })
	notCounted := worlds.Each(func(s *planner.SubsetPlan) {
		if s.Step.Action == subset.ActionApply && s.Step.Child.Replicas > s.Desired {
			s.Step.Child.Replicas = s.Desired
		}
	})
	allAtOnce := allLike(func(p *planner.Plan, c *adapters.Child) bool { return c.Revision != p.CurrentRevision })
	spreads := allLike(func(_ *planner.Plan, c *adapters.Child) bool { return c.Paused })
	return []worlds.Mutant{
		{Name: "two at a time, one is allowed", World: "roll1", Rules: []string{"ledger", "taken"}, Spoil: worlds.OneMore},
		{Name: "released, and held", World: "manual", Rules: []string{"protected", "moves while held"}, Spoil: worlds.Released},
		{Name: "never comes up", World: "roll1", Rules: []string{"I6"}, Sick: 1 << 2},
		{Name: "one more of a subset may be down", World: "roll-each", Rules: []string{"each", "taken"}, Spoil: moreThanLeft, Budget: worlds.Budget{worlds.Templates: 1}},
		{Name: "one more may be down than the ledger has left", World: "roll1", Rules: []string{"ledger", "taken"}, Spoil: moreThanLeft, Budget: worlds.Budget{worlds.Templates: 1}},
		{Name: "what is on its way is never stopped", World: "manual-pause", Rules: []string{"protected", "moves while held"}, Spoil: neverStopped},
		{Name: "a replica less", World: "roll-scale", Rules: []string{"I6"}, Spoil: worlds.OneLess},
		{Name: "what is released in one subset is in all", World: "manual", Rules: []string{"protected"}, Spoil: allAtOnce},
		{Name: "the order is not kept", World: "roll-seq", Rules: []string{"order"}, Spoil: allAtOnce},
		{Name: "what was stopped by hand spreads", World: "manual-pause", Rules: []string{"paused"}, Spoil: spreads},
		{Name: "what was stopped by a failure spreads", World: "roll-bad", Rules: []string{"frozen"}, Spoil: spreads, Budget: worlds.Budget{worlds.Templates: 1}},
		{Name: "a scale-down in the middle of an update is not counted", World: "roll-move", Rules: []string{"taken"}, Spoil: notCounted, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 1}},
		{Name: "what is removed is not drained", World: "roll-subsets", Rules: []string{"drain"}, Spoil: worlds.NotDrained},
	}
}

// TestMutants is the positive control: the oracle finds each violation.
func TestMutants(t *testing.T) {
	t.Parallel()
	worlds.ConvictAll(t, mutants(), settings(), func(c *setting) *worlds.Setting { return &c.Setting },
		func(c *setting) worlds.Game[state] { return newWorld(c) }, 1_500)
}
