// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"testing"

	"github.com/unitedworkloads/united/test/worlds"
)

// settings are the worlds.
func settings() []setting {
	return []setting{
		{
			Setting: worlds.Setting{
				Name: "manual", Wishes: []string{"2", "1"}, First: 3, Replicas: 3, ScaledTo: []uint8{0, 3, 5},
				Strategies: []string{worlds.HoldAll, worlds.FreeA, worlds.Open}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Scales: 2},
				Meets: []string{mixGrows, oldScaledDown},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-pause", Wishes: []string{"2", ""}, First: 3, Replicas: 3, ScaledTo: []uint8{0, 3},
				Strategies: []string{worlds.HoldAll, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Pauses: 2, worlds.Scales: 1},
				Meets: []string{neverBegan},
			},
		},
		{
			ways: ways{loseReplicaSets: true}, Setting: worlds.Setting{
				Name: "manual-delete", Wishes: []string{"2", ""}, First: 3, Replicas: 3, ScaledTo: []uint8{3},
				Strategies: []string{worlds.HoldAll, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Deletions: 2, worlds.Deaths: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5},
				Strategies: []string{worlds.HoldAll, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 3, worlds.Stales: 1},
			},
		},
		{
			ways: ways{loseReplicaSets: true}, Setting: worlds.Setting{
				Name: "manual-pause-delete", Wishes: []string{"2", ""}, First: 3, Replicas: 3, ScaledTo: []uint8{0, 3},
				Strategies: []string{worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Pauses: 2, worlds.Deletions: 1, worlds.Scales: 2, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll1", Wishes: []string{"", ""}, First: 3, Replicas: 4, ScaledTo: []uint8{4},
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Crashes: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-each", Wishes: []string{"3", "2"}, First: 3, Replicas: 5,
				Strategies: []string{worlds.RollEach}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Crashes: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll2", Wishes: []string{"3", "2"}, First: 3, Replicas: 5, ScaledTo: []uint8{5},
				Strategies: []string{worlds.Roll2}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Crashes: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll2-evict-stale", Wishes: []string{"3", "2"}, First: 3, Replicas: 5, ScaledTo: []uint8{5},
				Strategies: []string{worlds.Roll2}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Evictions: 1, worlds.Stales: 1, worlds.Deaths: 1},
			},
		},
		{
			ways: ways{surge: 1}, Setting: worlds.Setting{
				Name: "roll2-surge", Wishes: []string{"3", "2"}, First: 3, Replicas: 5,
				Strategies: []string{worlds.Roll2}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Crashes: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-scale", Wishes: []string{"", ""}, First: 3, Replicas: 4, ScaledTo: []uint8{0, 2, 4, 6},
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 2},
				Meets: []string{nothingThere},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-pause", Wishes: []string{"", ""}, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4},
				Strategies: []string{worlds.Roll1, worlds.RollHeld}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Pauses: 2, worlds.Strategies: 2, worlds.Scales: 1},
				Meets: []string{nothingThere, neverBegan},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-bad", Wishes: []string{"", ""}, First: 3, Replicas: 4, ScaledTo: []uint8{4, 6},
				Strategies: []string{worlds.Roll2}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-bad-crash", Wishes: []string{"", ""}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Crashes: 1, worlds.Ticks: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-seq", Wishes: []string{"", ""}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Seq1, worlds.Roll2}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Crashes: 1, worlds.Strategies: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "steps", Wishes: []string{"", ""}, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4},
				Strategies: []string{worlds.StepA, worlds.StepB}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1, worlds.Scales: 2},
				Meets: []string{nothingThere},
			},
		},
		{
			ways: ways{loseReplicaSets: true}, Setting: worlds.Setting{
				Name: "steps-delete", Wishes: []string{"", ""}, First: 3, Replicas: 4,
				Strategies: []string{worlds.StepA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Deletions: 1, worlds.Deaths: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "switch", Wishes: []string{"", ""}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1, worlds.HoldAll, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Crashes: 1},
			},
		},
		{
			ways: ways{unsaid: true}, Setting: worlds.Setting{
				Name: "switch-unsaid", Wishes: []string{"", ""}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1, worlds.HoldAll}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2},
				Meets: []string{oldScaledDown},
			},
		},
		{
			ways: ways{unsaid: true}, Setting: worlds.Setting{
				Name: "manual-unsaid", Wishes: []string{"", ""}, First: 1, Replicas: 3, ScaledTo: []uint8{5},
				Strategies: []string{worlds.HoldAll, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Scales: 1},
				Meets: []string{surplusKept, mixGrows},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5},
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Crashes: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-tick", Wishes: []string{"", ""}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Crashes: 1, worlds.Ticks: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-minready", Wishes: []string{"", ""}, First: 3, Replicas: 4, MinReady: true,
				Strategies: []string{worlds.Roll2}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Crashes: 1, worlds.Ticks: 3},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-stale-sets", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Forgets: 1, worlds.Scales: 1},
			},
		},
		{
			ways: ways{loseReplicaSets: true}, Setting: worlds.Setting{
				Name: "roll-delete", Wishes: []string{"", ""}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Deletions: 1, worlds.Deaths: 1},
			},
		},
		{
			ways: ways{loseReplicaSets: true}, Setting: worlds.Setting{
				Name: "roll-pause-delete", Wishes: []string{"", ""}, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4},
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Pauses: 2, worlds.Deletions: 1, worlds.Scales: 1},
				Meets: []string{nothingThere},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-move", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-move-many", Wishes: []string{"5", "1"}, MovedTo: [][]string{{"1", "5"}, {"2", "2"}}, First: 3, Replicas: 6, ScaledTo: []uint8{4},
				Strategies: []string{worlds.Roll2}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-move-pause", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Pauses: 2, worlds.Scales: 1},
			},
		},
		{
			ways: ways{surge: 1}, Setting: worlds.Setting{
				Name: "roll-move-surge", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 1, worlds.Pauses: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-move-bad", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4, ScaledTo: []uint8{4, 5},
				Strategies: []string{worlds.Roll1}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-remove", Wishes: []string{"", ""}, First: 3, Replicas: 4, SubsetsTo: []uint8{3, 2},
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-remove-bad", Wishes: []string{"", ""}, First: 3, Replicas: 6, SubsetsTo: []uint8{3, 2},
				Strategies: []string{worlds.Roll1}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1, worlds.Pauses: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-move-stale", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 1, worlds.Stales: 1, worlds.Lags: 1, worlds.Deaths: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-each-move", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.RollEach}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "seq-move", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Seq1}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "steps-move", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.StepA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-move-disturbed", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4, SubsetsTo: []uint8{3, 2},
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 1, worlds.Crashes: 1, worlds.Strategies: 1, worlds.Pauses: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-move-orphan", Wishes: []string{"3", "1"}, MovedTo: [][]string{{"1", "3"}}, First: 3, Replicas: 4,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 1, worlds.Deletions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-orphan-one", Wishes: []string{"1", "1"}, First: 3, Replicas: 2,
				Strategies: []string{worlds.Roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Deletions: 1, worlds.Deaths: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-orphan-one", Wishes: []string{"1", "1"}, First: 3, Replicas: 2,
				Strategies: []string{worlds.FreeA, worlds.HoldAll}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Deletions: 1, worlds.Deaths: 1, worlds.Stales: 1, worlds.Strategies: 1},
			},
		},
		{ // a single subset, so that the exceptions occur soon
			ways: ways{loseReplicaSets: true}, Setting: worlds.Setting{
				Name: "held-mix", Wishes: []string{""}, First: 1, Replicas: 2, ScaledTo: []uint8{2, 4},
				Strategies: []string{worlds.HoldAll, worlds.FreeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Deletions: 1, worlds.Scales: 1},
				Meets: []string{mixGrows, oldLost},
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
			worlds.Run[state](t, newWorld(&c), worlds.States(2_000, 40_000))
		})
	}
}
