// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"slices"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/test/worlds"
)

// deleteAny deletes the first pod, as good as any, of each child that is being updated.
func deleteAny(s *planner.SubsetPlan) {
	if s.Step.Action == subset.ActionApply && s.Step.Child.Revision != s.ProtectedRevision {
		s.Deletes = append(s.Deletes, planner.Deletion{Replica: adapters.Replica{Name: podName(worlds.SubsetNumber(s.Name), 0)}})
	}
}

// ordinals takes a CloneSet for a StatefulSet.
func ordinals(o *adapters.Observed) { o.Traits.Partition, o.Traits.Paced = adapters.ByOrdinal, false }

// upsideDown puts the updated replicas at the bottom.
func upsideDown(o *adapters.Observed) {
	for i := range o.Pods {
		if p := &o.Pods[i].Position; *p < o.Replicas {
			*p = o.Replicas - 1 - *p
		}
	}
	slices.Reverse(o.Pods)
}

func mutants() []worlds.Mutant {
	heldLater := worlds.Each(func(s *planner.SubsetPlan) {
		if strings.HasPrefix(s.Step.Reason, "protecting replicas") {
			s.Step = subset.Step{Action: subset.ActionWait}
		}
	})
	neverDeletes := worlds.Each(func(s *planner.SubsetPlan) { s.Deletes = nil })
	return []worlds.Mutant{
		{Name: "two at a time, one is allowed", World: "roll1", Rules: []string{"ledger", "taken"}, Spoil: worlds.OneMore},
		{Name: "released, and held", World: "manual-two", Rules: []string{"partition", "protected", "I6"}, Spoil: worlds.Released},
		{Name: "never comes up", World: "roll1", Rules: []string{"I6"}, Sick: 1 << 2},
		{Name: "taken for a StatefulSet", World: "roll2", Rules: []string{"healthy"}, Misread: ordinals, Budget: worlds.Budget{worlds.Templates: 1, worlds.Evictions: 1}},
		{Name: "settled is ready", World: "roll-bad", Rules: []string{"never ready"}, Misread: func(o *adapters.Observed) { o.Traits.Hasty = false }},
		{Name: "upside down", World: "roll1", Rules: []string{"ledger"}, Misread: upsideDown},
		{Name: "a pod more is released", World: "manual-one", Rules: []string{"partition"}, Spoil: worlds.OneLower},
		{Name: "a partition is no partition, in each subset", World: "roll-each", Rules: []string{"each"}, Spoil: worlds.Opens},
		{Name: "a partition is no partition", World: "roll1", Rules: []string{"partition", "ledger"}, Spoil: worlds.Opens},
		{Name: "a partition is no partition, one after the other", World: "roll-seq", Rules: []string{"order"}, Spoil: worlds.Opens},
		{Name: "a partition is no partition, in proportion", World: "roll-skew", Rules: []string{"skew"}, Spoil: worlds.Opens},
		{Name: "what is held is held later", World: "manual-held-at-once", Rules: []string{"protected"}, Spoil: heldLater},
		{Name: "what was held stays held", World: "manual-one", Rules: []string{"I6"}, Spoil: worlds.Holds},
		{Name: "a replica less", World: "roll-scale", Rules: []string{"I6"}, Spoil: worlds.OneLess},
		{Name: "what is removed is not drained", World: "roll-subsets", Rules: []string{"drain"}, Spoil: worlds.NotDrained},
		{Name: "what merely is there is deleted", World: "manual-one", Rules: []string{"healthy"}, Spoil: worlds.Each(deleteAny)},
		{Name: "a version in between is left", World: "manual-between", Rules: []string{"I6"}, Spoil: neverDeletes},
	}
}

// TestMutants is the positive control: the oracle finds each violation.
func TestMutants(t *testing.T) {
	t.Parallel()
	worlds.ConvictAll(t, mutants(), settings(), func(c *setting) *worlds.Setting { return &c.Setting },
		func(c *setting) worlds.Game[state] { return newWorld(c) }, 400)
}
