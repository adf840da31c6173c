// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

func rollingOf(maxUnavailable int, order v1alpha1.RolloutOrder, steps ...v1alpha1.RolloutStep) v1alpha1.UpdateStrategy {
	return v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{
		MaxUnavailable: ptr.To(intstr.FromInt(maxUnavailable)), Order: order, Steps: steps,
	}}
}

func wholeWorlds() []wholeWorld {
	held := v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: &v1alpha1.ManualUpdate{
		Partitions: map[string]intstr.IntOrString{"a": intstr.FromInt(0)},
	}}
	zero := intstr.FromString("0%")
	step := v1alpha1.RolloutStep{Subsets: []string{"b"}, Partition: &zero}
	return []wholeWorld{
		{kindWorld{name: "one at a time", strategy: rollingOf(1, ""), max: 1, edits: 1, blips: 1}, noneHeld},
		{kindWorld{name: "two at a time", strategy: rollingOf(2, ""), max: 2, edits: 1, blips: 1}, noneHeld},
		{kindWorld{name: "one after the other, twice", strategy: rollingOf(1, v1alpha1.SequentialOrder), max: 1, edits: 2}, noneHeld},
		{kindWorld{name: "a step", strategy: rollingOf(2, "", step), max: 2, edits: 1, blips: 1}, noneHeld},
		{kindWorld{name: "broken", strategy: rollingOf(2, ""), max: 2, broken: 2, edits: 2}, noneHeld},
		{kindWorld{name: "scaled", strategy: rollingOf(1, ""), max: 1, edits: 1, scales: 1}, noneHeld},
		{kindWorld{name: "paused", strategy: rollingOf(2, ""), max: 2, edits: 1, pauses: 1}, noneHeld},
		{kindWorld{name: "held by hand", strategy: held, edits: 2, scales: 1, blips: 1}, 1},
		{kindWorld{name: "held by hand, paused", strategy: held, edits: 1, pauses: 1, scales: 1}, 1},
	}
}

// TestDeploymentWorlds walks through all small worlds of Deployments.
func TestDeploymentWorlds(t *testing.T) {
	t.Parallel()
	for _, w := range wholeWorlds() {
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

// TestDeploymentWorldsConvict is the control: the checks find breaches that exist.
func TestDeploymentWorldsConvict(t *testing.T) {
	t.Parallel()
	open := v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: &v1alpha1.ManualUpdate{DefaultPartition: ptr.To(intstr.FromInt32(0))}}
	for _, tc := range []struct {
		wholeWorld
		want string
	}{
		{wholeWorld{kindWorld{name: "two at a time, one is allowed", strategy: rollingOf(2, ""), max: 1, edits: 1}, noneHeld}, "I2: "},
		{wholeWorld{kindWorld{name: "released, and held", strategy: open, edits: 1}, 1}, "I1: "},
		{wholeWorld{kindWorld{name: "never comes up", strategy: rollingOf(1, ""), max: 1, broken: 3, edits: 1}, noneHeld}, "I6: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, breach := walkKind(&tc.wholeWorld, 4_000)
			if wrong := convicted(breach, tc.want); wrong != "" {
				t.Error(wrong)
			}
			t.Log(breach)
		})
	}
}
