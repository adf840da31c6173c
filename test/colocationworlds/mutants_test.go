// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"slices"
	"testing"

	"github.com/unitedworkloads/united/controllers/united/planner"
)

// mutant is a controller that decides wrongly in one way, in a world of TestWorlds, and a rule that it breaks.
type mutant struct {
	name, world, rule string
	decides           func(*planner.Input, *planner.Plan)
}

// give sets how many replicas a subset gets.
func give(sub *planner.SubsetPlan, replicas int32) {
	sub.Desired, sub.Step.Child.Replicas = replicas, replicas
}

func mutants() []mutant {
	return []mutant{
		{"all groups at once", "growth", "in turn", func(_ *planner.Input, p *planner.Plan) {
			if p.Subsets[0].Desired == 2 {
				give(p.Subsets[0], 4)
			}
		}},
		{"a group goes because it is not ready", "growth of one to one", "nothing is removed", func(in *planner.Input, p *planner.Plan) {
			if child := in.Children["b"]; child != nil && child.Observed.Replicas == 2 {
				give(p.Subsets[1], 1)
			}
		}},
		{"one too many", "growth", "share", func(_ *planner.Input, p *planner.Plan) { give(p.Subsets[1], p.Subsets[1].Desired+3) }},
		{"the last group does not come", "growth", "rest", func(_ *planner.Input, p *planner.Plan) { give(p.Subsets[0], min(2, p.Subsets[0].Desired)) }},
		{"other subsets wait for groups", "one member", "share", func(_ *planner.Input, p *planner.Plan) {
			if p.Subsets[0].Desired < 4 {
				give(p.Subsets[1], 0)
			}
		}},
		{"the canary is forgotten", "a canary, and growth", "floor", func(_ *planner.Input, p *planner.Plan) { p.Subsets[0].Step.Child.Partition = 0 }},
	}
}

// TestMutants checks that the oracle finds wrong decisions.
func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range settings() {
				if c.name != m.world {
					continue
				}
				c.mutant = m.decides
				if k := explore(c, 40); !slices.Contains(k.rules(), m.rule) {
					t.Errorf("the rule %q does not find it, but: %v", m.rule, k.rules())
				}
				return
			}
			t.Fatal("there is no such world")
		})
	}
}
