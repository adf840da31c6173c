// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"testing"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
)

const (
	open  = `{"type":"Manual","manualUpdate":{"defaultPartition":0}}`
	roll1 = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}`
	half  = `{"type":"Manual","manualUpdate":{"partitions":{"a":1},"defaultPartition":"100%"}}`
	skewA = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":3,"maxSkew":"10%","maxSkewSubsets":["a","b"]}}`
	each1 = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":3,"maxUnavailablePerSubset":1}}`
)

var newest = statefulset.Kind{CountsUnavailable: true}

// skewWorld is a world whose first two subsets are bound by maxSkew, and whose third one must not wait for them.
const skewWorld = "skew of two subsets"

// settings returns the worlds.
func settings() []*setting {
	four := [][]uint8{{0, 1, 2, 4}, {0, 1, 2, 4}, {0, 4}}
	return []*setting{
		{
			name: "scaling while a subset is full", topologies: []topology{{adaptive, []string{"..2", "..2", ""}}}, strategies: []string{roll1},
			replicas: 2, nodes: [maxKids]uint8{1, 1, 4}, scaledTo: []uint8{1, 2, 3, 4}, nodesTo: [maxKids][]uint8{{0, 1, 2}, {0, 1, 2}},
			kind: newest, budget: budget{scales: 2, nodes: 1},
		},
		{
			name: "a minimum on a full subset", topologies: []topology{{adaptive, []string{"1..2", ""}}}, strategies: []string{roll1},
			replicas: 2, nodes: [maxKids]uint8{0, 4}, scaledTo: []uint8{0, 1, 2, 3, 4}, nodesTo: [maxKids][]uint8{{0, 1, 2}},
			kind: newest, budget: budget{scales: 2, nodes: 1, deletions: 1},
		},
		{
			name: "rollouts while a subset is full", topologies: []topology{{adaptive, []string{"..2", ""}}}, strategies: []string{roll1},
			replicas: 3, nodes: [maxKids]uint8{1, 4}, scaledTo: []uint8{2, 3, 4}, nodesTo: [maxKids][]uint8{{0, 1, 2}},
			versions: 2, kind: newest, budget: budget{scales: 1, nodes: 1, templates: 2, flaps: 1},
		},
		{
			name: "a partition while a subset is full", topologies: []topology{{adaptive, []string{"..2", ""}}}, strategies: []string{half, open},
			replicas: 3, nodes: [maxKids]uint8{1, 4}, scaledTo: []uint8{2, 3, 4}, nodesTo: [maxKids][]uint8{{0, 1, 2}},
			versions: 2, kind: newest, budget: budget{scales: 1, nodes: 1, templates: 1, strategies: 1, deletions: 1},
		},
		{
			name: "reserved replicas", topologies: []topology{{reserve, []string{"", "", ""}}}, strategies: []string{roll1},
			replicas: 2, nodes: [maxKids]uint8{0, 1, 4}, scaledTo: []uint8{1, 2, 3}, nodesTo: [maxKids][]uint8{{0, 1, 2, 4}, {0, 1, 2}},
			versions: 2, kind: newest, budget: budget{scales: 1, nodes: 2, templates: 1, flaps: 1},
		},
		{
			name: "reserved replicas under Manual", topologies: []topology{{reserve, []string{"", ""}}}, strategies: []string{open},
			replicas: 2, nodes: [maxKids]uint8{1, 4}, scaledTo: []uint8{1, 2, 3}, nodesTo: [maxKids][]uint8{{0, 1, 2, 4}, {2, 4}},
			versions: 2, kind: newest, budget: budget{scales: 1, nodes: 2, templates: 1, flaps: 1, deletions: 1},
		},
		{
			name: "reserved replicas within bounds", topologies: []topology{{reserve, []string{"1..2", "1", ""}}}, strategies: []string{roll1},
			replicas: 3, nodes: [maxKids]uint8{0, 0, 4}, scaledTo: []uint8{1, 2, 3}, nodesTo: [maxKids][]uint8{{0, 1, 2}, {0, 1, 2}},
			versions: 1, kind: newest, budget: budget{scales: 1, nodes: 2, deletions: 1},
		},
		{
			name: "other topologies", topologies: []topology{
				{adaptive, []string{"..2", "", "-"}}, {fixed, []string{"..2", "", "-"}}, {reserve, []string{"..2", "", "-"}},
				{adaptive, []string{"2..2", "", "-"}}, {adaptive, []string{"-", "", "1"}}, {adaptive, []string{"", "..1", ""}},
			},
			strategies: []string{roll1}, replicas: 3, nodes: [maxKids]uint8{1, 2, 4}, nodesTo: [maxKids][]uint8{{0, 2}, {4}},
			versions: 2, kind: newest, budget: budget{topologies: 2, nodes: 1, templates: 1},
		},
		{
			name: "faults of the manager", topologies: []topology{{adaptive, []string{"..2", ""}}}, strategies: []string{roll1},
			replicas: 2, nodes: [maxKids]uint8{1, 4}, scaledTo: []uint8{1, 2, 3}, nodesTo: [maxKids][]uint8{{0, 1, 2}},
			versions: 2, kind: newest, budget: budget{scales: 1, nodes: 1, templates: 1, deletions: 1, deaths: 1, stales: 1, lags: 1},
		},
		{
			name: "faults of the manager with reserved replicas", topologies: []topology{{reserve, []string{"", ""}}}, strategies: []string{roll1},
			replicas: 2, nodes: [maxKids]uint8{1, 4}, scaledTo: []uint8{1, 2, 3}, nodesTo: [maxKids][]uint8{{0, 1, 2}},
			versions: 2, kind: newest, budget: budget{scales: 1, nodes: 1, templates: 1, deletions: 1, deaths: 1, stales: 1, lags: 1},
		},
		{
			name: "limits per subset", topologies: []topology{{adaptive, []string{"2", ""}}}, strategies: []string{each1, roll1},
			replicas: 4, nodes: [maxKids]uint8{2, 4}, scaledTo: []uint8{3, 4}, nodesTo: [maxKids][]uint8{{1, 2}},
			versions: 2, kind: newest, budget: budget{scales: 1, nodes: 1, templates: 2, flaps: 1, strategies: 1},
		},
		{
			name: "limits per subset with reserved replicas", topologies: []topology{{reserve, []string{"..3", ""}}}, strategies: []string{each1},
			replicas: 3, nodes: [maxKids]uint8{2, 3}, scaledTo: []uint8{2, 3}, nodesTo: [maxKids][]uint8{{1, 2, 3}, {2, 3}},
			versions: 2, kind: newest, budget: budget{scales: 1, nodes: 2, templates: 2, flaps: 1},
		},
		{
			name: skewWorld, topologies: []topology{{fixed, []string{"2..2", "2..2", ""}}}, strategies: []string{skewA},
			replicas: 6, nodes: [maxKids]uint8{2, 2, 2}, versions: 2, kind: newest, budget: budget{templates: 2, flaps: 1},
		},
		{
			name: "percentages", topologies: []topology{{fixed, []string{"50%..50%", "34%", "..34%"}}, {adaptive, []string{"50%..50%", "34%", "..34%"}}}, strategies: []string{roll1},
			replicas: 2, nodes: [maxKids]uint8{2, 2, 2}, scaledTo: []uint8{0, 1, 2, 3, 4, 5}, nodesTo: [maxKids][]uint8{four[0], four[1], four[2]},
			versions: 1, kind: newest, budget: budget{scales: 2, nodes: 1, topologies: 1},
		},
		{
			name: "reserved replicas of Kubernetes 1.36", topologies: []topology{{reserve, []string{"", ""}}}, strategies: []string{roll1, open},
			replicas: 3, nodes: [maxKids]uint8{1, 4}, scaledTo: []uint8{2, 3}, nodesTo: [maxKids][]uint8{{0, 1, 3}},
			versions: 2, budget: budget{scales: 1, nodes: 1, templates: 2, flaps: 1, deletions: 1},
		},
	}
}

// mostStates bounds a walk, randomWays the number of random ways through each world.
const (
	mostStates = 1000
	randomWays = 12
)

// ofShort returns how many of n are walked: with -short, a third.
func ofShort(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

// TestWorlds walks through everything that is near the first state of each world.
func TestWorlds(t *testing.T) {
	for _, c := range settings() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if k := run(t, c, ofShort(mostStates)); c.name == skewWorld && k.w.ahead == 0 {
				t.Error("the third subset waits for the others")
			}
		})
	}
}

// Random ways come further than the walk, which visits everything that is near.
func TestRandomWays(t *testing.T) {
	for _, c := range settings() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for i := range c.budget {
				c.budget[i] *= 3
			}
			k := newWalk(c)
			root := k.root()
			for seed := range uint64(ofShort(randomWays)) {
				k.wander(root, seed)
			}
			k.report(t)
		})
	}
}
