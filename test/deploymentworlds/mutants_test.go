// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"slices"
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// mutant is a wrong controller.
type mutant struct {
	name, world string
	// rule is one that it is convicted of.
	rule  string
	spoil func(*planner.SubsetPlan)
}

func mutants() []mutant {
	return []mutant{
		{"one more may be down than the ledger has left", "roll1", "ledger", func(s *planner.SubsetPlan) {
			if pace := s.Step.Child.Pace; pace != nil {
				s.Step.Child.Pace = &adapters.Pace{MaxUnavailable: pace.MaxUnavailable + 1}
			}
		}},
		{"what is on its way is never stopped", "manual-pause", "protected", func(s *planner.SubsetPlan) { s.Step.Child.Paused = false }},
		{"a replica less", "roll-scale", "I6", func(s *planner.SubsetPlan) {
			if s.Step.Child.Replicas > 1 {
				s.Step.Child.Replicas--
			}
		}},
	}
}

// TestMutants is the control: what the oracle looks for it finds.
func TestMutants(t *testing.T) {
	t.Parallel()
	all := settings()
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			c := all[slices.IndexFunc(all, func(c setting) bool { return c.name == m.world })]
			c.mutant = func(p *planner.Plan) {
				for _, s := range p.Subsets {
					m.spoil(s)
				}
			}
			k := c.walk(300)
			convicted := false
			for _, key := range k.order {
				convicted = convicted || k.found[key].rule == m.rule
			}
			if !convicted {
				t.Errorf("it is not convicted of %s in %d states, but of %v", m.rule, k.looked, k.order)
			}
		})
	}
}
