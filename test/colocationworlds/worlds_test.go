// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"testing"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

const (
	open  = `{"type":"Manual","manualUpdate":{"defaultPartition":0}}`
	held  = `{"type":"Manual","manualUpdate":{"partitions":{},"defaultPartition":"100%"}}`
	half  = `{"type":"Manual","manualUpdate":{"partitions":{"a":1,"b":"0%"},"defaultPartition":"100%"}}`
	roll1 = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}`
	roll3 = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":3,"maxSkew":"34%"}}`
	turns = `{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2,"order":"Sequential"}}`
	seq   = v1alpha1.SequentialGroups
	par   = v1alpha1.ParallelGroups
)

var (
	newest  = statefulset.Kind{CountsUnavailable: true}
	older   = statefulset.Kind{}
	ordered = statefulset.Kind{CountsUnavailable: true, Ordered: true}
	plenty  = [3]uint8{9, 9, 9}
)

func members(order v1alpha1.ColocationOrder, ratios ...int) topology {
	t := topology{order: order}
	for _, n := range ratios {
		t.subsets = append(t.subsets, dealt{ratio: n})
	}
	return t
}

func (t topology) and(text string) topology {
	t.subsets = append(t.subsets[:len(t.subsets):len(t.subsets)], dealt{text: text})
	return t
}

func (t topology) alone() topology {
	t.exclusive = true
	return t
}

// settings returns the worlds.
func settings() []setting {
	return []setting{
		{
			cluster: cluster{topologies: []topology{members(seq, 2, 1)}, nodes: plenty, kind: newest, images: []string{"v1"}},
			Setting: worlds.Setting{
				Name: "growth", Replicas: 5, Strategies: []string{roll1}, Versions: []uint8{1},
				ScaledTo: []uint8{0, 2, 3, 4, 6}, Budget: worlds.Budget{worlds.Scales: 2, worlds.Flaps: 2, worlds.Deletions: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1)}, nodes: plenty, kind: older, images: []string{"v1"}},
			Setting: worlds.Setting{
				Name: "growth of one to one", Replicas: 6, Strategies: []string{open}, Versions: []uint8{1},
				ScaledTo: []uint8{0, 1, 3, 5}, Budget: worlds.Budget{worlds.Scales: 2, worlds.Flaps: 2, worlds.Deletions: 1, worlds.Losses: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 2).and("1")}, nodes: plenty, kind: newest, images: []string{"v1", "v2"}},
			Setting: worlds.Setting{
				Name: "one member", Replicas: 6, Strategies: []string{roll1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{0, 1, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Flaps: 1, worlds.Templates: 1, worlds.Losses: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1)}, nodes: plenty, kind: newest, images: []string{"v1", "v2", "broken3"}},
			Setting: worlds.Setting{
				Name: "templates in growth", Replicas: 6, Strategies: []string{roll1}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{2, 4}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 3, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1)}, nodes: plenty, kind: older, images: []string{"v1", "v2", "slow3"}},
			Setting: worlds.Setting{
				Name: "templates that never get ready", Replicas: 6, Strategies: []string{roll3}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{2, 4}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 3, worlds.Losses: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 2, 1)}, nodes: plenty, kind: ordered, images: []string{"broken1", "v2"}},
			Setting: worlds.Setting{
				Name: "a faulty first template", Replicas: 6, Strategies: []string{roll1, held}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 2, worlds.Strategies: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 2, 1)}, nodes: plenty, kind: newest, images: []string{"broken1", "v2", "slow3"}},
			Setting: worlds.Setting{
				Name: "a faulty first template of Parallel sets", Replicas: 6, Strategies: []string{roll3, half}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 2, worlds.Strategies: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1).and("1")}, nodes: plenty, kind: newest, images: []string{"v1", "v2", "broken3"}},
			Setting: worlds.Setting{
				Name: "Manual in growth", Replicas: 5, Strategies: []string{half, held, open}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{3, 7}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 2, worlds.Strategies: 2, worlds.Losses: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1)}, nodes: plenty, kind: older, images: []string{"v1", "v2"}, rests: true},
			Setting: worlds.Setting{
				Name: "held", Replicas: 4, Strategies: []string{held}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{0, 2, 6}, Budget: worlds.Budget{worlds.Scales: 2, worlds.Templates: 1, worlds.Deletions: 1, worlds.Losses: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 2, 1).and("1")}, nodes: plenty, kind: newest, images: []string{"v1", "v2", "broken3"}, rests: true},
			Setting: worlds.Setting{
				Name: "a canary, and growth", Replicas: 4, Strategies: []string{half, held}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{2, 5, 7}, Budget: worlds.Budget{worlds.Scales: 2, worlds.Templates: 2, worlds.Strategies: 2, worlds.Deletions: 1, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1)}, nodes: plenty, kind: newest, images: []string{"v1", "v2", "broken3"}},
			Setting: worlds.Setting{
				Name: "paused", Replicas: 4, Strategies: []string{roll1}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{2, 6}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 2, worlds.Pauses: 2},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 2, 1)}, nodes: [3]uint8{3, 2, 1}, nodesTo: []uint8{0, 1, 3}, kind: newest, images: []string{"v1", "v2"}},
			Setting: worlds.Setting{
				Name: "little room", Replicas: 6, Strategies: []string{roll1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{2, 3, 5}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 1, worlds.Nodes: 2},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1)}, nodes: [3]uint8{2, 2, 2}, kind: newest, images: []string{"v1", "big2", "v3"}},
			Setting: worlds.Setting{
				Name: "big replicas", Replicas: 6, Strategies: []string{roll1, roll3}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{2, 4}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 2, worlds.Strategies: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 2, 1)}, nodes: [3]uint8{3, 3, 0}, kind: older, images: []string{"big1", "v2", "v3"}},
			Setting: worlds.Setting{
				Name: "big replicas of Kubernetes 1.36", Replicas: 6, Strategies: []string{roll1, half}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{2, 4}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 2, worlds.Strategies: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1).alone(), members(par, 1, 1)}, nodes: plenty, nodesTo: []uint8{0, 2}, kind: newest, images: []string{"v1"}},
			Setting: worlds.Setting{
				Name: "exclusive", Replicas: 4, Strategies: []string{roll1}, Versions: []uint8{1},
				ScaledTo: []uint8{2, 6}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Topologies: 2, worlds.Nodes: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members("", 2, 1), members(seq, 2, 1), members(seq, 1, 1), members(par, 1, 2)}, nodes: plenty, kind: newest, images: []string{"v1"}},
			Setting: worlds.Setting{
				Name: "on, off, and other ratios", Replicas: 5, Strategies: []string{roll1}, Versions: []uint8{1},
				ScaledTo: []uint8{3, 6}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Topologies: 2, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members("", 2, 1), members(seq, 2, 1), members(seq, 1, 1)}, nodes: plenty, kind: older, images: []string{"v1"}},
			Setting: worlds.Setting{
				Name: "on, off, and other ratios under Manual", Replicas: 5, Strategies: []string{open, half}, Versions: []uint8{1},
				ScaledTo: []uint8{3, 6}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Topologies: 2, worlds.Strategies: 1, worlds.Losses: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1).and("-"), members(seq, 1, 1).and("2"), members(seq, 1, 1, 1), {order: seq, subsets: []dealt{{ratio: 1}, {text: "-"}, {ratio: 1}}}}, nodes: plenty, kind: newest, images: []string{"v1"}},
			Setting: worlds.Setting{
				Name: "other members", Replicas: 4, Strategies: []string{roll1}, Versions: []uint8{1},
				ScaledTo: []uint8{2, 6}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Topologies: 2},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1)}, nodes: plenty, kind: newest, images: []string{"v1", "v2"}},
			Setting: worlds.Setting{
				Name: "faults of the manager", Replicas: 4, Strategies: []string{roll1}, Versions: []uint8{1, 2},
				ScaledTo: []uint8{2, 6}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 1, worlds.Deaths: 1, worlds.Stales: 1, worlds.Lags: 1, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 1, 1).and("1")}, nodes: plenty, kind: newest, images: []string{"v1", "v2", "broken3"}},
			Setting: worlds.Setting{
				Name: "in turns", Replicas: 5, Strategies: []string{turns}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{3, 7}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 2, worlds.Flaps: 1},
			},
		},
		{
			cluster: cluster{topologies: []topology{members(seq, 2, 1)}, nodes: plenty, kind: ordered, images: []string{"v1", "v2", "broken3"}},
			Setting: worlds.Setting{
				Name: "ordered", Replicas: 6, Strategies: []string{roll1, half}, Versions: []uint8{1, 2, 3},
				ScaledTo: []uint8{0, 2, 3}, Budget: worlds.Budget{worlds.Scales: 1, worlds.Templates: 2, worlds.Flaps: 1, worlds.Strategies: 1},
			},
		},
	}
}

// mostStates bounds a walk, randomWays the number of random ways through each world.
const (
	mostStates = 160
	randomWays = 2
)

// TestWorlds walks through everything that is near the first state of each world.
func TestWorlds(t *testing.T) {
	for _, c := range settings() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			worlds.Run[state](t, newWorld(&c), mostStates)
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
			worlds.Wander[state](t, newWorld(&c), randomWays)
		})
	}
}
