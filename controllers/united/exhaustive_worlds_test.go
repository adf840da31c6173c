// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/statefulset"
)

// manual is a strategy Manual with a partition for each subset.
func manual(partitions ...intstr.IntOrString) v1alpha1.UpdateStrategy {
	m := &v1alpha1.ManualUpdate{DefaultPartition: percentOf(100), Partitions: map[string]intstr.IntOrString{}}
	for k, p := range partitions {
		m.Partitions[subsetName(k)] = p
	}
	return v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: m}
}

// rolling is a strategy RollingUpdate.
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

func sequential(r *v1alpha1.RollingUpdate) { r.Order = v1alpha1.SequentialOrder }

func skew(percent string) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) { r.MaxSkew = percent }
}

func floorOf(n int32) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) { r.Partition = intOf(n) }
}

// step is a wave: all subsets, down to a partition. pause is its duration, "approval",
// or "" for none.
func step(partition intstr.IntOrString, pause string, subsets ...string) func(*v1alpha1.RollingUpdate) {
	return func(r *v1alpha1.RollingUpdate) {
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

// kinds are the four kinds of StatefulSet.
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
		configs = append(configs, one)
	}
	return configs
}

// smallConfigs are all small worlds.
func smallConfigs() []smallConfig {
	var configs []smallConfig
	for _, some := range [][]smallConfig{manualConfigs(), rollingConfigs(), stepConfigs()} {
		configs = append(configs, some...)
	}
	return configs
}

func manualConfigs() []smallConfig {
	var configs []smallConfig
	configs = append(configs, kinds("Manual, one subset", smallConfig{
		replicas: 3, subsets: one,
		variants: []v1alpha1.UpdateStrategy{manual(all), manual(*intOf(1)), manual(none)},
		edits:    edits(templates(1, 2, 3), these(variant(1, "partition 1"), variant(2, "partition 0"), scaleTo(0), scaleTo(3))),
		budget:   budget{budgetEdit: 3, budgetUnready: 1, budgetTick: 1, budgetEvict: 1}.whole(),
	})...)
	return configs
}

func rollingConfigs() []smallConfig {
	var configs []smallConfig
	configs = append(configs, kinds("RollingUpdate, two subsets", smallConfig{
		replicas: 3, subsets: both,
		variants: []v1alpha1.UpdateStrategy{rolling()},
		edits:    templates(1, 2, 3),
		budget:   budget{budgetEdit: 2, budgetUnready: 1, budgetCrash: 1, budgetTick: 1}.whole(),
	})...)
	return configs
}

func stepConfigs() []smallConfig {
	var configs []smallConfig
	configs = append(configs, kinds("RollingUpdate, step with approval", smallConfig{
		replicas: 3, subsets: one,
		variants: []v1alpha1.UpdateStrategy{rolling(step(canary, "approval"))},
		edits:    edits(templates(1, 2), these(scaleTo(0), scaleTo(2), scaleTo(3))),
		budget:   budget{budgetEdit: 3, budgetUnready: 1}.whole(),
	})...)
	return configs
}
