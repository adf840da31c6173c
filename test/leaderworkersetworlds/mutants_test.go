// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/test/worlds"
)

// oneOfAll releases a group if all are held.
func oneOfAll(s *planner.SubsetPlan) {
	if c := &s.Step.Child; c.Partition >= c.Replicas && c.Replicas > 1 {
		c.Partition = c.Replicas - 1
	}
}

// deleteAny deletes the first group of each child that is being updated.
func deleteAny(s *planner.SubsetPlan) {
	if s.Step.Action == subset.ActionApply && s.Step.Child.Revision != s.ProtectedRevision {
		s.Deletes = append(s.Deletes, planner.Deletion{Replica: adapters.Replica{Name: leaderName(worlds.SubsetNumber(s.Name), 0)}})
	}
}

// unseeded creates a child with the new version at once, whatever it must protect.
func unseeded(s *planner.SubsetPlan) {
	if s.Step.Action == subset.ActionSeed {
		s.Step.Action = subset.ActionWait
	}
}

// opensWhenFailed releases everything as soon as a replica has failed.
func opensWhenFailed(in *planner.Input, p *planner.Plan) {
	if p.Rollout != nil && p.Rollout.State.Phase == v1alpha1.RolloutFailed {
		worlds.Opens(in, p)
	}
}

func mutants() []worlds.Mutant {
	neverReminds := worlds.Each(func(s *planner.SubsetPlan) {
		if s.Step.Action == subset.ActionRemind {
			s.Step.Action = subset.ActionWait
		}
	})
	grows := worlds.Each(func(s *planner.SubsetPlan) {
		if c := &s.Step.Child; c.Replicas == 3 {
			c.Partition = min(c.Partition, 1)
		}
	})
	return []worlds.Mutant{
		{Name: "a group more is released", World: "manual-one", Rules: []string{"partition"}, Spoil: worlds.OneLower},
		{Name: "a hold is none", World: "manual-three-versions", Rules: []string{"partition", "protected"}, Spoil: worlds.Each(oneOfAll)},
		{Name: "a partition is no partition, in each subset", World: "roll-each", Rules: []string{"each"}, Spoil: worlds.Opens},
		{Name: "a partition is no partition", World: "roll1", Rules: []string{"partition", "ledger"}, Spoil: worlds.Opens},
		{Name: "a partition is no partition, one after the other", World: "roll-seq", Rules: []string{"order"}, Spoil: worlds.Opens},
		{Name: "a partition is no partition, in proportion", World: "roll-skew", Rules: []string{"skew"}, Spoil: worlds.Opens},
		{Name: "a failure stops nothing", World: "roll-bad", Rules: []string{"frozen"}, Spoil: opensWhenFailed},
		{Name: "what was held stays held", World: "manual-one", Rules: []string{"I6"}, Spoil: worlds.Holds},
		{Name: "a replica less", World: "roll-scale", Rules: []string{"I6"}, Spoil: worlds.OneLess},
		{Name: "what grows is released", World: "roll-scale", Rules: []string{"growth"}, Spoil: grows},
		{Name: "what is removed is not drained", World: "roll-subsets", Rules: []string{"drain"}, Spoil: worlds.NotDrained},
		{Name: "what merely is there is deleted", World: "manual-one", Rules: []string{"healthy"}, Spoil: worlds.Each(deleteAny)},
		{Name: "nothing is seeded", World: "manual-delete", Rules: []string{"I6"}, Spoil: worlds.Each(unseeded)},
		{Name: "nobody is reminded", World: "manual-forgets", Rules: []string{"I6"}, Spoil: neverReminds},
		{Name: "what came up unreleased is left", World: "manual-forgets", Rules: []string{"I6"}, Spoil: worlds.Each(func(s *planner.SubsetPlan) { s.Deletes = nil })},
	}
}

// TestMutants is the positive control: the oracle finds each violation.
func TestMutants(t *testing.T) {
	t.Parallel()
	worlds.ConvictAll(t, mutants(), settings(), func(c *setting) *worlds.Setting { return &c.Setting },
		func(c *setting) worlds.Game[state] { return newWorld(c) }, 400)
}
