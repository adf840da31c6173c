// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// manual returns a strategy Manual with a partition for each subset.
func manual(partitions ...intstr.IntOrString) v1alpha1.UpdateStrategy {
	m := &v1alpha1.ManualUpdate{DefaultPartition: percentOf(100), Partitions: map[string]intstr.IntOrString{}}
	for k, p := range partitions {
		m.Partitions[subsetName(k)] = p
	}
	return v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: m}
}

// rolling returns a strategy RollingUpdate.
func rolling(change ...func(*v1alpha1.RollingUpdate)) v1alpha1.UpdateStrategy {
	r := &v1alpha1.RollingUpdate{Partition: percentOf(0), MaxUnavailable: intOf(1)}
	for _, c := range change {
		c(r)
	}
	return v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: r}
}

func atMost(n int32) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) { r.MaxUnavailable = intOf(n) }
}

func eachAtMost(value intstr.IntOrString) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) { r.MaxUnavailablePerSubset = &value }
}

func sequential(r *v1alpha1.RollingUpdate) { r.Order = v1alpha1.SequentialOrder }

func skew(percent string) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) { r.MaxSkew = percent }
}

func floorOf(n int32) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) { r.Partition = intOf(n) }
}

// step adds a wave: all subsets, down to a partition. pause is its duration, "approval", or "" for none.
func step(partition intstr.IntOrString, pause string, subsets ...string) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) {
		if len(subsets) == 0 {
			subsets = []string{v1alpha1.AllSubsets}
		}
		s := v1alpha1.RolloutStep{Subsets: subsets, Partition: &partition}
		switch pause {
		case "":
		case "approval":
			s.Pause = &v1alpha1.RolloutPause{}
		default:
			s.Pause = &v1alpha1.RolloutPause{Duration: pause}
		}
		r.Steps = append(r.Steps, s)
	}
}

var (
	all, none = *percentOf(100), *percentOf(0)
	canary    = *percentOf(90)
)

// The edits.
func template(v statefulset.Version) smallEdit {
	return smallEdit{"template v" + string(rune('0'+v)), func(p *smallParent) { p.version = v }}
}

func scaleTo(n uint8) smallEdit {
	return smallEdit{"replicas " + string(rune('0'+n)), func(p *smallParent) { p.replicas = n }}
}

func variant(n uint8, name string) smallEdit {
	return smallEdit{name, func(p *smallParent) { p.variant = n }}
}

func pausing() smallEdit {
	return smallEdit{"pause or resume", func(p *smallParent) { p.paused = !p.paused }}
}

func subsetsTo(mask uint8, name string) smallEdit {
	return smallEdit{name, func(p *smallParent) { p.subsets = mask }}
}

func templates(versions ...statefulset.Version) []smallEdit {
	var edits []smallEdit
	for _, v := range versions {
		edits = append(edits, template(v))
	}
	return edits
}

func edits(some ...[]smallEdit) []smallEdit {
	var edits []smallEdit
	for _, s := range some {
		edits = append(edits, s...)
	}
	return edits
}

func these(some ...smallEdit) []smallEdit { return some }

type budget map[int]uint8

func (b budget) whole() [budgets]uint8 {
	var whole [budgets]uint8
	for kind, n := range b {
		whole[kind] = n
	}
	return whole
}

const (
	one  = 1
	both = 3
)

// kinds returns a world for each of the four kinds of StatefulSet.
func kinds(name string, c smallConfig) []smallConfig {
	var configs []smallConfig
	for _, kind := range []struct {
		name string
		kind statefulset.Kind
	}{
		{"Parallel, 1.36", statefulset.Kind{}},
		{"Parallel, 1.37", statefulset.Kind{CountsUnavailable: true}},
		{"OrderedReady, 1.36", statefulset.Kind{Ordered: true}},
		{"OrderedReady, 1.37", statefulset.Kind{Ordered: true, CountsUnavailable: true}},
	} {
		one := c
		one.name = name + ", " + kind.name
		minReady := one.kind.MinReady
		one.kind = kind.kind
		one.kind.MinReady = minReady
		// OrderedReady updates only while all replicas are available, so the two controllers behave the same.
		one.large = one.large || kind.kind.Ordered && !kind.kind.CountsUnavailable
		configs = append(configs, one)
	}
	return configs
}

// withMore returns a world, and a large one with more disturbances.
func withMore(name string, c smallConfig, more budget) []smallConfig {
	large := c
	large.large = true
	for kind, n := range more {
		large.budget[kind] += n
	}
	return append(kinds(name, c), kinds(name+", and more", large)...)
}

// smallConfigs returns all small worlds.
func smallConfigs() []smallConfig {
	var configs []smallConfig
	for _, some := range [][]smallConfig{manualConfigs(), moreManualConfigs(), rollingConfigs(), moreRollingConfigs(), perSubsetConfigs(), stepConfigs(), backConfigs(), forcedConfigs(), freshConfigs(), checkConfigs(), rejectConfigs(), runConfigs(), queryConfigs()} {
		configs = append(configs, some...)
	}
	return configs
}

func manualConfigs() []smallConfig {
	partitions := []v1alpha1.UpdateStrategy{manual(all), manual(*intOf(1)), manual(none)}
	move := these(variant(1, "partition 1"), variant(2, "partition 0"))
	return slices.Concat(
		kinds("Manual, a canary", smallConfig{
			replicas: 3, subsets: one, variants: partitions,
			edits:  edits(templates(2, 3), move),
			budget: budget{budgetEdit: 3, budgetUnready: 1, budgetTick: 1}.whole(),
		}),
		kinds("Manual, held at once", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(*intOf(1)), manual(all)},
			edits:  edits(templates(1, 2, 3), these(variant(1, "hold"), scaleTo(1), scaleTo(3), pausing())),
			budget: budget{budgetEdit: 3}.whole(),
		}),
		kinds("Manual, two unready", smallConfig{
			replicas: 3, subsets: one, variants: partitions,
			edits:  edits(templates(2), move),
			budget: budget{budgetEdit: 2, budgetUnready: 2, budgetCrash: 1, budgetTick: 1}.whole(),
		}),
		kinds("Manual, to 0 and back", smallConfig{
			replicas: 2, subsets: one, variants: partitions,
			edits:  edits(templates(1, 2, 3), move, these(scaleTo(0), scaleTo(2))),
			budget: budget{budgetEdit: 4}.whole(),
		}),
		kinds("Manual, subsets come and go", smallConfig{
			replicas: 3, subsets: both,
			variants: []v1alpha1.UpdateStrategy{manual(all, all), manual(none, all)},
			edits:    edits(templates(2), these(variant(1, "release a"), subsetsTo(one, "b goes"), subsetsTo(both, "b comes"), pausing())),
			budget:   budget{budgetEdit: 4}.whole(),
		}),
		withMore("Manual, a child forgets", smallConfig{
			replicas: 2, subsets: one, variants: partitions,
			edits:  edits(templates(2), move),
			budget: budget{budgetEdit: 2, budgetForget: 1, budgetEvict: 1, budgetDie: 1}.whole(),
		}, budget{budgetStale: 1, budgetMeddle: 1}),
		withMore("Manual, a child forgets, and back or on", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(all), manual(*intOf(1))},
			edits:  edits(templates(1, 2, 3), these(variant(1, "partition 1"))),
			budget: budget{budgetEdit: 3, budgetForget: 1, budgetEvict: 1}.whole(),
		}, budget{budgetEvict: 1}),
		withMore("Rolling, a child forgets, and back or on", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(1, 2, 3),
			budget: budget{budgetEdit: 2, budgetForget: 1, budgetEvict: 1}.whole(),
		}, budget{budgetEvict: 1}),
		withMore("Manual, somebody orphans the pods", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(all), manual(*intOf(1))},
			edits:  edits(templates(2), these(variant(1, "partition 1"))),
			budget: budget{budgetEdit: 2, budgetOrphan: 1, budgetForget: 1, budgetEvict: 1}.whole(),
		}, budget{budgetEvict: 1}),
		kinds("Manual, somebody meddles and orphans, and back", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(all)},
			edits:  templates(1, 2),
			budget: budget{budgetEdit: 2, budgetMeddle: 1, budgetOrphan: 1}.whole(),
		}),
		kinds("Rolling, somebody meddles, and it is scaled", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(floorOf(1))},
			edits:  edits(templates(2), these(scaleTo(3))),
			budget: budget{budgetEdit: 2, budgetMeddle: 1}.whole(),
		}),
		kinds("Manual, somebody meddles, and back or on", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(all), manual(*intOf(1))},
			edits:  edits(templates(1, 2, 3), these(variant(1, "partition 1"))),
			budget: budget{budgetEdit: 3, budgetMeddle: 1}.whole(),
		}),
		kinds("Rolling, somebody meddles, and back or on", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(1, 2),
			budget: budget{budgetEdit: 2, budgetMeddle: 1, budgetEvict: 1}.whole(),
		}),
		kinds("Manual, somebody meddles", smallConfig{
			replicas: 2, subsets: one, variants: partitions,
			edits:  edits(templates(2), move),
			budget: budget{budgetEdit: 2, budgetMeddle: 1, budgetStale: 1}.whole(),
		}),
		withMore("Manual, somebody strips a child", smallConfig{
			replicas: 2, subsets: one, variants: partitions,
			edits:  edits(templates(2), move),
			budget: budget{budgetEdit: 2, budgetStrip: 1, budgetEvict: 1}.whole(),
		}, budget{budgetForget: 1}),
		kinds("Manual, v2 is bad", smallConfig{
			replicas: 3, subsets: one, variants: partitions, bad: bit(2),
			edits:  edits(templates(1, 2, 3), move),
			budget: budget{budgetEdit: 3, budgetTick: 1, budgetEvict: 1}.whole(),
		}),
	)
}

// boundManual returns a strategy Manual whose partitions are those of a version, see boundTo.
func boundManual(v statefulset.Version, partitions ...intstr.IntOrString) v1alpha1.UpdateStrategy {
	s := manual(partitions...)
	s.ManualUpdate.Revision = "v" + string(rune('0'+v))
	return s
}

// moreManualConfigs returns worlds about what scaling keeps, what a bound revision holds, and where undo ends.
func moreManualConfigs() []smallConfig {
	half, quarter := *percentOf(50), *percentOf(25)
	return slices.Concat(
		withMore("Manual, a percentage, scaled", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(half), manual(quarter), manual(*percentOf(75))},
			edits:  edits(templates(2), these(variant(0, "50%"), variant(1, "25%"), variant(2, "75%"), scaleTo(2), scaleTo(4))),
			budget: budget{budgetEdit: 4}.whole(),
		}, budget{budgetEvict: 1, budgetUnready: 1}),
		withMore("Manual, a percentage, scaled while replicas go", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(half)},
			edits:  edits(templates(2), these(scaleTo(2), scaleTo(4))),
			budget: budget{budgetEdit: 3, budgetEvict: 1}.whole(),
		}, budget{budgetUnready: 1}),
		kinds("Manual, a percentage, scaled while paused", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(half), manual(quarter)},
			edits:  edits(templates(2), these(variant(0, "50%"), variant(1, "25%"), scaleTo(2), scaleTo(4), pausing())),
			budget: budget{budgetEdit: 4}.whole(),
		}),
		kinds("Manual, a percentage, scaled, and late", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(half), manual(quarter)},
			edits:  edits(templates(2), these(variant(0, "50%"), variant(1, "25%"), scaleTo(2), scaleTo(4))),
			budget: budget{budgetEdit: 3, budgetDie: 1, budgetStale: 1}.whole(),
		}),
		kinds("Manual, a percentage, scaled, and somebody meddles", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(half)}, copies: true,
			edits:  edits(templates(2), these(scaleTo(2), scaleTo(4))),
			budget: budget{budgetEdit: 3, budgetMeddle: 1}.whole(),
			known: []string{
				"I6: a protected replica is left on what its subset does not protect",
				"I2: an available replica of a is deleted beside a-2",
			},
		}),
		kinds("Manual, a percentage, scaled, and somebody strips a child", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(half)},
			edits:  edits(templates(2), these(scaleTo(2), scaleTo(4))),
			budget: budget{budgetEdit: 3, budgetStrip: 1, budgetOrphan: 1}.whole(),
		}),
		kinds("Manual, a percentage, from Rolling", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(), manual(half), rolling(floorOf(2))},
			edits:  edits(templates(2), these(variant(0, "Rolling"), variant(1, "Manual 50%"), variant(2, "floor 2"), scaleTo(2), scaleTo(4))),
			budget: budget{budgetEdit: 3}.whole(),
		}),
		withMore("Manual, a percentage, and back", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(half)},
			edits:  edits(templates(1, 2, 3), these(scaleTo(2), pausing())),
			budget: budget{budgetEdit: 4}.whole(),
		}, budget{budgetUnready: 1}),
		kinds("Manual, bound to a revision", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(all), boundManual(2, none), boundManual(3, *intOf(1)), manual(half)},
			edits:  edits(templates(1, 2, 3), these(variant(1, "0 of v2"), variant(2, "1 of v3"), variant(3, "50%"))),
			budget: budget{budgetEdit: 4}.whole(),
		}),
		withMore("Manual, bound to a revision, scaled", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{boundManual(2, half), manual(half)},
			edits:  edits(templates(2, 3), these(variant(0, "50% of v2"), variant(1, "50%"), scaleTo(2), scaleTo(4))),
			budget: budget{budgetEdit: 4}.whole(),
		}, budget{budgetEvict: 1}),
		withMore("Manual, subsets apart, and back", smallConfig{
			replicas: 3, subsets: both,
			variants: []v1alpha1.UpdateStrategy{manual(all, all), manual(none, all)},
			edits:    edits(templates(1, 2, 3), these(variant(0, "hold"), variant(1, "release a"))),
			budget:   budget{budgetEdit: 4}.whole(),
		}, budget{budgetUnready: 1, budgetCrash: 1}),
		kinds("Manual, v2 is bad, and back", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{manual(none), manual(all)}, bad: bit(2),
			edits:  edits(templates(1, 2), these(variant(1, "hold"), pausing())),
			budget: budget{budgetEdit: 3, budgetUnready: 1}.whole(),
		}),
	)
}

func rollingConfigs() []smallConfig {
	return slices.Concat(
		kinds("Rolling, two subsets", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetUnready: 1, budgetCrash: 1, budgetTick: 1}.whole(),
		}),
		withMore("Rolling, back and on", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(1, 2, 3),
			budget: budget{budgetEdit: 2, budgetUnready: 1, budgetCrash: 1}.whole(),
		}, budget{budgetTick: 1}),
		kinds("Rolling, back and on with three", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling()}, large: true,
			edits:  templates(1, 2, 3),
			budget: budget{budgetEdit: 2, budgetUnready: 1, budgetCrash: 1, budgetTick: 1}.whole(),
		}),
		withMore("Rolling, v2 is bad", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()}, bad: bit(2),
			edits:  templates(1, 2, 3),
			budget: budget{budgetEdit: 2}.whole(),
		}, budget{budgetUnready: 1, budgetTick: 1}),
		kinds("Rolling, Sequential", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(sequential)},
			edits:  templates(2, 3),
			budget: budget{budgetEdit: 2, budgetUnready: 1}.whole(),
		}),
		kinds("Rolling, two at a time", smallConfig{
			replicas: 4, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(atMost(2))},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetUnready: 1, budgetEvict: 1}.whole(),
		}),
		kinds("Rolling, maxSkew", smallConfig{
			replicas: 5, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(atMost(2), skew("34%"))},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetUnready: 1, budgetCrash: 1}.whole(),
		}),
		kinds("Rolling, minReadySeconds", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()}, kind: statefulset.Kind{MinReady: true},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetUnready: 1, budgetTick: 3}.whole(),
		}),
	)
}

func moreRollingConfigs() []smallConfig {
	goesAndScales := smallEdit{"b goes, 3 replicas", func(p *smallParent) { p.subsets, p.replicas = one, 3 }}
	return slices.Concat(
		kinds("Rolling, with a floor", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(floorOf(1)), rolling(floorOf(2)), rolling()},
			edits:  edits(templates(2), these(variant(0, "floor 1"), variant(1, "floor 2"), variant(2, "no floor"))),
			budget: budget{budgetEdit: 2, budgetForget: 1, budgetEvict: 1, budgetUnready: 1}.whole(),
		}),
		withMore("Rolling, a child forgets", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetForget: 1, budgetEvict: 1, budgetDie: 1}.whole(),
		}, budget{budgetStale: 1, budgetMeddle: 1}),
		withMore("Rolling, somebody orphans the pods", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetOrphan: 1, budgetForget: 1, budgetEvict: 1}.whole(),
		}, budget{budgetEvict: 1}),
		kinds("Rolling, somebody meddles", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetMeddle: 1, budgetStale: 1}.whole(),
		}),
		withMore("Rolling, somebody strips a child", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetStrip: 1, budgetEvict: 1}.whole(),
		}, budget{budgetForget: 1}),
		withMore("Rolling, scaled", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  edits(templates(2), these(scaleTo(0), scaleTo(2), scaleTo(4), pausing())),
			budget: budget{budgetEdit: 3}.whole(),
		}, budget{budgetUnready: 1}),
		withMore("Rolling, scaled while it fails", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(atMost(2))}, bad: bit(2),
			edits:  edits(templates(2, 3), these(scaleTo(3), scaleTo(4))),
			budget: budget{budgetEdit: 3}.whole(),
		}, budget{budgetTick: 1}),
		kinds("Rolling, subsets come and go", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  edits(templates(2), these(subsetsTo(one, "b goes"), subsetsTo(both, "b comes"), pausing())),
			budget: budget{budgetEdit: 3}.whole(),
		}),
		withMore("Rolling, a subset goes, and the other grows", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  edits(templates(2), these(goesAndScales, scaleTo(3), subsetsTo(one, "b goes"))),
			budget: budget{budgetEdit: 2, budgetStale: 1}.whole(),
		}, budget{budgetEdit: 1}),
		kinds("Rolling, a subset goes that is not ready", smallConfig{
			replicas: 4, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  edits(templates(2), these(subsetsTo(one, "b goes"))),
			budget: budget{budgetEdit: 2, budgetUnready: 2}.whole(),
		}),
		kinds("Rolling, to 0 and back", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  edits(templates(1, 2), these(scaleTo(0), scaleTo(2))),
			budget: budget{budgetEdit: 3}.whole(),
		}),
	)
}

// perSubsetConfigs returns worlds with room for more replicas over all subsets than in one.
func perSubsetConfigs() []smallConfig {
	return slices.Concat(
		withMore("Rolling, per subset", smallConfig{
			replicas: 4, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(atMost(3), eachAtMost(*intOf(1)))},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetUnready: 1}.whole(),
		}, budget{budgetCrash: 1, budgetEvict: 1}),
		kinds("Rolling, per subset, and back", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(atMost(3), eachAtMost(*intOf(1)))},
			edits:  templates(1, 2),
			budget: budget{budgetEdit: 2, budgetUnready: 1}.whole(),
		}),
		kinds("Rolling, per subset, v2 is bad", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(atMost(3), eachAtMost(*intOf(1)))}, bad: bit(2),
			edits:  templates(1, 2, 3),
			budget: budget{budgetEdit: 2}.whole(),
		}),
		kinds("Rolling, per subset, scaled", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(atMost(4), eachAtMost(*percentOf(50)))},
			edits:  edits(templates(2), these(scaleTo(2), scaleTo(4))),
			budget: budget{budgetEdit: 2, budgetUnready: 1}.whole(),
		}),
		kinds("Rolling, per subset, forced", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(atMost(3), eachAtMost(*intOf(1)))},
			edits:  edits(templates(2), these(forcing())),
			budget: budget{budgetEdit: 2, budgetUnready: 1, budgetCrash: 1}.whole(),
		}),
		kinds("Rolling, maxSkew of one subset", smallConfig{
			replicas: 4, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(atMost(3), skew("34%"), func(r *v1alpha1.RollingUpdate) {
				r.MaxSkewSubsets = []string{subsetName(0)}
			})},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetUnready: 1}.whole(),
		}),
	)
}

// forcing sets the annotation force-update, to a value that it never had.
func forcing() smallEdit {
	return smallEdit{"force", func(p *smallParent) { p.forced, p.forces = p.version, p.forces+1 }}
}

func forcedConfigs() []smallConfig {
	return slices.Concat(
		withMore("Forced", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(floorOf(1))},
			edits:  edits(templates(2), these(forcing())),
			budget: budget{budgetEdit: 2, budgetUnready: 1, budgetCrash: 1}.whole(),
		}, budget{budgetTick: 1}),
		withMore("Forced, in steps", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(step(canary, "approval"))},
			edits:  edits(templates(2), these(forcing())),
			budget: budget{budgetEdit: 2, budgetCrash: 1}.whole(),
		}, budget{budgetEdit: 1}),
	)
}

func stepConfigs() []smallConfig {
	waiting := rolling(step(canary, "approval"))
	return slices.Concat(
		kinds("Steps, with approval", smallConfig{
			replicas: 3, subsets: one, variants: []v1alpha1.UpdateStrategy{waiting},
			edits:  templates(1, 2),
			budget: budget{budgetEdit: 3, budgetUnready: 1}.whole(),
		}),
		kinds("Steps, the last with approval", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(step(none, "approval"))},
			edits:  edits(templates(1, 2), these(forcing(), scaleTo(0), scaleTo(3), pausing())),
			budget: budget{budgetEdit: 3, budgetUnready: 1, budgetDie: 1}.whole(),
		}),
		kinds("Steps, to 0 and back", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(step(*intOf(2), "approval"))},
			edits:  edits(templates(1, 2), these(scaleTo(0), scaleTo(2), scaleTo(3))),
			budget: budget{budgetEdit: 3}.whole(),
		}),
		kinds("Steps, with a timed pause", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(step(canary, "10m"))},
			edits:  templates(1, 2),
			budget: budget{budgetEdit: 2, budgetUnready: 2, budgetCrash: 1, budgetTick: 2}.whole(),
		}),
		kinds("Steps, edited", smallConfig{
			replicas: 3, subsets: one,
			variants: []v1alpha1.UpdateStrategy{
				waiting, rolling(step(*intOf(1), "approval")), rolling(step(canary, "approval"), step(*intOf(1), "approval")), rolling(),
			},
			edits:  edits(templates(2), these(variant(1, "the step goes on to 1"), variant(2, "a step more"), variant(0, "one step"))),
			budget: budget{budgetEdit: 3, budgetUnready: 1}.whole(),
		}),
		kinds("Steps, by subset", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(step(none, "approval", "a"), step(none, "", "b"))},
			edits:  edits(templates(1, 2), these(scaleTo(4), pausing())),
			budget: budget{budgetEdit: 2, budgetEvict: 1}.whole(),
		}),
	)
}

// upTo sets rollbackRevisions.
func upTo(n int32) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) { r.RollbackRevisions = &n }
}

// backConfigs returns worlds that go back after a rollout has ended.
func backConfigs() []smallConfig {
	back := func(budget budget, subsets uint8, versions []smallEdit, change ...func(*v1alpha1.RollingUpdate)) smallConfig {
		strategy := rolling(append(change, step(canary, "approval"))...)
		return smallConfig{replicas: 2, subsets: subsets, variants: []v1alpha1.UpdateStrategy{strategy}, records: true, edits: versions, budget: budget.whole()}
	}
	return slices.Concat(
		withMore("Back after the end", back(budget{budgetEdit: 4}, one, templates(1, 2, 3)), budget{budgetUnready: 1}),
		withMore("Back after the end, two subsets", back(budget{budgetEdit: 3}, both, templates(1, 2)), budget{budgetUnready: 1}),
		kinds("Back after the end, never", back(budget{budgetEdit: 3}, one, templates(1, 2), upTo(0))),
		kinds("Back after the end, by two", back(budget{budgetEdit: 4}, one, templates(1, 2, 3), upTo(2))),
		kinds("Back after the end, dies", back(budget{budgetEdit: 3, budgetDie: 1}, one, templates(1, 2))),
	)
}

func freshConfigs() []smallConfig {
	return slices.Concat(
		kinds("Fresh, v1 is bad, Manual", smallConfig{
			replicas: 2, subsets: both, fresh: true, bad: bit(1), variants: []v1alpha1.UpdateStrategy{manual(all, all)},
			edits:  templates(2, 3),
			budget: budget{budgetEdit: 2}.whole(),
		}),
		kinds("Fresh, v1 is bad, Rolling", smallConfig{
			replicas: 2, subsets: both, fresh: true, bad: bit(1), variants: []v1alpha1.UpdateStrategy{rolling()},
			edits:  templates(2, 3),
			budget: budget{budgetEdit: 2}.whole(),
		}),
	)
}
