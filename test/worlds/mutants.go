// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"math"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// Mutant is a wrong controller in a world of its kind: the real one, with a plan that Spoil has made wrong, or that is made of
// what Misread has made wrong. A world that is Sick is the control of the endings.
type Mutant struct {
	Name, World string
	// Rules are rules that it breaks, perhaps among others.
	Rules   []string
	Spoil   func(*planner.Input, *planner.Plan)
	Misread func(*adapters.Observed)
	Sick    uint8
	// Budget, if set, replaces that of the world: with a smaller one, the walk gets deeper.
	Budget Budget
}

// Each makes the decision for each subset wrong.
func Each(spoil func(*planner.SubsetPlan)) func(*planner.Input, *planner.Plan) {
	return func(_ *planner.Input, p *planner.Plan) {
		for _, s := range p.Subsets {
			spoil(s)
		}
	}
}

// AsIf decides as if the user had asked for another strategy.
func AsIf(change func(*v1alpha1.UpdateStrategy)) func(*planner.Input, *planner.Plan) {
	return func(in *planner.Input, p *planner.Plan) {
		other := *in
		other.Parent = in.Parent.DeepCopy()
		change(&other.Parent.Spec.UpdateStrategy)
		*p = *planner.Make(&other)
	}
}

// Mutants of every kind.
var (
	// OneMore allows one unavailable replica more, Released releases what is held.
	OneMore = AsIf(func(u *v1alpha1.UpdateStrategy) {
		u.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt(u.RollingUpdate.MaxUnavailable.IntValue() + 1))
	})
	Released = AsIf(func(u *v1alpha1.UpdateStrategy) {
		u.ManualUpdate = &v1alpha1.ManualUpdate{DefaultPartition: ptr.To(intstr.FromInt(0))}
	})

	OneLess = Each(func(s *planner.SubsetPlan) {
		if s.Step.Child.Replicas > 1 {
			s.Step.Child.Replicas--
		}
	})
	NotDrained = Each(func(s *planner.SubsetPlan) {
		if s.Step.Action == subset.ActionShrink {
			s.Step.Action = subset.ActionRemove
		}
	})
)

// Mutants of kinds with a partition.
var (
	Opens = Each(func(s *planner.SubsetPlan) { s.Step.Child.Partition = 0 })
	Holds = Each(func(s *planner.SubsetPlan) {
		if s.Step.Action == subset.ActionApply {
			s.Step.Child.Partition = math.MaxInt32
		}
	})
	// OneLower releases one replica more than was decided, if some are released and some are not.
	OneLower = Each(func(s *planner.SubsetPlan) {
		if c := &s.Step.Child; c.Partition > 0 && c.Partition < c.Replicas {
			c.Partition--
		}
	})
)

// ConvictAll is the positive control: the oracle finds what mutants do in the worlds of a kind. of returns the part of a world
// that all kinds have, and most is how many states of each are looked at.
func ConvictAll[S comparable, C any](t *testing.T, mutants []Mutant, all []C, of func(*C) *Setting, game func(*C) Game[S], most int) {
	t.Helper()
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(all, func(c C) bool { return of(&c).Name == m.World })
			if i < 0 {
				t.Fatalf("there is no world %q", m.World)
			}
			c := all[i]
			spoiled := of(&c)
			if spoiled.Mutant, spoiled.Misread, spoiled.Sick = m.Spoil, m.Misread, m.Sick; m.Budget != (Budget{}) {
				spoiled.Budget = m.Budget
			}
			convict(t, game(&c), most, m.Rules)
		})
	}
}
