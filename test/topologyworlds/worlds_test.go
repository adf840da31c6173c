// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"testing"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/test/worlds"
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
func settings() []setting {
	four := [][]uint8{{0, 1, 2, 4}, {0, 1, 2, 4}, {0, 4}}
	return []setting{
		{
			cluster: cluster{topologies: []topology{{adaptive, []string{"..2", "..2", ""}}}, nodes: [3]uint8{1, 1, 4}, nodesTo: [3][]uint8{{0, 1, 2}, {0, 1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "scaling while a subset is full", Replicas: 2, Strategies: []string{roll1}, Versions: []uint8{1},
				ScaledTo: []uint8{1, 2, 3, 4}, Budget: worlds.Budget{worlds.Scales: 2, worlds.Nodes: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{adaptive, []string{"1..2", ""}}}, nodes: [3]uint8{0, 4}, nodesTo: [3][]uint8{{0, 1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "a minimum on a full subset", Replicas: 2, Strategies: []string{roll1}, Versions: []uint8{1},
				ScaledTo: []uint8{0, 1, 2, 3, 4}, Budget: worlds.Budget{worlds.Scales: 2, worlds.Nodes: 1, worlds.Deletions: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{adaptive, []string{"..2", ""}}}, nodes: [3]uint8{1, 4}, nodesTo: [3][]uint8{{0, 1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "rollouts while a subset is full", Replicas: 3, Strategies: []string{roll1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{2, 3, 4}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 1, worlds.Templates: 2, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{adaptive, []string{"..2", ""}}}, nodes: [3]uint8{1, 4}, nodesTo: [3][]uint8{{0, 1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "a partition while a subset is full", Replicas: 3, Strategies: []string{half, open}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{2, 3, 4}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 1, worlds.Templates: 1, worlds.Strategies: 1, worlds.Deletions: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{reserve, []string{"", "", ""}}}, nodes: [3]uint8{0, 1, 4}, nodesTo: [3][]uint8{{0, 1, 2, 4}, {0, 1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "reserved replicas", Replicas: 2, Strategies: []string{roll1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 2, worlds.Templates: 1, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{reserve, []string{"", ""}}}, nodes: [3]uint8{1, 4}, nodesTo: [3][]uint8{{0, 1, 2, 4}, {2, 4}}, kind: newest},
			Setting: worlds.Setting{
				Name: "reserved replicas under Manual", Replicas: 2, Strategies: []string{open}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 2, worlds.Templates: 1, worlds.Flaps: 1, worlds.Deletions: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{reserve, []string{"1..2", "1", ""}}}, nodes: [3]uint8{0, 0, 4}, nodesTo: [3][]uint8{{0, 1, 2}, {0, 1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "reserved replicas within bounds", Replicas: 3, Strategies: []string{roll1}, Versions: []uint8{1},
				ScaledTo: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 2, worlds.Deletions: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{adaptive, []string{"..2", "", "-"}}, {fixed, []string{"..2", "", "-"}}, {reserve, []string{"..2", "", "-"}}, {adaptive, []string{"2..2", "", "-"}}, {adaptive, []string{"-", "", "1"}}, {adaptive, []string{"", "..1", ""}}}, nodes: [3]uint8{1, 2, 4}, nodesTo: [3][]uint8{{0, 2}, {4}}, kind: newest},
			Setting: worlds.Setting{
				Name: "other topologies", Replicas: 3, Strategies: []string{roll1}, Versions: []uint8{1, 2},
				Budget: worlds.Budget{worlds.Topologies: 2, worlds.Nodes: 1, worlds.Templates: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{adaptive, []string{"..2", ""}}}, nodes: [3]uint8{1, 4}, nodesTo: [3][]uint8{{0, 1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "faults of the manager", Replicas: 2, Strategies: []string{roll1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 1, worlds.Templates: 1, worlds.Deletions: 1, worlds.Deaths: 1, worlds.Stales: 1, worlds.Lags: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{reserve, []string{"", ""}}}, nodes: [3]uint8{1, 4}, nodesTo: [3][]uint8{{0, 1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "faults of the manager with reserved replicas", Replicas: 2, Strategies: []string{roll1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{1, 2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 1, worlds.Templates: 1, worlds.Deletions: 1, worlds.Deaths: 1, worlds.Stales: 1, worlds.Lags: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{adaptive, []string{"2", ""}}}, nodes: [3]uint8{2, 4}, nodesTo: [3][]uint8{{1, 2}}, kind: newest},
			Setting: worlds.Setting{
				Name: "limits per subset", Replicas: 4, Strategies: []string{each1, roll1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{3, 4}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 1, worlds.Templates: 2, worlds.Flaps: 1, worlds.Strategies: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{reserve, []string{"..3", ""}}}, nodes: [3]uint8{2, 3}, nodesTo: [3][]uint8{{1, 2, 3}, {2, 3}}, kind: newest},
			Setting: worlds.Setting{
				Name: "limits per subset with reserved replicas", Replicas: 3, Strategies: []string{each1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 2, worlds.Templates: 2, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{fixed, []string{"2..2", "2..2", ""}}}, nodes: [3]uint8{2, 2, 2}, kind: newest},
			Setting: worlds.Setting{
				Name: skewWorld, Replicas: 6, Strategies: []string{skewA}, Versions: []uint8{1, 2},
				Budget: worlds.Budget{worlds.Templates: 2, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{fixed, []string{"50%..50%", "34%", "..34%"}}, {adaptive, []string{"50%..50%", "34%", "..34%"}}}, nodes: [3]uint8{2, 2, 2}, nodesTo: [3][]uint8{four[0], four[1], four[2]}, kind: newest},
			Setting: worlds.Setting{
				Name: "percentages", Replicas: 2, Strategies: []string{roll1}, Versions: []uint8{1},
				ScaledTo: []uint8{0, 1, 2, 3, 4, 5}, Budget: worlds.Budget{worlds.Scales: 2, worlds.Nodes: 1, worlds.Topologies: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{{reserve, []string{"", ""}}}, nodes: [3]uint8{1, 4}, nodesTo: [3][]uint8{{0, 1, 3}}},
			Setting: worlds.Setting{
				Name: "reserved replicas of Kubernetes 1.36", Replicas: 3, Strategies: []string{roll1, open}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Nodes: 1, worlds.Templates: 2, worlds.Flaps: 1, worlds.Deletions: 1},
			},
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
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(&c)
			if worlds.Run[state](t, w, ofShort(mostStates)); c.Name == skewWorld && w.ahead == 0 {
				t.Error("the third subset waits for the others")
			}
		})
	}
}

// Random ways come further than the walk, which visits everything that is near.
func TestRandomWays(t *testing.T) {
	for _, c := range settings() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for i := range c.Budget {
				c.Budget[i] *= 3
			}
			worlds.Wander[state](t, newWorld(&c), ofShort(randomWays))
		})
	}
}
