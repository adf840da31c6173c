// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"testing"

	"github.com/unitedworkloads/united/test/worlds"
)

// settings are the worlds.
func settings() []setting {
	one, two := []string{""}, []string{"", ""}
	return []setting{
		{
			Setting: worlds.Setting{
				Name: "manual-one", Wishes: one, First: 1, Replicas: 2,
				Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-three-versions", Wishes: one, First: 1, Replicas: 2,
				Strategies: []string{worlds.HoldAll, worlds.OneA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1, worlds.Evictions: 1},
			},
		},
		{ // a pod of the protected version is chosen, because it is not ready, and one of the version between is kept
			Setting: worlds.Setting{
				Name: "manual-between", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{worlds.TwoA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1},
				Meets: []string{twoEarlier},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-bad", Wishes: one, First: 1, Replicas: 2, Bad: 1 << 2,
				Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.FreeA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-scale", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 1, 2, 3},
				Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.HalfA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 1, worlds.Scales: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-delete", Wishes: one, First: 1, Replicas: 3, ScaledTo: []uint8{0, 3},
				Strategies: []string{worlds.OneA, worlds.TwoA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 1, worlds.Deletions: 1, worlds.Scales: 1, worlds.Deaths: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-evict-stale", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{worlds.TwoA, worlds.OneA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Evictions: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-lag", Wishes: one, First: 1, Replicas: 2, Bad: 1 << 2,
				Strategies: []string{worlds.OneA, worlds.FreeA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1, worlds.Lags: 1, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-pause", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 2, 3},
				Strategies: []string{worlds.HoldAll, worlds.OneA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 1, worlds.Pauses: 2, worlds.Scales: 1},
			},
		},
		{ // held, or taken back, before the CloneSet controller has observed the release
			Setting: worlds.Setting{
				Name: "manual-held-at-once", Wishes: one, First: 1, Replicas: 2,
				Strategies: []string{worlds.OneA, worlds.HoldAll}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-held-and-scaled", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{1, 3},
				Strategies: []string{worlds.OneA, worlds.HoldAll}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1, worlds.Scales: 1},
			},
		},
		{ // paused before that
			Setting: worlds.Setting{
				Name: "manual-paused-at-once", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{worlds.OneA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Pauses: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-two", Wishes: []string{"2", ""}, First: 3, Replicas: 3, ScaledTo: []uint8{0, 3, 4},
				Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.Open}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5},
				Strategies: []string{worlds.HoldAll, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Stales: 1},
			},
		},
		{
			ways: ways{surge: 1, lingers: true}, Setting: worlds.Setting{
				Name: "manual-surge", Wishes: one, First: 1, Replicas: 2,
				Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll1", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-each", Wishes: []string{"3", "2"}, First: 3, Replicas: 5,
				Strategies: []string{worlds.RollEach}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll2", Wishes: []string{"3", "2"}, First: 3, Replicas: 5,
				Strategies: []string{worlds.Roll2}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Flaps: 1, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-one", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{worlds.Roll1, worlds.RollHalf}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Crashes: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-lag", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Lags: 1, worlds.Deaths: 1},
			},
		},
		{
			ways: ways{lingers: true}, Setting: worlds.Setting{
				Name: "roll-linger", Wishes: two, First: 3, Replicas: 3,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Evictions: 1, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-scale", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 2, 4, 6},
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-half-scale", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{2, 4, 6},
				Strategies: []string{worlds.RollHalf}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 2, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-pause", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4},
				Strategies: []string{worlds.Roll1, worlds.RollHeld}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Pauses: 2, worlds.Strategies: 1, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-bad", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{4, 6},
				Strategies: []string{worlds.Roll2}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-bad-tick", Wishes: two, First: 3, Replicas: 3,
				Strategies: []string{worlds.Roll1}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Ticks: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-seq", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{worlds.Seq1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-seq-bad", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{worlds.Seq1}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-skew", Wishes: []string{"3", "2"}, First: 3, Replicas: 5,
				Strategies: []string{worlds.Skew3}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "steps", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{worlds.StepHalf, worlds.StepB}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "steps-delete", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4},
				Strategies: []string{worlds.StepHalf}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Deletions: 1, worlds.Deaths: 1, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "switch", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1, worlds.HoldAll, worlds.OneA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5},
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-minready", Wishes: two, First: 3, Replicas: 3, MinReady: true,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Flaps: 1, worlds.Ticks: 3},
			},
		},
		{
			ways: ways{surge: 1}, Setting: worlds.Setting{
				Name: "roll-surge", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Stales: 1},
			},
		},
	}
}

// TestWorlds walks through all worlds.
func TestWorlds(t *testing.T) {
	t.Parallel()
	for _, c := range settings() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			worlds.Run[state](t, newWorld(&c), worlds.States(1_000, 15_000))
		})
	}
}
