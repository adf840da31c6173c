// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"flag"
	"testing"

	"github.com/unitedworkloads/united/test/worlds"
)

//	go test ./test/clonesetworlds -run TestWorlds -v
//	    walks through a little of every world, as make test does, and tells how many states that were
//	go test ./test/clonesetworlds -run TestWorlds -worlds-large -timeout 0
//	    looks at many more (make fuzz)
//	-worlds 5000
//	    looks at so many states of each world
//
// A breach is told once of each kind, with a shortest way to it; see Show for how to read a state.
var (
	worldsLarge  = flag.Bool("worlds-large", false, "look at many more states of each world")
	worldsStates = flag.Int("worlds", 1_000, "how many states of each world are looked at")
)

func statesOf() int {
	if *worldsLarge {
		return 15_000
	}
	return *worldsStates
}

const (
	hold     = `{"type":"Manual","manualUpdate":{"partitions":{},"defaultPartition":"100%"}}`
	freeA    = `{"type":"Manual","manualUpdate":{"partitions":{"a":0},"defaultPartition":"100%"}}`
	oneA     = `{"type":"Manual","manualUpdate":{"partitions":{"a":1},"defaultPartition":"100%"}}`
	halfA    = `{"type":"Manual","manualUpdate":{"partitions":{"a":"50%"},"defaultPartition":"100%"}}`
	twoA     = `{"type":"Manual","manualUpdate":{"partitions":{"a":2},"defaultPartition":"100%"}}`
	open     = `{"type":"Manual","manualUpdate":{"partitions":{},"defaultPartition":0}}`
	roll1    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}`
	roll2    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2}}`
	rollHeld = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"partition":"100%"}}`
	rollHalf = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"partition":"50%"}}`
	seq1     = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"order":"Sequential"}}`
	skew     = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":3,"maxSkew":"10%"}}`
	steps    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"steps":[{"subsets":["a"],"partition":"50%","pause":{}}]}}`
	stepsB   = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"steps":[{"subsets":["b"],"pause":{}}]}}`
)

// settings are the worlds.
func settings() []setting {
	one, two := []string{""}, []string{"", ""}
	return []setting{
		{
			Setting: worlds.Setting{
				Name: "manual-one", Wishes: one, First: 1, Replicas: 2,
				Strategies: []string{hold, oneA, freeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-three-versions", Wishes: one, First: 1, Replicas: 2,
				Strategies: []string{hold, oneA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1, worlds.Evictions: 1},
			},
		},
		{ // a pod of the version that is protected is chosen, for it is not ready, and one of that in between is left
			Setting: worlds.Setting{
				Name: "manual-between", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{twoA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1},
				Meets: []string{twoEarlier},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-bad", Wishes: one, First: 1, Replicas: 2, Bad: 1 << 2,
				Strategies: []string{hold, oneA, freeA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-scale", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 1, 2, 3},
				Strategies: []string{hold, oneA, halfA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 1, worlds.Scales: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-delete", Wishes: one, First: 1, Replicas: 3, ScaledTo: []uint8{0, 3},
				Strategies: []string{oneA, twoA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 1, worlds.Deletions: 1, worlds.Scales: 1, worlds.Deaths: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-evict-stale", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{twoA, oneA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Evictions: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-lag", Wishes: one, First: 1, Replicas: 2, Bad: 1 << 2,
				Strategies: []string{oneA, freeA}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1, worlds.Lags: 1, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-pause", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 2, 3},
				Strategies: []string{hold, oneA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 1, worlds.Pauses: 2, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-two", Wishes: []string{"2", ""}, First: 3, Replicas: 3, ScaledTo: []uint8{0, 3, 4},
				Strategies: []string{hold, oneA, open}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "manual-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5},
				Strategies: []string{hold, freeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Stales: 1},
			},
		},
		{
			ways: ways{surge: 1, lingers: true}, Setting: worlds.Setting{
				Name: "manual-surge", Wishes: one, First: 1, Replicas: 2,
				Strategies: []string{hold, oneA, freeA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll1", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{roll1}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll2", Wishes: []string{"3", "2"}, First: 3, Replicas: 5,
				Strategies: []string{roll2}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Flaps: 1, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-one", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{roll1, rollHalf}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Crashes: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-lag", Wishes: one, First: 1, Replicas: 3,
				Strategies: []string{roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Lags: 1, worlds.Deaths: 1},
			},
		},
		{
			ways: ways{lingers: true}, Setting: worlds.Setting{
				Name: "roll-linger", Wishes: two, First: 3, Replicas: 3,
				Strategies: []string{roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Evictions: 1, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-scale", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 2, 4, 6},
				Strategies: []string{roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-half-scale", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{2, 4, 6},
				Strategies: []string{rollHalf}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Scales: 2, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-pause", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4},
				Strategies: []string{roll1, rollHeld}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Pauses: 2, worlds.Strategies: 1, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-bad", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{4, 6},
				Strategies: []string{roll2}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Scales: 1, worlds.Stales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-bad-tick", Wishes: two, First: 3, Replicas: 3,
				Strategies: []string{roll1}, Bad: 1 << 2, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Ticks: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-seq", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{seq1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Evictions: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-skew", Wishes: []string{"3", "2"}, First: 3, Replicas: 5,
				Strategies: []string{skew}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "steps", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{steps, stepsB}, Versions: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "steps-delete", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4},
				Strategies: []string{steps}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Deletions: 1, worlds.Deaths: 1, worlds.Scales: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "switch", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{roll1, hold, oneA}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Strategies: 2},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5},
				Strategies: []string{roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Strategies: 2, worlds.Flaps: 1},
			},
		},
		{
			Setting: worlds.Setting{
				Name: "roll-minready", Wishes: two, First: 3, Replicas: 3, MinReady: true,
				Strategies: []string{roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 1, worlds.Flaps: 1, worlds.Ticks: 3},
			},
		},
		{
			ways: ways{surge: 1}, Setting: worlds.Setting{
				Name: "roll-surge", Wishes: two, First: 3, Replicas: 4,
				Strategies: []string{roll1}, Versions: []uint8{1, 2}, Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1, worlds.Stales: 1},
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
			w := newWorld(&c)
			k := worlds.Walk[state](w, statesOf())
			t.Log(k.Told())
			for _, f := range k.Found() {
				t.Errorf("%s: %s (%d times)\n%s", f.Rule, f.What, f.Count, f.Story)
			}
			for _, exception := range c.Meets {
				if w.Excepted[exception] == 0 {
					t.Errorf("it is no exception any more: %s", exception)
				}
			}
		})
	}
}
