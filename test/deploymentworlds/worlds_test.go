// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"flag"
	"testing"
)

//	go test ./test/deploymentworlds -run TestWorlds -v
//	    walks through a little of every world, as make test does, and tells how many states that were
//	go test ./test/deploymentworlds -run TestWorlds -worlds-large -timeout 0
//	    looks at many more (make fuzz)
//	-worlds 5000
//	    looks at so many states of each world
//
// A breach is told once of each kind, with a shortest way to it; see show for how to read a state.
var (
	worldsLarge  = flag.Bool("worlds-large", false, "look at many more states of each world")
	worldsStates = flag.Int("worlds", 2_000, "how many states of each world are looked at")
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
	open     = `{"type":"Manual","manualUpdate":{"partitions":{},"defaultPartition":0}}`
	roll1    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}`
	roll2    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2}}`
	rollHeld = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"partition":"100%"}}`
	seq1     = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"order":"Sequential"}}`
	steps    = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"steps":[{"subsets":["a"],"pause":{}}]}}`
	stepsB   = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"steps":[{"subsets":["b"],"pause":{}}]}}`
)

// settings are the worlds.
func settings() []setting {
	return []setting{
		{
			name: "manual", wishes: []string{"2", "1"}, first: 3, replicas: 3, scaledTo: []uint8{0, 3, 5},
			strategies: []string{hold, freeA, open}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, strategies: 2, scales: 2},
			meets: []string{mixGrows, oldScaledDown},
		},
		{
			name: "manual-pause", wishes: []string{"2", ""}, first: 3, replicas: 3, scaledTo: []uint8{0, 3},
			strategies: []string{hold, freeA}, versions: []uint8{1, 2}, budget: budget{templates: 2, strategies: 2, pauses: 2, scales: 1},
			meets: []string{neverBegan},
		},
		{
			name: "manual-delete", wishes: []string{"2", ""}, first: 3, replicas: 3, scaledTo: []uint8{3},
			strategies: []string{hold, freeA}, versions: []uint8{1, 2}, loseReplicaSets: true, budget: budget{templates: 2, strategies: 2, deletions: 2, deaths: 1},
		},
		{
			name: "manual-subsets", wishes: []string{"", "", ""}, first: 3, replicas: 3, subsetsTo: []uint8{3, 7, 6, 5},
			strategies: []string{hold, freeA}, versions: []uint8{1, 2}, budget: budget{templates: 2, strategies: 3, stales: 1},
		},
		{
			name: "manual-pause-delete", wishes: []string{"2", ""}, first: 3, replicas: 3, scaledTo: []uint8{0, 3},
			strategies: []string{freeA}, versions: []uint8{1, 2}, loseReplicaSets: true, budget: budget{templates: 1, pauses: 2, deletions: 1, scales: 2, evictions: 1},
		},
		{
			name: "roll1", wishes: []string{"", ""}, first: 3, replicas: 4, scaledTo: []uint8{4},
			strategies: []string{roll1}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, crashes: 1},
		},
		{
			name: "roll2", wishes: []string{"3", "2"}, first: 3, replicas: 5, scaledTo: []uint8{5},
			strategies: []string{roll2}, versions: []uint8{1, 2, 3}, budget: budget{templates: 1, crashes: 2},
		},
		{
			name: "roll2-evict-stale", wishes: []string{"3", "2"}, first: 3, replicas: 5, scaledTo: []uint8{5},
			strategies: []string{roll2}, versions: []uint8{1, 2}, budget: budget{templates: 1, evictions: 1, stales: 1, deaths: 1},
		},
		{
			name: "roll2-surge", wishes: []string{"3", "2"}, first: 3, replicas: 5, surge: 1,
			strategies: []string{roll2}, versions: []uint8{1, 2}, budget: budget{templates: 2, crashes: 1, stales: 1},
		},
		{
			name: "roll-scale", wishes: []string{"", ""}, first: 3, replicas: 4, scaledTo: []uint8{0, 2, 4, 6},
			strategies: []string{roll1}, versions: []uint8{1, 2}, budget: budget{templates: 2, scales: 2},
			meets: []string{nothingThere},
		},
		{
			name: "roll-pause", wishes: []string{"", ""}, first: 3, replicas: 4, scaledTo: []uint8{0, 4},
			strategies: []string{roll1, rollHeld}, versions: []uint8{1, 2}, budget: budget{templates: 1, pauses: 2, strategies: 2, scales: 1},
			meets: []string{nothingThere, neverBegan},
		},
		{
			name: "roll-bad", wishes: []string{"", ""}, first: 3, replicas: 4, scaledTo: []uint8{4, 6},
			strategies: []string{roll2}, bad: 1 << 2, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, scales: 1, stales: 1},
		},
		{
			name: "roll-bad-crash", wishes: []string{"", ""}, first: 3, replicas: 4,
			strategies: []string{roll1}, bad: 1 << 2, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, crashes: 1, ticks: 1},
		},
		{
			name: "roll-seq", wishes: []string{"", ""}, first: 3, replicas: 4,
			strategies: []string{seq1, roll2}, versions: []uint8{1, 2}, budget: budget{templates: 2, crashes: 1, strategies: 1},
		},
		{
			name: "steps", wishes: []string{"", ""}, first: 3, replicas: 4, scaledTo: []uint8{0, 4},
			strategies: []string{steps, stepsB}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, strategies: 1, scales: 2},
			meets: []string{nothingThere},
		},
		{
			name: "steps-delete", wishes: []string{"", ""}, first: 3, replicas: 4,
			strategies: []string{steps}, versions: []uint8{1, 2}, loseReplicaSets: true, budget: budget{templates: 2, deletions: 1, deaths: 1},
		},
		{
			name: "switch", wishes: []string{"", ""}, first: 3, replicas: 4,
			strategies: []string{roll1, hold, freeA}, versions: []uint8{1, 2}, budget: budget{templates: 2, strategies: 2, crashes: 1},
		},
		{
			name: "roll-subsets", wishes: []string{"", "", ""}, first: 3, replicas: 3, subsetsTo: []uint8{3, 7, 6, 5},
			strategies: []string{roll1}, versions: []uint8{1, 2}, budget: budget{templates: 1, strategies: 2, crashes: 1},
		},
		{
			name: "roll-tick", wishes: []string{"", ""}, first: 3, replicas: 4,
			strategies: []string{roll1}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, crashes: 1, ticks: 1},
		},
		{
			name: "roll-minready", wishes: []string{"", ""}, first: 3, replicas: 4, minReady: true,
			strategies: []string{roll2}, versions: []uint8{1, 2}, budget: budget{templates: 2, crashes: 1, ticks: 3},
		},
		{
			name: "roll-delete", wishes: []string{"", ""}, first: 3, replicas: 4,
			strategies: []string{roll1}, loseReplicaSets: true, versions: []uint8{1, 2}, budget: budget{templates: 2, deletions: 1, deaths: 1},
		},
		{
			name: "roll-pause-delete", wishes: []string{"", ""}, first: 3, replicas: 4, scaledTo: []uint8{0, 4},
			strategies: []string{roll1}, loseReplicaSets: true, versions: []uint8{1, 2}, budget: budget{templates: 1, pauses: 2, deletions: 1, scales: 1},
			meets: []string{nothingThere},
		},
		{ // not one of his: a single subset, so that the exceptions are met soon
			name: "held-mix", wishes: []string{""}, first: 1, replicas: 2, scaledTo: []uint8{2, 4},
			strategies: []string{hold, freeA}, versions: []uint8{1, 2}, loseReplicaSets: true, budget: budget{templates: 1, strategies: 2, deletions: 1, scales: 1},
			meets: []string{mixGrows, oldLost},
		},
	}
}

// TestWorlds walks through all worlds.
func TestWorlds(t *testing.T) {
	t.Parallel()
	for _, c := range settings() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := c.walk(statesOf())
			t.Logf("%d states, %d of them looked at, depth %d; exceptions: %v", len(k.nodes), k.looked, k.depth(), k.w.excepted)
			for _, key := range k.order {
				f := k.found[key]
				t.Errorf("%s: %s (%d times)\n%s", f.rule, f.what, f.count, f.story)
			}
			for _, exception := range c.meets {
				if k.w.excepted[exception] == 0 {
					t.Errorf("it is no exception any more: %s", exception)
				}
			}
		})
	}
}
