// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"testing"

	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/test/worlds"
)

// give sets how many replicas a subset gets.
func give(sub *planner.SubsetPlan, replicas int32) {
	sub.Desired, sub.Step.Child.Replicas = replicas, replicas
}

func mutants() []worlds.Mutant {
	return []worlds.Mutant{
		{Name: "all groups at once", World: "growth", Rules: []string{"in turn"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			if p.Subsets[0].Desired == 2 {
				give(p.Subsets[0], 4)
			}
		}},
		{Name: "a group goes because it is not ready", World: "growth of one to one", Rules: []string{"nothing is removed"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			if child := in.Children["b"]; child != nil && child.Observed.Replicas == 2 {
				give(p.Subsets[1], 1)
			}
		}},
		{Name: "one too many", World: "growth", Rules: []string{"share"}, Spoil: func(_ *planner.Input, p *planner.Plan) { give(p.Subsets[1], p.Subsets[1].Desired+3) }},
		{Name: "the last group does not come", World: "growth", Rules: []string{"rest"}, Spoil: func(_ *planner.Input, p *planner.Plan) { give(p.Subsets[0], min(2, p.Subsets[0].Desired)) }},
		{Name: "other subsets wait for groups", World: "one member", Rules: []string{"share"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			if p.Subsets[0].Desired < 4 {
				give(p.Subsets[1], 0)
			}
		}},
		{Name: "the canary is forgotten", World: "a canary, and growth", Rules: []string{"floor"}, Spoil: func(_ *planner.Input, p *planner.Plan) { p.Subsets[0].Step.Child.Partition = 0 }},
	}
}

// TestMutants checks that the oracle finds wrong decisions.
func TestMutants(t *testing.T) {
	worlds.ConvictAll(t, mutants(), settings(), func(c *setting) *worlds.Setting { return &c.Setting },
		func(c *setting) worlds.Game[state] { return newWorld(c) }, 40)
}
