// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"math"
	"slices"
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
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
}

// each makes the decision for each subset wrong.
func each(spoil func(*planner.SubsetPlan)) func(*planner.Plan) {
	return func(p *planner.Plan) {
		for _, s := range p.Subsets {
			spoil(s)
		}
	}
}

// oneLower releases one group more than was decided, if some are released and some are not.
func oneLower(s *planner.SubsetPlan) {
	if c := &s.Step.Child; c.Partition > 0 && c.Partition < c.Replicas {
		c.Partition--
	}
}

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
func unseeded(p *planner.Plan) {
	for _, s := range p.Subsets {
		if s.Step.Action == subset.ActionSeed {
			s.Step.Action = subset.ActionWait
		}
	}
}

// opensWhenFailed releases everything as soon as a replica has failed.
func opensWhenFailed(p *planner.Plan) {
	if p.Rollout != nil && p.Rollout.State.Phase == v1alpha1.RolloutFailed {
		each(func(s *planner.SubsetPlan) { s.Step.Child.Partition = 0 })(p)
	}
}

func mutants() []mutant {
	open := each(func(s *planner.SubsetPlan) { s.Step.Child.Partition = 0 })
	holds := each(func(s *planner.SubsetPlan) {
		if s.Step.Action == subset.ActionApply {
			s.Step.Child.Partition = math.MaxInt32
		}
	})
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
	neverReminds := each(func(s *planner.SubsetPlan) {
		if s.Step.Action == subset.ActionRemind {
			s.Step.Action = subset.ActionWait
		}
	})
	grows := each(func(s *planner.SubsetPlan) {
		if c := &s.Step.Child; c.Replicas == 3 {
			c.Partition = min(c.Partition, 1)
		}
	})
	return []mutant{
		{"a group more is released", "manual-one", []string{"partition"}, each(oneLower)},
		{"a hold is none", "manual-three-versions", []string{"partition", "protected"}, each(oneOfAll)},
		{"a partition is no partition, in each subset", "roll-each", []string{"each"}, open},
		{"a partition is no partition", "roll1", []string{"partition", "ledger"}, open},
		{"a partition is no partition, one after the other", "roll-seq", []string{"order"}, open},
		{"a partition is no partition, in proportion", "roll-skew", []string{"skew"}, open},
		{"a failure stops nothing", "roll-bad", []string{"frozen"}, opensWhenFailed},
		{"what was held stays held", "manual-one", []string{"I6"}, holds},
		{"a replica less", "roll-scale", []string{"I6"}, oneLess},
		{"what grows is released", "roll-scale", []string{"growth"}, grows},
		{"what is removed is not drained", "roll-subsets", []string{"drain"}, notDrained},
		{"what merely is there is deleted", "manual-one", []string{"healthy"}, each(deleteAny)},
		{"nothing is seeded", "manual-delete", []string{"I6"}, unseeded},
		{"nobody is reminded", "manual-forgets", []string{"I6"}, neverReminds},
		{"what came up unreleased is left", "manual-forgets", []string{"I6"}, each(func(s *planner.SubsetPlan) { s.Deletes = nil })},
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
			c.Mutant = m.spoil
			worlds.Convict[state](t, newWorld(&c), 400, m.rules)
		})
	}
}
