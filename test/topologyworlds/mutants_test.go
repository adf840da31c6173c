// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"testing"

	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/worlds"
)

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

func mutants() []worlds.Mutant {
	return []worlds.Mutant{
		{Name: "one too many", World: "scaling while a subset is full", Rules: []string{"sum"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			if in.Parent.Generation > 1 {
				give(p.Subsets[2], 1)
			}
		}},
		{Name: "what is placed moves to the front", World: "scaling while a subset is full", Rules: []string{"placed stays"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			if in.Parent.Generation > 1 && p.Subsets[1].Desired == 1 && p.Subsets[0].Desired == 1 {
				give(p.Subsets[0], 1)
				give(p.Subsets[1], -1)
			}
		}},
		{Name: "a scale-down begins at the front", World: "scaling while a subset is full", Rules: []string{"end of the list first"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			a, b := p.Subsets[0], p.Subsets[1]
			if b.Desired < known(in, b) && a.Desired > 0 {
				give(a, -1)
				give(b, 1)
			}
		}},
		{Name: "what is placed goes before what is not", World: "a minimum on a full subset", Rules: []string{"unplaced first"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			a, b := p.Subsets[0], p.Subsets[1]
			if a.Desired < known(in, a) && b.Desired > 0 {
				give(a, 1)
				give(b, -1)
			}
		}},
		{Name: "no subset is capped", World: "scaling while a subset is full", Rules: []string{"cap"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			for _, sub := range p.Subsets {
				sub.Cap = nil
			}
		}},
		{Name: "a cap never ends", World: "scaling while a subset is full", Rules: []string{"cap"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			for _, sub := range p.Subsets {
				if was := world.SubsetStatus(&in.Parent.Status, sub.Name); was != nil && sub.Cap == nil {
					sub.Cap = was.Cap
				}
			}
		}},
		{Name: "a capped subset keeps what has no node", World: "scaling while a subset is full", Rules: []string{"capped"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			a, b := p.Subsets[0], p.Subsets[1]
			if n := known(in, a) - a.Desired; a.Cap != nil && n > 0 && b.Desired >= n {
				give(a, n)
				give(b, -n)
			}
		}},
		{Name: "a maximum is ignored", World: "scaling while a subset is full", Rules: []string{"maximum"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			if p.Subsets[2].Desired > 0 {
				give(p.Subsets[0], 1)
				give(p.Subsets[2], -1)
			}
		}},
		{Name: "a minimum is ignored", World: "a minimum on a full subset", Rules: []string{"minimum"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			if a := p.Subsets[0]; a.Cap != nil && a.Desired == 1 {
				give(a, -1)
				give(p.Subsets[1], 1)
			}
		}},
		{Name: "everything is released at once", World: "rollouts while a subset is full", Rules: []string{"ledger"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			for _, sub := range p.Subsets {
				sub.Step.Child.Partition = 0
			}
		}},
		{Name: "two of a subset are released", World: "limits per subset", Rules: []string{"ledger of a subset"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			if in.Parent.Spec.UpdateStrategy.RollingUpdate.MaxUnavailablePerSubset == nil {
				return
			}
			for _, sub := range p.Subsets {
				if c := &sub.Step.Child; c.Partition > 0 && c.Partition < c.Replicas {
					c.Partition--
				}
			}
		}},
		{Name: "a subset runs ahead of the other", World: skewWorld, Rules: []string{"skew"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			if c := &p.Subsets[0].Step.Child; c.Partition == 1 {
				c.Partition = 0
			}
		}},
		{Name: "available replicas are reserved", World: "reserved replicas under Manual", Rules: []string{"reserved"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			if a := p.Subsets[0]; a.Reserved > 0 && a.Reserved < a.Desired {
				a.Reserved++
				give(p.Subsets[1], 1)
			}
		}},
		{Name: "substitutes go too early", World: "reserved replicas under Manual", Rules: []string{"substitutes"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			a, b := p.Subsets[0], p.Subsets[1]
			if b.Desired > 0 && a.Desired-a.Reserved+b.Desired-b.Reserved > *in.Parent.Spec.Replicas {
				give(b, -1)
			}
		}},
		{Name: "a new image does not reach what is reserved", World: "reserved replicas", Rules: []string{"rollout ends"}, Spoil: func(_ *planner.Input, p *planner.Plan) {
			for _, sub := range p.Subsets {
				if sub.Reserved > 0 && sub.Step.Child.Partition == 0 {
					sub.Step.Child.Partition, sub.Deletes = 1, nil
				}
			}
		}},
		{Name: "a cap begins again with each pass", World: "a minimum on a full subset", Rules: []string{"comes to rest"}, Spoil: func(in *planner.Input, p *planner.Plan) {
			if limit := p.Subsets[0].Cap; limit != nil {
				limit.SinceTime.Time = in.Now
			}
		}},
	}
}

// The worlds find each wrong decision: what they accept is not accepted because they see nothing.
func TestMutants(t *testing.T) {
	worlds.ConvictAll(t, mutants(), settings(), func(c *setting) *worlds.Setting { return &c.Setting },
		func(c *setting) worlds.Game[state] { return newWorld(c) }, 500)
}
