// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"testing"

	"github.com/unitedworkloads/united/test/worlds"
)

// of returns a budget.
func of(amounts map[int]int8) (b worlds.Budget) {
	for on, n := range amounts {
		b[on] = n
	}
	return b
}

type may = map[int]int8

// settings are the worlds.
func settings() []setting {
	all := append(manualSettings(), rollingSettings()...)
	for i := range all {
		all[i].older = i%2 == 1 // every other world is on the oldest supported Kubernetes
	}
	return all
}

func manualSettings() []setting {
	one := []string{""}
	twoVersions, three := []uint8{1, 2}, []uint8{1, 2, 3}
	return []setting{
		{Setting: worlds.Setting{
			Name: "manual-one", Wishes: one, First: 1, Replicas: 2, Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.FreeA}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 2, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-three-versions", Wishes: one, First: 1, Replicas: 2, Strategies: []string{worlds.HoldAll, worlds.OneA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 1, worlds.Evictions: 1}),
		}},
		{groups: groups{workers: true}, Setting: worlds.Setting{
			Name: "manual-workers", Wishes: one, First: 1, Replicas: 2, Strategies: []string{worlds.OneA, worlds.HoldAll}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Evictions: 1}),
		}},
		{ // the leader comes up before its worker does; this takes many events
			groups: groups{workers: true}, least: 3_000, Setting: worlds.Setting{
				Name: "manual-hasty", Wishes: one, First: 1, Replicas: 1, Strategies: []string{worlds.FreeA, worlds.HoldAll}, Versions: twoVersions,
				Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Evictions: 1}), Meets: []string{hasty, truncated},
			},
		},
		{Setting: worlds.Setting{
			Name: "manual-bad", Wishes: one, First: 1, Replicas: 2, Bad: 1 << 2, Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.FreeA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 2, worlds.Evictions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-scale", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 1, 2, 3}, Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.HalfA},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Scales: 2}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-delete", Wishes: one, First: 1, Replicas: 3, ScaledTo: []uint8{0, 3}, Strategies: []string{worlds.OneA, worlds.TwoA},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Deletions: 1, worlds.Scales: 1, worlds.Deaths: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-orphan-zero", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 2}, Strategies: []string{worlds.HoldAll}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Scales: 2, worlds.Deletions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-orphan-updated", Wishes: one, First: 1, Replicas: 2, Strategies: []string{worlds.FreeA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Deletions: 1, worlds.Deaths: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-forgets", Wishes: one, First: 1, Replicas: 3, Strategies: []string{worlds.TwoA, worlds.FreeA}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Forgets: 1, worlds.Evictions: 1}), Meets: []string{forgot},
		}},
		{Setting: worlds.Setting{
			Name: "manual-evict-stale", Wishes: one, First: 1, Replicas: 3, Strategies: []string{worlds.TwoA, worlds.OneA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Evictions: 1, worlds.Stales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-lag", Wishes: one, First: 1, Replicas: 2, Bad: 1 << 2, Strategies: []string{worlds.OneA, worlds.FreeA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 1, worlds.Lags: 1, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-pause", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 2, 3}, Strategies: []string{worlds.HoldAll, worlds.OneA},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Pauses: 2, worlds.Scales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-two", Wishes: []string{"2", ""}, First: 3, Replicas: 3, ScaledTo: []uint8{0, 3, 4}, Strategies: []string{worlds.HoldAll, worlds.OneA, worlds.Open},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 2, worlds.Scales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5}, Strategies: []string{worlds.HoldAll, worlds.FreeA},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 2, worlds.Stales: 1}),
		}},
		{groups: groups{workers: true, restarts: true}, Setting: worlds.Setting{
			Name: "manual-restarts", Wishes: one, First: 1, Replicas: 2, Strategies: []string{worlds.OneA, worlds.HoldAll}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Crashes: 1, worlds.Evictions: 1}),
		}},
	}
}

func rollingSettings() []setting {
	one, two := []string{""}, []string{"", ""}
	twoVersions, three := []uint8{1, 2}, []uint8{1, 2, 3}
	return []setting{
		{Setting: worlds.Setting{
			Name: "roll1", Wishes: two, First: 3, Replicas: 4, Strategies: []string{worlds.Roll1}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-each", Wishes: []string{"3", "2"}, First: 3, Replicas: 5, Strategies: []string{worlds.RollEach}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll2", Wishes: []string{"3", "2"}, First: 3, Replicas: 5, Strategies: []string{worlds.Roll2}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Flaps: 1, worlds.Evictions: 1}),
		}},
		{groups: groups{workers: true}, Setting: worlds.Setting{
			Name: "roll-workers", Wishes: two, First: 3, Replicas: 3, Strategies: []string{worlds.Roll1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Flaps: 1, worlds.Evictions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-one", Wishes: one, First: 1, Replicas: 3, Strategies: []string{worlds.Roll1, worlds.RollHalf}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1, worlds.Crashes: 1, worlds.Stales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-lag", Wishes: one, First: 1, Replicas: 3, Strategies: []string{worlds.Roll1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1, worlds.Lags: 1, worlds.Deaths: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-scale", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 2, 4, 6}, Strategies: []string{worlds.Roll1},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Scales: 2}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-half-scale", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{2, 4, 6}, Strategies: []string{worlds.RollHalf},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Scales: 2, worlds.Evictions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-forgets", Wishes: two, First: 3, Replicas: 4, Strategies: []string{worlds.RollHalf}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Forgets: 1, worlds.Evictions: 1}), Meets: []string{forgot},
		}},
		{Setting: worlds.Setting{
			Name: "roll-pause", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4}, Strategies: []string{worlds.Roll1, worlds.RollHeld},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Pauses: 2, worlds.Strategies: 1, worlds.Scales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-bad", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{4, 6}, Strategies: []string{worlds.Roll2}, Bad: 1 << 2, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Scales: 1, worlds.Stales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-bad-tick", Wishes: two, First: 3, Replicas: 3, Strategies: []string{worlds.Roll1}, Bad: 1 << 2, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1, worlds.Ticks: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-seq", Wishes: two, First: 3, Replicas: 4, Strategies: []string{worlds.Seq1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1, worlds.Evictions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-skew", Wishes: []string{"3", "2"}, First: 3, Replicas: 5, Strategies: []string{worlds.Skew3}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "steps", Wishes: two, First: 3, Replicas: 4, Strategies: []string{worlds.StepHalf, worlds.StepB}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "steps-delete", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4}, Strategies: []string{worlds.StepHalf}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Deletions: 1, worlds.Deaths: 1, worlds.Scales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "switch", Wishes: two, First: 3, Replicas: 4, Strategies: []string{worlds.Roll1, worlds.HoldAll, worlds.OneA}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 2}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5}, Strategies: []string{worlds.Roll1},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 2, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-minready", Wishes: two, First: 3, Replicas: 3, MinReady: true, Strategies: []string{worlds.Roll1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Flaps: 1, worlds.Ticks: 3}),
		}},
		{groups: groups{workers: true, restarts: true}, Setting: worlds.Setting{
			Name: "roll-restarts", Wishes: two, First: 3, Replicas: 3, Strategies: []string{worlds.Roll1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Crashes: 1}),
		}},
	}
}

// TestWorlds walks through all worlds.
func TestWorlds(t *testing.T) {
	t.Parallel()
	for _, c := range settings() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			worlds.Run[state](t, newWorld(&c), worlds.States(max(c.least, 600), 15_000))
		})
	}
}
