// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"testing"

	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// mutant is a controller that decides wrongly in one way, in a world of TestWorlds, and a rule that it breaks.
type mutant struct {
	name, world, rule string
	decides           func(*planner.Input, *planner.Plan)
}

// give changes how many replicas a subset gets.
func give(sub *planner.SubsetPlan, more int32) {
	sub.Desired += more
	sub.Step.Child.Replicas = max(0, sub.Step.Child.Replicas+more)
}

// known returns what the status says of a subset.
func known(in *planner.Input, sub *planner.SubsetPlan) int32 {
	if was := world.SubsetStatus(&in.Parent.Status, sub.Name); was != nil {
		return was.DesiredReplicas
	}
	return 0
}

func mutants() []mutant {
	return []mutant{
		{"one too many", "scaling while a subset is full", "sum", func(in *planner.Input, p *planner.Plan) {
			if in.Parent.Generation > 1 {
				give(p.Subsets[2], 1)
			}
		}},
		{"what is placed moves to the front", "scaling while a subset is full", "placed stays", func(in *planner.Input, p *planner.Plan) {
			if in.Parent.Generation > 1 && p.Subsets[1].Desired == 1 && p.Subsets[0].Desired == 1 {
				give(p.Subsets[0], 1)
				give(p.Subsets[1], -1)
			}
		}},
		{"a scale-down begins at the front", "scaling while a subset is full", "end of the list first", func(in *planner.Input, p *planner.Plan) {
			a, b := p.Subsets[0], p.Subsets[1]
			if b.Desired < known(in, b) && a.Desired > 0 {
				give(a, -1)
				give(b, 1)
			}
		}},
		{"what is placed goes before what is not", "a minimum on a full subset", "unplaced first", func(in *planner.Input, p *planner.Plan) {
			a, b := p.Subsets[0], p.Subsets[1]
			if a.Desired < known(in, a) && b.Desired > 0 {
				give(a, 1)
				give(b, -1)
			}
		}},
		{"no subset is capped", "scaling while a subset is full", "cap", func(_ *planner.Input, p *planner.Plan) {
			for _, sub := range p.Subsets {
				sub.Cap = nil
			}
		}},
		{"a cap never ends", "scaling while a subset is full", "cap", func(in *planner.Input, p *planner.Plan) {
			for _, sub := range p.Subsets {
				if was := world.SubsetStatus(&in.Parent.Status, sub.Name); was != nil && sub.Cap == nil {
					sub.Cap = was.Cap
				}
			}
		}},
		{"a capped subset keeps what has no node", "scaling while a subset is full", "capped", func(in *planner.Input, p *planner.Plan) {
			a, b := p.Subsets[0], p.Subsets[1]
			if n := known(in, a) - a.Desired; a.Cap != nil && n > 0 && b.Desired >= n {
				give(a, n)
				give(b, -n)
			}
		}},
		{"a maximum is ignored", "scaling while a subset is full", "maximum", func(_ *planner.Input, p *planner.Plan) {
			if p.Subsets[2].Desired > 0 {
				give(p.Subsets[0], 1)
				give(p.Subsets[2], -1)
			}
		}},
		{"a minimum is ignored", "a minimum on a full subset", "minimum", func(_ *planner.Input, p *planner.Plan) {
			if a := p.Subsets[0]; a.Cap != nil && a.Desired == 1 {
				give(a, -1)
				give(p.Subsets[1], 1)
			}
		}},
		{"everything is released at once", "rollouts while a subset is full", "ledger", func(_ *planner.Input, p *planner.Plan) {
			for _, sub := range p.Subsets {
				sub.Step.Child.Partition = 0
			}
		}},
		{"two of a subset are released", "limits per subset", "ledger of a subset", func(in *planner.Input, p *planner.Plan) {
			if in.Parent.Spec.UpdateStrategy.RollingUpdate.MaxUnavailablePerSubset == nil {
				return
			}
			for _, sub := range p.Subsets {
				if c := &sub.Step.Child; c.Partition > 0 && c.Partition < c.Replicas {
					c.Partition--
				}
			}
		}},
		{"a subset runs ahead of the other", skewWorld, "skew", func(_ *planner.Input, p *planner.Plan) {
			if c := &p.Subsets[0].Step.Child; c.Partition == 1 {
				c.Partition = 0
			}
		}},
		{"available replicas are reserved", "reserved replicas under Manual", "reserved", func(_ *planner.Input, p *planner.Plan) {
			if a := p.Subsets[0]; a.Reserved > 0 && a.Reserved < a.Desired {
				a.Reserved++
				give(p.Subsets[1], 1)
			}
		}},
		{"substitutes go too early", "reserved replicas under Manual", "substitutes", func(in *planner.Input, p *planner.Plan) {
			a, b := p.Subsets[0], p.Subsets[1]
			if b.Desired > 0 && a.Desired-a.Reserved+b.Desired-b.Reserved > *in.Parent.Spec.Replicas {
				give(b, -1)
			}
		}},
		{"a new image does not reach what is reserved", "reserved replicas", "rollout ends", func(_ *planner.Input, p *planner.Plan) {
			for _, sub := range p.Subsets {
				if sub.Reserved > 0 && sub.Step.Child.Partition == 0 {
					sub.Step.Child.Partition, sub.Deletes = 1, nil
				}
			}
		}},
		{"a cap begins again with each pass", "a minimum on a full subset", "comes to rest", func(in *planner.Input, p *planner.Plan) {
			if limit := p.Subsets[0].Cap; limit != nil {
				limit.SinceTime.Time = in.Now
			}
		}},
	}
}

// The worlds find each wrong decision: what they accept is not accepted because they see nothing.
func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range settings() {
				if c.name != m.world {
					continue
				}
				c.mutant = m.decides
				if k := explore(c, 500); k.found[m.rule] == nil {
					t.Errorf("it is not convicted of %q (%s), but of %v", m.rule, k.told(), k.rules())
				}
			}
		})
	}
}
