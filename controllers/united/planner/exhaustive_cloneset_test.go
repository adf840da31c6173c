// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

func manualOf(a, b intstr.IntOrString) v1alpha1.UpdateStrategy {
	return v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: &v1alpha1.ManualUpdate{
		Partitions: map[string]intstr.IntOrString{"a": a, "b": b},
	}}
}

func countWorlds() []countWorld {
	all := [kindKids]int32{countPods, countPods}
	hold, zero, one := intstr.FromString("100%"), intstr.FromInt(0), intstr.FromInt(1)
	half := intstr.FromString("50%")
	step := v1alpha1.RolloutStep{Subsets: []string{"b"}, Partition: &half}
	floor := rollingOf(1, "")
	floor.RollingUpdate.Partition = &one
	return []countWorld{
		{kindWorld: kindWorld{name: "one at a time", strategy: rollingOf(1, ""), max: 1, edits: 1, blips: 1}},
		{kindWorld: kindWorld{name: "two at a time", strategy: rollingOf(2, ""), max: 2, edits: 1, blips: 1}},
		{kindWorld: kindWorld{name: "one after the other, twice", strategy: rollingOf(1, v1alpha1.SequentialOrder), max: 1, edits: 2}},
		{kindWorld: kindWorld{name: "a step of one half", strategy: rollingOf(2, "", step), max: 2, edits: 1, losses: 1}},
		{kindWorld: kindWorld{name: "down to a floor", strategy: floor, max: 1, edits: 1, losses: 1}, keeps: [kindKids]int32{1, 1}},
		{kindWorld: kindWorld{name: "broken", strategy: rollingOf(2, ""), max: 2, broken: 2, edits: 2}},
		{kindWorld: kindWorld{name: "broken, one after the other", strategy: rollingOf(2, v1alpha1.SequentialOrder), max: 2, broken: 2, edits: 2}},
		{kindWorld: kindWorld{name: "scaled", strategy: rollingOf(1, ""), max: 1, edits: 1, scales: 1}},
		{kindWorld: kindWorld{name: "paused", strategy: rollingOf(2, ""), max: 2, edits: 1, pauses: 1}},
		{kindWorld: kindWorld{name: "held by hand", strategy: manualOf(hold, hold), edits: 1, losses: 2, scales: 1}, keeps: all},
		{kindWorld: kindWorld{name: "one of two by hand", strategy: manualOf(one, hold), edits: 1, losses: 2}, keeps: [kindKids]int32{1, countPods}},
		{kindWorld: kindWorld{name: "one of two by hand, unready", strategy: manualOf(one, hold), edits: 1, blips: 2}, keeps: [kindKids]int32{1, countPods}},
		{kindWorld: kindWorld{name: "one of two by hand, twice", strategy: manualOf(one, hold), edits: 2}, keeps: [kindKids]int32{1, countPods}},
		{kindWorld: kindWorld{name: "one of two by hand, scaled", strategy: manualOf(one, hold), edits: 1, scales: 2}, keeps: [kindKids]int32{1, countPods}},
		{kindWorld: kindWorld{name: "broken, by hand", strategy: manualOf(zero, hold), broken: 2, edits: 2}, keeps: [kindKids]int32{0, countPods}},
	}
}

// TestCloneSetWorlds walks through all small worlds of CloneSets.
func TestCloneSetWorlds(t *testing.T) {
	t.Parallel()
	for _, w := range countWorlds() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			states, breach := walkKind(&w, worlds.States(1_500, 25_000))
			if breach != "" {
				t.Fatal(breach)
			}
			t.Logf("%d states", states)
		})
	}
}

// upsideDown is a wrong adapter: the updated replicas are at the bottom.
func upsideDown(o *adapters.Observed) {
	for i := range o.Pods {
		if p := &o.Pods[i].Position; *p < o.Replicas {
			*p = o.Replicas - 1 - *p
		}
	}
	n := len(o.Pods)
	for i := range n / 2 {
		o.Pods[i], o.Pods[n-1-i] = o.Pods[n-1-i], o.Pods[i]
	}
}

// TestCloneSetWorldsConvict is the control: the checks find breaches that exist.
func TestCloneSetWorldsConvict(t *testing.T) {
	t.Parallel()
	zero := intstr.FromInt(0)
	for _, tc := range []struct {
		countWorld
		want string
	}{
		{countWorld{kindWorld: kindWorld{name: "two at a time, one is allowed", strategy: rollingOf(2, ""), max: 1, edits: 1}}, "I2: "},
		{countWorld{kindWorld: kindWorld{name: "released, and held", strategy: manualOf(zero, zero), edits: 1}, keeps: [kindKids]int32{0, 2}}, "I6: b ends with 0 of v1"},
		{countWorld{kindWorld: kindWorld{name: "never comes up", strategy: rollingOf(1, ""), max: 1, broken: 3, edits: 1}}, "I6: "},
		{countWorld{
			kindWorld: kindWorld{name: "taken for a StatefulSet", strategy: rollingOf(2, ""), max: 2, edits: 1},
			mutant:    func(o *adapters.Observed) { o.Traits.Partition, o.Traits.Paced = adapters.ByOrdinal, false },
		}, "D: "},
		{countWorld{
			kindWorld: kindWorld{name: "settled is ready", strategy: rollingOf(2, v1alpha1.SequentialOrder), max: 2, broken: 2, edits: 1},
			mutant:    func(o *adapters.Observed) { o.Traits.Hasty = false },
		}, "C: "},
		{countWorld{kindWorld: kindWorld{name: "upside down", strategy: rollingOf(1, ""), max: 1, edits: 1}, mutant: upsideDown}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, breach := walkKind(&tc.countWorld, 4_000)
			if wrong := convicted(breach, tc.want); wrong != "" {
				t.Error(wrong)
			}
			t.Log(breach)
		})
	}
}
