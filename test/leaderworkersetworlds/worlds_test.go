// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"flag"
	"testing"

	"github.com/unitedworkloads/united/test/worlds"
)

//	go test ./test/leaderworkersetworlds -run TestWorlds -v
//	    walks through a little of every world, as make test does, and tells how many states that were
//	go test ./test/leaderworkersetworlds -run TestWorlds -worlds-large -timeout 0
//	    looks at many more (make fuzz)
//	-worlds 5000
//	    looks at so many states of each world
//
// A breach is told once of each kind, with a shortest way to it; see Show for how to read a state.
var (
	worldsLarge  = flag.Bool("worlds-large", false, "look at many more states of each world")
	worldsStates = flag.Int("worlds", 600, "how many states of each world are looked at")
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

// of is what may happen in a world.
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
		all[i].older = i%2 == 1 // every other one on the oldest Kubernetes that is tested
	}
	return all
}

func manualSettings() []setting {
	one := []string{""}
	twoVersions, three := []uint8{1, 2}, []uint8{1, 2, 3}
	return []setting{
		{Setting: worlds.Setting{
			Name: "manual-one", Wishes: one, First: 1, Replicas: 2, Strategies: []string{hold, oneA, freeA}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 2, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-three-versions", Wishes: one, First: 1, Replicas: 2, Strategies: []string{hold, oneA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 1, worlds.Evictions: 1}),
		}},
		{groups: groups{workers: true}, Setting: worlds.Setting{
			Name: "manual-workers", Wishes: one, First: 1, Replicas: 2, Strategies: []string{oneA, hold}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Evictions: 1}),
		}},
		{ // the leader comes up before its worker does; it is far from the beginning
			groups: groups{workers: true}, least: 3_000, Setting: worlds.Setting{
				Name: "manual-hasty", Wishes: one, First: 1, Replicas: 1, Strategies: []string{freeA, hold}, Versions: twoVersions,
				Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Evictions: 1}), Meets: []string{hasty, truncated},
			},
		},
		{Setting: worlds.Setting{
			Name: "manual-bad", Wishes: one, First: 1, Replicas: 2, Bad: 1 << 2, Strategies: []string{hold, oneA, freeA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 2, worlds.Evictions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-scale", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 1, 2, 3}, Strategies: []string{hold, oneA, halfA},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Scales: 2}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-delete", Wishes: one, First: 1, Replicas: 3, ScaledTo: []uint8{0, 3}, Strategies: []string{oneA, twoA},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Deletions: 1, worlds.Scales: 1, worlds.Deaths: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-forgets", Wishes: one, First: 1, Replicas: 3, Strategies: []string{twoA, freeA}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Forgets: 1, worlds.Evictions: 1}), Meets: []string{forgot},
		}},
		{Setting: worlds.Setting{
			Name: "manual-evict-stale", Wishes: one, First: 1, Replicas: 3, Strategies: []string{twoA, oneA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Evictions: 1, worlds.Stales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-lag", Wishes: one, First: 1, Replicas: 2, Bad: 1 << 2, Strategies: []string{oneA, freeA}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 1, worlds.Lags: 1, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-pause", Wishes: one, First: 1, Replicas: 2, ScaledTo: []uint8{0, 2, 3}, Strategies: []string{hold, oneA},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 1, worlds.Pauses: 2, worlds.Scales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-two", Wishes: []string{"2", ""}, First: 3, Replicas: 3, ScaledTo: []uint8{0, 3, 4}, Strategies: []string{hold, oneA, open},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 2, worlds.Scales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "manual-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5}, Strategies: []string{hold, freeA},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 2, worlds.Stales: 1}),
		}},
		{groups: groups{workers: true, restarts: true}, Setting: worlds.Setting{
			Name: "manual-restarts", Wishes: one, First: 1, Replicas: 2, Strategies: []string{oneA, hold}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Crashes: 1, worlds.Evictions: 1}),
		}},
	}
}

func rollingSettings() []setting {
	one, two := []string{""}, []string{"", ""}
	twoVersions, three := []uint8{1, 2}, []uint8{1, 2, 3}
	return []setting{
		{Setting: worlds.Setting{
			Name: "roll1", Wishes: two, First: 3, Replicas: 4, Strategies: []string{roll1}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll2", Wishes: []string{"3", "2"}, First: 3, Replicas: 5, Strategies: []string{roll2}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Flaps: 1, worlds.Evictions: 1}),
		}},
		{groups: groups{workers: true}, Setting: worlds.Setting{
			Name: "roll-workers", Wishes: two, First: 3, Replicas: 3, Strategies: []string{roll1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Flaps: 1, worlds.Evictions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-one", Wishes: one, First: 1, Replicas: 3, Strategies: []string{roll1, rollHalf}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1, worlds.Crashes: 1, worlds.Stales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-lag", Wishes: one, First: 1, Replicas: 3, Strategies: []string{roll1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1, worlds.Lags: 1, worlds.Deaths: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-scale", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 2, 4, 6}, Strategies: []string{roll1},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Scales: 2}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-half-scale", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{2, 4, 6}, Strategies: []string{rollHalf},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Scales: 2, worlds.Evictions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-forgets", Wishes: two, First: 3, Replicas: 4, Strategies: []string{rollHalf}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Forgets: 1, worlds.Evictions: 1}), Meets: []string{forgot},
		}},
		{Setting: worlds.Setting{
			Name: "roll-pause", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4}, Strategies: []string{roll1, rollHeld},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Pauses: 2, worlds.Strategies: 1, worlds.Scales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-bad", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{4, 6}, Strategies: []string{roll2}, Bad: 1 << 2, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Scales: 1, worlds.Stales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-bad-tick", Wishes: two, First: 3, Replicas: 3, Strategies: []string{roll1}, Bad: 1 << 2, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1, worlds.Ticks: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-seq", Wishes: two, First: 3, Replicas: 4, Strategies: []string{seq1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1, worlds.Evictions: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-skew", Wishes: []string{"3", "2"}, First: 3, Replicas: 5, Strategies: []string{skew}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "steps", Wishes: two, First: 3, Replicas: 4, Strategies: []string{steps, stepsB}, Versions: three,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "steps-delete", Wishes: two, First: 3, Replicas: 4, ScaledTo: []uint8{0, 4}, Strategies: []string{steps}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Deletions: 1, worlds.Deaths: 1, worlds.Scales: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "switch", Wishes: two, First: 3, Replicas: 4, Strategies: []string{roll1, hold, oneA}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 2, worlds.Strategies: 2}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-subsets", Wishes: []string{"", "", ""}, First: 3, Replicas: 3, SubsetsTo: []uint8{3, 7, 6, 5}, Strategies: []string{roll1},
			Versions: twoVersions, Budget: of(may{worlds.Templates: 1, worlds.Strategies: 2, worlds.Flaps: 1}),
		}},
		{Setting: worlds.Setting{
			Name: "roll-minready", Wishes: two, First: 3, Replicas: 3, MinReady: true, Strategies: []string{roll1}, Versions: twoVersions,
			Budget: of(may{worlds.Templates: 1, worlds.Flaps: 1, worlds.Ticks: 3}),
		}},
		{groups: groups{workers: true, restarts: true}, Setting: worlds.Setting{
			Name: "roll-restarts", Wishes: two, First: 3, Replicas: 3, Strategies: []string{roll1}, Versions: twoVersions,
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
			w := newWorld(&c)
			k := worlds.Walk[state](w, max(c.least, statesOf()))
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
