// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"flag"
	"testing"
)

//	go test ./test/clonesetworlds -run TestWorlds -v
//	    walks through a little of every world, as make test does, and tells how many states that were
//	go test ./test/clonesetworlds -run TestWorlds -worlds-large -timeout 0
//	    looks at many more (make fuzz)
//	-worlds 5000
//	    looks at so many states of each world
//
// A breach is told once of each kind, with a shortest way to it; see show for how to read a state.
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
			name: "manual-one", wishes: one, first: 1, replicas: 2,
			strategies: []string{hold, oneA, freeA}, versions: []uint8{1, 2}, budget: budget{templates: 2, strategies: 2, flaps: 1},
		},
		{
			name: "manual-three-versions", wishes: one, first: 1, replicas: 2,
			strategies: []string{hold, oneA}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, strategies: 1, evictions: 1},
		},
		{ // a pod of the version that is protected is chosen, for it is not ready, and one of that in between is left
			name: "manual-between", wishes: one, first: 1, replicas: 3,
			strategies: []string{twoA}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, flaps: 1},
			meets: []string{twoEarlier},
		},
		{
			name: "manual-bad", wishes: one, first: 1, replicas: 2, bad: 1 << 2,
			strategies: []string{hold, oneA, freeA}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, strategies: 2, evictions: 1},
		},
		{
			name: "manual-scale", wishes: one, first: 1, replicas: 2, scaledTo: []uint8{0, 1, 2, 3},
			strategies: []string{hold, oneA, halfA}, versions: []uint8{1, 2}, budget: budget{templates: 1, strategies: 1, scales: 2},
		},
		{
			name: "manual-delete", wishes: one, first: 1, replicas: 3, scaledTo: []uint8{0, 3},
			strategies: []string{oneA, twoA}, versions: []uint8{1, 2}, budget: budget{templates: 1, strategies: 1, deletions: 1, scales: 1, deaths: 1},
		},
		{
			name: "manual-evict-stale", wishes: one, first: 1, replicas: 3,
			strategies: []string{twoA, oneA}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, evictions: 1, stales: 1},
		},
		{
			name: "manual-lag", wishes: one, first: 1, replicas: 2, bad: 1 << 2,
			strategies: []string{oneA, freeA}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, strategies: 1, lags: 1, flaps: 1},
		},
		{
			name: "manual-pause", wishes: one, first: 1, replicas: 2, scaledTo: []uint8{0, 2, 3},
			strategies: []string{hold, oneA}, versions: []uint8{1, 2}, budget: budget{templates: 1, strategies: 1, pauses: 2, scales: 1},
		},
		{ // held, or taken back, before the CloneSet has been seen to observe what was released
			name: "manual-held-at-once", wishes: one, first: 1, replicas: 2,
			strategies: []string{oneA, hold}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, strategies: 1},
		},
		{
			name: "manual-held-and-scaled", wishes: one, first: 1, replicas: 2, scaledTo: []uint8{1, 3},
			strategies: []string{oneA, hold}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, strategies: 1, scales: 1},
		},
		{ // paused before that
			name: "manual-paused-at-once", wishes: one, first: 1, replicas: 3,
			strategies: []string{oneA}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, pauses: 1},
		},
		{
			name: "manual-two", wishes: []string{"2", ""}, first: 3, replicas: 3, scaledTo: []uint8{0, 3, 4},
			strategies: []string{hold, oneA, open}, versions: []uint8{1, 2}, budget: budget{templates: 1, strategies: 2, scales: 1},
		},
		{
			name: "manual-subsets", wishes: []string{"", "", ""}, first: 3, replicas: 3, subsetsTo: []uint8{3, 7, 6, 5},
			strategies: []string{hold, freeA}, versions: []uint8{1, 2}, budget: budget{templates: 1, strategies: 2, stales: 1},
		},
		{
			name: "manual-surge", wishes: one, first: 1, replicas: 2, surge: 1, lingers: true,
			strategies: []string{hold, oneA, freeA}, versions: []uint8{1, 2}, budget: budget{templates: 2, strategies: 2, flaps: 1},
		},
		{
			name: "roll1", wishes: two, first: 3, replicas: 4,
			strategies: []string{roll1}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, flaps: 1},
		},
		{
			name: "roll2", wishes: []string{"3", "2"}, first: 3, replicas: 5,
			strategies: []string{roll2}, versions: []uint8{1, 2}, budget: budget{templates: 1, flaps: 1, evictions: 1},
		},
		{
			name: "roll-one", wishes: one, first: 1, replicas: 3,
			strategies: []string{roll1, rollHalf}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, flaps: 1, crashes: 1, stales: 1},
		},
		{
			name: "roll-lag", wishes: one, first: 1, replicas: 3,
			strategies: []string{roll1}, versions: []uint8{1, 2}, budget: budget{templates: 2, flaps: 1, lags: 1, deaths: 1},
		},
		{
			name: "roll-linger", wishes: two, first: 3, replicas: 3, lingers: true,
			strategies: []string{roll1}, versions: []uint8{1, 2}, budget: budget{templates: 1, evictions: 1, flaps: 1},
		},
		{
			name: "roll-scale", wishes: two, first: 3, replicas: 4, scaledTo: []uint8{0, 2, 4, 6},
			strategies: []string{roll1}, versions: []uint8{1, 2}, budget: budget{templates: 1, scales: 2},
		},
		{
			name: "roll-half-scale", wishes: two, first: 3, replicas: 4, scaledTo: []uint8{2, 4, 6},
			strategies: []string{rollHalf}, versions: []uint8{1, 2}, budget: budget{templates: 1, scales: 2, evictions: 1},
		},
		{
			name: "roll-pause", wishes: two, first: 3, replicas: 4, scaledTo: []uint8{0, 4},
			strategies: []string{roll1, rollHeld}, versions: []uint8{1, 2}, budget: budget{templates: 1, pauses: 2, strategies: 1, scales: 1},
		},
		{
			name: "roll-bad", wishes: two, first: 3, replicas: 4, scaledTo: []uint8{4, 6},
			strategies: []string{roll2}, bad: 1 << 2, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, scales: 1, stales: 1},
		},
		{
			name: "roll-bad-tick", wishes: two, first: 3, replicas: 3,
			strategies: []string{roll1}, bad: 1 << 2, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, flaps: 1, ticks: 1},
		},
		{
			name: "roll-seq", wishes: two, first: 3, replicas: 4,
			strategies: []string{seq1}, versions: []uint8{1, 2}, budget: budget{templates: 2, flaps: 1, evictions: 1},
		},
		{
			name: "roll-skew", wishes: []string{"3", "2"}, first: 3, replicas: 5,
			strategies: []string{skew}, versions: []uint8{1, 2}, budget: budget{templates: 2, flaps: 1},
		},
		{
			name: "steps", wishes: two, first: 3, replicas: 4,
			strategies: []string{steps, stepsB}, versions: []uint8{1, 2, 3}, budget: budget{templates: 2, strategies: 1},
		},
		{
			name: "steps-delete", wishes: two, first: 3, replicas: 4, scaledTo: []uint8{0, 4},
			strategies: []string{steps}, versions: []uint8{1, 2}, budget: budget{templates: 1, deletions: 1, deaths: 1, scales: 1},
		},
		{
			name: "switch", wishes: two, first: 3, replicas: 4,
			strategies: []string{roll1, hold, oneA}, versions: []uint8{1, 2}, budget: budget{templates: 2, strategies: 2},
		},
		{
			name: "roll-subsets", wishes: []string{"", "", ""}, first: 3, replicas: 3, subsetsTo: []uint8{3, 7, 6, 5},
			strategies: []string{roll1}, versions: []uint8{1, 2}, budget: budget{templates: 1, strategies: 2, flaps: 1},
		},
		{
			name: "roll-minready", wishes: two, first: 3, replicas: 3, minReady: true,
			strategies: []string{roll1}, versions: []uint8{1, 2}, budget: budget{templates: 1, flaps: 1, ticks: 3},
		},
		{
			name: "roll-surge", wishes: two, first: 3, replicas: 4, surge: 1,
			strategies: []string{roll1}, versions: []uint8{1, 2}, budget: budget{templates: 2, flaps: 1, stales: 1},
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
