// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"testing"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
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
	plenty  = [maxDomains]uint8{9, 9, 9}
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
func settings() []*setting {
	return []*setting{
		{
			name: "growth", topologies: []topology{members(seq, 2, 1)}, strategies: []string{roll1}, images: []string{"v1"},
			replicas: 5, nodes: plenty, scaledTo: []uint8{0, 2, 3, 4, 6}, kind: newest, budget: budget{scales: 2, flaps: 2, deletions: 1},
		},
		{
			name: "growth of one to one", topologies: []topology{members(seq, 1, 1)}, strategies: []string{open}, images: []string{"v1"},
			replicas: 6, nodes: plenty, scaledTo: []uint8{0, 1, 3, 5}, kind: older, budget: budget{scales: 2, flaps: 2, deletions: 1, losses: 1},
		},
		{
			name: "one member", topologies: []topology{members(seq, 2).and("1")}, strategies: []string{roll1}, images: []string{"v1", "v2"},
			replicas: 6, nodes: plenty, scaledTo: []uint8{0, 1, 3}, kind: newest, budget: budget{scales: 1, flaps: 1, templates: 1, losses: 1},
		},
		{
			name: "templates in growth", topologies: []topology{members(seq, 1, 1)}, strategies: []string{roll1}, images: []string{"v1", "v2", "broken3"},
			replicas: 6, nodes: plenty, scaledTo: []uint8{2, 4}, kind: newest, budget: budget{scales: 1, templates: 3, flaps: 1},
		},
		{
			name: "templates that never get ready", topologies: []topology{members(seq, 1, 1)}, strategies: []string{roll3}, images: []string{"v1", "v2", "slow3"},
			replicas: 6, nodes: plenty, scaledTo: []uint8{2, 4}, kind: older, budget: budget{scales: 1, templates: 3, losses: 1},
		},
		{
			name: "a faulty first template", topologies: []topology{members(seq, 2, 1)}, strategies: []string{roll1, held}, images: []string{"broken1", "v2"},
			replicas: 6, nodes: plenty, scaledTo: []uint8{2, 3}, kind: ordered, budget: budget{scales: 1, templates: 2, strategies: 1},
		},
		{
			name: "a faulty first template of Parallel sets", topologies: []topology{members(seq, 2, 1)}, strategies: []string{roll3, half}, images: []string{"broken1", "v2", "slow3"},
			replicas: 6, nodes: plenty, scaledTo: []uint8{2, 3}, kind: newest, budget: budget{scales: 1, templates: 2, strategies: 1},
		},
		{
			name: "Manual in growth", topologies: []topology{members(seq, 1, 1).and("1")}, strategies: []string{half, held, open}, images: []string{"v1", "v2", "broken3"},
			replicas: 5, nodes: plenty, scaledTo: []uint8{3, 7}, kind: newest, budget: budget{scales: 1, templates: 2, strategies: 2, losses: 1},
		},
		{
			name: "held", topologies: []topology{members(seq, 1, 1)}, strategies: []string{held}, images: []string{"v1", "v2"},
			replicas: 4, nodes: plenty, scaledTo: []uint8{0, 2, 6}, kind: older, budget: budget{scales: 2, templates: 1, deletions: 1, losses: 1}, rests: true,
		},
		{
			name: "a canary, and growth", topologies: []topology{members(seq, 2, 1).and("1")}, strategies: []string{half, held}, images: []string{"v1", "v2", "broken3"},
			replicas: 4, nodes: plenty, scaledTo: []uint8{2, 5, 7}, kind: newest, budget: budget{scales: 2, templates: 2, strategies: 2, deletions: 1, flaps: 1}, rests: true,
		},
		{
			name: "paused", topologies: []topology{members(seq, 1, 1)}, strategies: []string{roll1, "paused " + roll1}, images: []string{"v1", "v2", "broken3"},
			replicas: 4, nodes: plenty, scaledTo: []uint8{2, 6}, kind: newest, budget: budget{scales: 1, templates: 2, strategies: 2},
		},
		{
			name: "little room", topologies: []topology{members(seq, 2, 1)}, strategies: []string{roll1}, images: []string{"v1", "v2"},
			replicas: 6, nodes: [maxDomains]uint8{3, 2, 1}, scaledTo: []uint8{2, 3, 5}, nodesTo: []uint8{0, 1, 3}, kind: newest,
			budget: budget{scales: 1, templates: 1, nodes: 2},
		},
		{
			name: "big replicas", topologies: []topology{members(seq, 1, 1)}, strategies: []string{roll1, roll3}, images: []string{"v1", "big2", "v3"},
			replicas: 6, nodes: [maxDomains]uint8{2, 2, 2}, scaledTo: []uint8{2, 4}, kind: newest, budget: budget{scales: 1, templates: 2, strategies: 1},
		},
		{
			name: "big replicas of Kubernetes 1.36", topologies: []topology{members(seq, 2, 1)}, strategies: []string{roll1, half}, images: []string{"big1", "v2", "v3"},
			replicas: 6, nodes: [maxDomains]uint8{3, 3, 0}, scaledTo: []uint8{2, 4}, kind: older, budget: budget{scales: 1, templates: 2, strategies: 1},
		},
		{
			name: "exclusive", topologies: []topology{members(seq, 1, 1).alone(), members(par, 1, 1)}, strategies: []string{roll1}, images: []string{"v1"},
			replicas: 4, nodes: plenty, scaledTo: []uint8{2, 6}, nodesTo: []uint8{0, 2}, kind: newest, budget: budget{scales: 1, topologies: 2, nodes: 1},
		},
		{
			name: "on, off, and other ratios", topologies: []topology{members("", 2, 1), members(seq, 2, 1), members(seq, 1, 1), members(par, 1, 2)}, strategies: []string{roll1},
			images: []string{"v1"}, replicas: 5, nodes: plenty, scaledTo: []uint8{3, 6}, kind: newest, budget: budget{scales: 1, topologies: 2, flaps: 1},
		},
		{
			name: "on, off, and other ratios under Manual", topologies: []topology{members("", 2, 1), members(seq, 2, 1), members(seq, 1, 1)}, strategies: []string{open, half},
			images: []string{"v1"}, replicas: 5, nodes: plenty, scaledTo: []uint8{3, 6}, kind: older, budget: budget{scales: 1, topologies: 2, strategies: 1, losses: 1},
		},
		{
			name: "other members", topologies: []topology{members(seq, 1, 1).and("-"), members(seq, 1, 1).and("2"), members(seq, 1, 1, 1), {order: seq, subsets: []dealt{{ratio: 1}, {text: "-"}, {ratio: 1}}}},
			strategies: []string{roll1}, images: []string{"v1"}, replicas: 4, nodes: plenty, scaledTo: []uint8{2, 6}, kind: newest, budget: budget{scales: 1, topologies: 2},
		},
		{
			name: "faults of the manager", topologies: []topology{members(seq, 1, 1)}, strategies: []string{roll1}, images: []string{"v1", "v2"},
			replicas: 4, nodes: plenty, scaledTo: []uint8{2, 6}, kind: newest, budget: budget{scales: 1, templates: 1, deaths: 1, stales: 1, lags: 1, flaps: 1},
		},
		{
			name: "in turns", topologies: []topology{members(seq, 1, 1).and("1")}, strategies: []string{turns}, images: []string{"v1", "v2", "broken3"},
			replicas: 5, nodes: plenty, scaledTo: []uint8{3, 7}, kind: newest, budget: budget{scales: 1, templates: 2, flaps: 1},
		},
		{
			name: "ordered", topologies: []topology{members(seq, 2, 1)}, strategies: []string{roll1, half}, images: []string{"v1", "v2", "broken3"},
			replicas: 6, nodes: plenty, scaledTo: []uint8{0, 2, 3}, kind: ordered, budget: budget{scales: 1, templates: 2, flaps: 1, strategies: 1},
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
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, c, mostStates)
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
			for seed := range uint64(randomWays) {
				k.wander(root, seed)
			}
			k.report(t)
		})
	}
}
