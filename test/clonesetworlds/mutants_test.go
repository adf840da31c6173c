// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"math"
	"slices"
	"strings"
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
}

// each makes the decision for each subset wrong.
func each(spoil func(*planner.SubsetPlan)) func(*planner.Plan) {
	return func(p *planner.Plan) {
		for _, s := range p.Subsets {
			spoil(s)
		}
	}
}

// oneLower releases one pod more than was decided, if some are released and some are not.
func oneLower(s *planner.SubsetPlan) {
	if c := &s.Step.Child; c.Partition > 0 && c.Partition < c.Replicas {
		c.Partition--
	}
}

// deleteAny deletes a pod of each child that is being updated.
func deleteAny(p *planner.Plan) {
	each(func(s *planner.SubsetPlan) {
		if s.Step.Action != subset.ActionApply || s.Step.Child.Revision == s.ProtectedRevision {
			return
		}
		// Any pod will do, so this takes the first by name.
		s.Deletes = append(s.Deletes, planner.Deletion{Replica: adapters.Replica{Name: podName(int(s.Name[0]-'a'), 0)}})
	})(p)
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
	heldLater := each(func(s *planner.SubsetPlan) {
		if strings.HasPrefix(s.Step.Reason, "protecting replicas") {
			s.Step = subset.Step{Action: subset.ActionWait}
		}
	})
	neverDeletes := each(func(s *planner.SubsetPlan) { s.Deletes = nil })
	return []mutant{
		{"a pod more is released", "manual-one", []string{"partition"}, each(oneLower)},
		{"a partition is no partition, in each subset", "roll-each", []string{"each"}, open},
		{"a partition is no partition", "roll1", []string{"partition", "ledger"}, open},
		{"a partition is no partition, one after the other", "roll-seq", []string{"order"}, open},
		{"a partition is no partition, in proportion", "roll-skew", []string{"skew"}, open},
		{"what is held is held later", "manual-held-at-once", []string{"protected"}, heldLater},
		{"what was held stays held", "manual-one", []string{"I6"}, holds},
		{"a replica less", "roll-scale", []string{"I6"}, oneLess},
		{"what is removed is not drained", "roll-subsets", []string{"drain"}, notDrained},
		{"what merely is there is deleted", "manual-one", []string{"healthy"}, deleteAny},
		{"a version in between is left", "manual-between", []string{"I6"}, neverDeletes},
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
