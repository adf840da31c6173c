// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// All is a partition that protects all replicas ("a hold"). On a child it is the highest number.
const All = 255

// StrategyOf returns spec.updateStrategy.
func (w *World) StrategyOf(s *Core) *v1alpha1.UpdateStrategy {
	return &w.parent(s).object.Spec.UpdateStrategy
}

// Rolling reports whether the rollout is coordinated.
func (w *World) Rolling(s *Core) bool {
	return w.StrategyOf(s).Type == v1alpha1.RollingUpdateStrategy
}

// wishes returns what the subsets ask for now.
func (w *World) wishes(s *Core) []string {
	if s.Wishes == 0 || len(w.Topologies) > 0 {
		return w.Wishes
	}
	return w.MovedTo[s.Wishes-1]
}

// Allotted returns how many replicas a subset gets: its number if it has one, otherwise an even share of the rest,
// rounded in favor of the first subsets. In all worlds the numbers fit into the total, unless the total is 0.
func (w *World) Allotted(s *Core, k int) int {
	left, sharing, before := int(s.Replicas), 0, 0
	for i, wish := range w.wishes(s) {
		if n, err := strconv.Atoi(wish); err == nil && s.Has(i) {
			if left -= n; i == k {
				return min(n, int(s.Replicas))
			}
		} else if s.Has(i) {
			sharing++
			before += Int(i < k)
		}
	}
	if left = max(0, left); sharing == 0 {
		return 0
	}
	return left/sharing + Int(before < left%sharing)
}

// Partition returns how many replicas of a subset the spec protects in a state: none below it may be updated.
func (w *World) Partition(s *Core, k int) int {
	u := w.StrategyOf(s)
	switch {
	case w.Rolling(s):
		return w.coordinated(s, k, u.RollingUpdate)
	case w.GoingBack(s):
		return 0 // "partition and bound revision protect nothing from it"
	case u.ManualUpdate == nil:
		return All
	}
	if v, ok := u.ManualUpdate.Partitions[SubsetName(k)]; ok {
		return w.number(s, k, &v)
	}
	return w.number(s, k, u.ManualUpdate.DefaultPartition)
}

// Kept is Partition, or more if that is a percentage: "scaling releases nothing". What stays protected then depends on the
// history, which the tests of coordination have; here it is what the status says.
func (w *World) Kept(s *Core, k int) int {
	partition, m := w.Partition(s, k), w.StrategyOf(s).ManualUpdate
	if w.Rolling(s) || m == nil || partition >= All {
		return partition
	}
	value, named := m.Partitions[SubsetName(k)]
	if !named || value.Type == intstr.Int {
		return partition
	}
	for _, sub := range w.Status(s).Subsets {
		if sub.Name == SubsetName(k) {
			return max(partition, int(sub.Partition))
		}
	}
	return partition
}

// number converts a partition: "ceil(p * R / 100) of the subset's own allocated replicas".
func (w *World) number(s *Core, k int, v *intstr.IntOrString) int {
	switch {
	case v == nil, v.String() == "100%":
		return All
	case v.Type == intstr.Int:
		return v.IntValue()
	}
	percent, _ := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return (percent*w.Allotted(s, k) + 99) / 100
}

// Floor returns spec.updateStrategy.rollingUpdate.partition for a subset.
func (w *World) Floor(s *Core, k int) int {
	if r := w.StrategyOf(s).RollingUpdate; r.Partition != nil {
		return w.number(s, k, r.Partition)
	}
	return 0
}

// coordinated returns the higher of the floor and of the target of the steps up to the current one; going back skips
// steps. Before the rollout is recorded everything is protected ("Nothing is acted on that is not on record").
func (w *World) coordinated(s *Core, k int, r *v1alpha1.RollingUpdate) int {
	switch {
	case w.GoingBack(s):
		return w.Floor(s, k)
	case !w.Begun(s):
		return All
	}
	return w.upTo(s, k, r, int(w.Status(s).Rollout.Step))
}

// Highest returns the highest partition that a subset may get now. If the user has edited steps since the last pass, it
// is that of the first step, because the rollout may have to start again: "The position is bound to the steps before the
// running one", and so only "editing the running step or a later one loses nothing".
func (w *World) Highest(s *Core, k int) int {
	partition, r := w.Partition(s, k), w.StrategyOf(s).RollingUpdate
	if s.PassGeneration == s.Generation || len(r.Steps) == 0 {
		return partition
	}
	return max(partition, w.upTo(s, k, r, 0))
}

// upTo returns the partition of a step, which follows from all steps up to it.
func (w *World) upTo(s *Core, k int, r *v1alpha1.RollingUpdate, step int) int {
	floor := w.Floor(s, k)
	if step >= len(r.Steps) {
		return floor
	}
	target := All
	for _, step := range r.Steps[:step+1] {
		if !slices.Contains(step.Subsets, v1alpha1.AllSubsets) && !slices.Contains(step.Subsets, SubsetName(k)) {
			continue
		}
		n := w.number(s, k, step.Partition)
		if n != All { // "below 100% it releases at least one replica of each of its subsets"
			n = min(n, max(0, w.Allotted(s, k)-1))
		}
		target = min(target, n)
	}
	return max(floor, target)
}

// Begun reports whether the rollout is recorded.
func (w *World) Begun(s *Core) bool {
	rollout := w.Status(s).Rollout
	return rollout != nil && rollout.Revision == w.UpdateRevision(s)
}

// GoingBack reports whether the update revision is the one that all replicas ran last.
func (w *World) GoingBack(s *Core) bool { return w.Status(s).CurrentRevision == w.UpdateRevision(s) }

// Bound returns maxUnavailable.
func (w *World) Bound(s *Core) int {
	r := w.StrategyOf(s).RollingUpdate
	if r.MaxUnavailable == nil {
		return 1
	}
	return atLeastOne(r.MaxUnavailable, int(s.Replicas))
}

// BoundOf is maxUnavailablePerSubset: "number or percentage of the subset's replicas (rounded down, at least 1)".
func (w *World) BoundOf(s *Core, k int) int {
	r := w.StrategyOf(s).RollingUpdate
	if r.MaxUnavailablePerSubset == nil || !s.Has(k) {
		return All
	}
	return atLeastOne(r.MaxUnavailablePerSubset, w.Allotted(s, k))
}

func atLeastOne(v *intstr.IntOrString, of int) int {
	if v.Type == intstr.String {
		percent, _ := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
		return max(1, percent*of/100)
	}
	return v.IntValue()
}

// ToRelease returns how many replicas of a subset are above the floor.
func (w *World) ToRelease(s *Core, k int) int { return w.Allotted(s, k) - w.Floor(s, k) }

// MaxSkew returns maxSkew in percent; -1 if it is not set.
func (w *World) MaxSkew(s *Core) int {
	text := w.StrategyOf(s).RollingUpdate.MaxSkew
	if text == "" {
		return -1
	}
	percent, _ := strconv.Atoi(strings.TrimSuffix(text, "%"))
	return percent
}
