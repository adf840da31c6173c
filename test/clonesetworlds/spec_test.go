// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// all is a partition that protects whatever there may be ("a hold"). On a CloneSet it is the highest number.
const all = 255

func (w *world) strategy(s *state) *v1alpha1.UpdateStrategy {
	p, _ := w.parent(s)
	return &p.Spec.UpdateStrategy
}

func (w *world) rolling(s *state) bool {
	return w.strategy(s).Type == v1alpha1.RollingUpdateStrategy
}

// allotted is how many replicas a subset gets: the numbers that are wished for, and the rest shared evenly, more to
// those in front. There are no worlds in which the wishes are more than there is, but for none at all.
func (w *world) allotted(s *state, k int) int {
	left, sharing, before := int(s.Replicas), 0, 0
	for i, wish := range w.wishes {
		if n, err := strconv.Atoi(wish); err == nil && s.has(i) {
			if left -= n; i == k {
				return min(n, int(s.Replicas))
			}
		} else if s.has(i) {
			sharing++
			before += toInt(i < k)
		}
	}
	if left = max(0, left); sharing == 0 {
		return 0
	}
	return left/sharing + toInt(before < left%sharing)
}

// partition is how many pods of a subset the spec protects, as things stand: below it none is moved.
func (w *world) partition(s *state, k int) int {
	u := w.strategy(s)
	switch {
	case w.rolling(s):
		return w.coordinated(s, k, u.RollingUpdate)
	case u.ManualUpdate == nil:
		return 0
	}
	if v, ok := u.ManualUpdate.Partitions[subsetName(k)]; ok {
		return w.number(s, k, &v)
	}
	return w.number(s, k, u.ManualUpdate.DefaultPartition)
}

// number is a partition as a number: "ceil(p * R / 100) of the subset's own allocated replicas".
func (w *world) number(s *state, k int, v *intstr.IntOrString) int {
	switch {
	case v == nil, v.String() == "100%":
		return all
	case v.Type == intstr.Int:
		return v.IntValue()
	}
	percent, _ := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return (percent*w.allotted(s, k) + 99) / 100
}

// coordinated is the higher of the floor and of the target of the steps up to the running one, which the way back
// passes by. Before the rollout is on record all is protected ("Nothing is acted on that is not on record").
func (w *world) coordinated(s *state, k int, r *v1alpha1.RollingUpdate) int {
	floor := 0
	if r.Partition != nil {
		floor = w.number(s, k, r.Partition)
	}
	status := w.status(s)
	switch {
	case w.goingBack(s):
		return floor
	case !w.begun(s):
		return all
	case int(status.Rollout.Step) >= len(r.Steps):
		return floor
	}
	target := all
	for _, step := range r.Steps[:status.Rollout.Step+1] {
		if len(step.Subsets) > 0 && !slices.Contains(step.Subsets, subsetName(k)) {
			continue
		}
		n := w.number(s, k, step.Partition)
		if step.Partition == nil {
			n = 0
		}
		if n != all { // "below 100% it releases at least one replica of each of its subsets"
			n = min(n, max(0, w.allotted(s, k)-1))
		}
		target = min(target, n)
	}
	return max(floor, target)
}

// begun reports whether the rollout is on record.
func (w *world) begun(s *state) bool {
	rollout := w.status(s).Rollout
	return rollout != nil && rollout.Revision == w.updateRevision(s)
}

// goingBack reports whether the update revision is the one that all replicas ran last.
func (w *world) goingBack(s *state) bool { return w.status(s).CurrentRevision == w.updateRevision(s) }

// bound is maxUnavailable.
func (w *world) bound(s *state) int {
	r := w.strategy(s).RollingUpdate
	if r.MaxUnavailable == nil {
		return 1
	}
	if r.MaxUnavailable.Type == intstr.String {
		percent, _ := strconv.Atoi(strings.TrimSuffix(r.MaxUnavailable.StrVal, "%"))
		return max(1, percent*int(s.Replicas)/100)
	}
	return r.MaxUnavailable.IntValue()
}

// failed reports whether an updated replica is failed.
func (s *state) failed() bool {
	return slices.ContainsFunc(s.Children[:], func(c child) bool {
		return c.count(of(s.Version), func(p *pod) bool { return p.Phase == crashed }) > 0
	})
}

// protects are the versions that a subset may protect; where the oracle has none yet, what the parent ran last.
func (w *world) protects(s *state, k int) uint8 {
	if v := s.Children[k].Protects; v != 0 {
		return v
	}
	return bit(w.versionOf[w.status(s).CurrentRevision])
}
