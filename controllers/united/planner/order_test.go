// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// A hundred creates are rejected, so slowly that a pass ends after ten of them, and the first ones are due again before
// the last ones were tried. Before, all other subsets waited for that forever.
func TestOrderReachesAll(t *testing.T) {
	child := func(partition int32) *world.Child {
		return &world.Child{Observed: &adapters.Observed{Replicas: 3, Partition: partition, Meta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRevision: "r1"}}}}
	}
	apply := func(name string, replicas, partition int32) *SubsetPlan {
		return &SubsetPlan{
			Subset: spec.Subset{Subset: &v1alpha1.Subset{Name: name}}, Decision: coordination.Decision{Replicas: replicas},
			Step: subset.Step{Action: subset.ActionApply, Child: adapters.Child{Replicas: replicas, Partition: partition, Revision: "r1"}},
		}
	}
	in := &Input{World: world.World{Parent: &v1alpha1.UnitedDeployment{}, Children: map[string]*world.Child{"raised": child(0), "released": child(3), "failed": child(3), "same": child(1), "smaller": child(1)}}}
	in.Parent.Status.Subsets = []v1alpha1.SubsetStatus{{Name: "released", Phase: v1alpha1.PhaseHeld}, {Name: "failed", Phase: v1alpha1.PhasePending}}
	plan := &Plan{Subsets: []*SubsetPlan{apply("smaller", 2, 1), apply("same", 3, 1), apply("released", 3, 1), apply("failed", 3, 1), apply("raised", 3, 3)}}
	for i := range 100 {
		plan.Subsets = append(plan.Subsets, apply(fmt.Sprintf("refused-%02d", i), 1, 1))
	}
	reached := map[string]int{}
	due := map[string]int{}
	for pass := range 40 {
		results, work := Results{}, 0
		for _, s := range plan.Subsets {
			s.Facts = subset.FactsOf(in.Observed(s.Name))
		}
		plan.in, plan.order = in, ordered(in, plan.Subsets)
		for s := plan.Next(results); s != nil; s = plan.Next(results) {
			s.Yielded = s.Yielded || work == 10
			if results[s.Name] = s.LeftOut(); results[s.Name] != nil {
				continue
			}
			results[s.Name] = &Result{}
			if reached[s.Name] == 0 {
				reached[s.Name] = pass + 1
			}
			if in.Children[s.Name] == nil && pass >= due[s.Name] {
				work++
				due[s.Name] = pass + 3
			}
		}
		in.Unreached = plan.Unreached(results)
	}
	for name, last := range map[string]int{"raised": 2, "released": 2, "failed": 15, "same": 15} {
		if got := reached[name]; got == 0 || got > last {
			t.Errorf("%s is reached in pass %d, want %d at the latest", name, got, last)
		}
	}
	if reached["refused-99"] == 0 {
		t.Error("some are never tried")
	}
	if order := ordered(in, plan.Subsets); order[len(order)-1].Name != "smaller" {
		t.Error("replicas are removed before others come")
	}
}
