// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"slices"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/worlds"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// judged is a pass that is checked.
type judged struct {
	*placement.Judged
	w   *game
	top *topology
}

// Judge checks a pass that was decided in a state.
func (w *game) Judge(x *worlds.Pass, s *state) []worlds.Breach {
	j := &judged{Judged: placement.NewJudged(w.World, x, s), w: w, top: &w.topologies[s.Wishes]}
	j.sums()
	j.inBounds()
	j.caps()
	if j.top.mode == adaptive {
		j.placedStays()
		j.cappedTakesPlaced()
	}
	if j.top.mode == reserve {
		j.reserved()
	}
	j.writes()
	if r := w.StrategyOf(&s.Core).RollingUpdate; r != nil {
		j.Ledger(j.Replicas)
		if r.MaxUnavailablePerSubset != nil {
			j.ledgers(r.MaxUnavailablePerSubset.IntValue())
		}
		if r.MaxSkew != "" {
			j.skew(share(r.MaxSkew, 100, false), r.MaxSkewSubsets)
		}
	} else {
		j.substitutes()
	}
	return j.Breaches
}

func (j *judged) real(k int) int {
	sub := j.Plans[k]
	if sub == nil {
		return 0
	}
	return int(sub.Desired - sub.Reserved)
}

// sums: the subsets have exactly the replicas of the parent, without the reserved ones.
func (j *judged) sums() {
	sum := 0
	for k, sub := range j.Plans {
		sum += j.real(k)
		if sub.Desired < 0 || sub.Reserved < 0 || sub.Reserved > sub.Desired {
			j.Say("sum", "%s gets %d with %d reserved", sub.Name, sub.Desired, sub.Reserved)
		}
	}
	// With reserve, a substitute stays until the replica that it stands for is available.
	if len(j.Plans) > 0 && (sum < j.Replicas || sum > j.Replicas && j.top.mode != reserve) {
		j.Say("sum", "the subsets get %d of %d replicas", sum, j.Replicas)
	}
	if j.top.mode != fixed {
		return
	}
	want := j.top.fill(j.Replicas)
	for k, sub := range j.Plans {
		if j.top.bounded() && int(sub.Desired) != want[k] {
			j.Say("fill", "%s gets %d instead of %d of %d", sub.Name, sub.Desired, want[k], j.Replicas)
		}
	}
}

// inBounds: minimums and maximums hold, and are filled in list order if the minimums are too many.
func (j *judged) inBounds() {
	few := j.top.minimums(j.Replicas) > j.Replicas
	if contrary := few || j.top.contrary(j.Replicas); contrary == j.X.Plan.Allocation.Honored && j.top.bounded() {
		j.Say("honored", "the bounds cannot be met: %v, and honored: %v", contrary, j.X.Plan.Allocation.Honored)
	}
	for k, sub := range j.Plans {
		low, high := j.top.minimum(k, j.Replicas), j.top.maximum(k, j.Replicas)
		if few {
			low = j.top.fill(j.Replicas)[k]
		}
		if int(sub.Desired) < low {
			j.Say("minimum", "%s gets %d, below its minimum %d", sub.Name, sub.Desired, low)
		}
		if int(sub.Desired) > high {
			j.Say("maximum", "%s gets %d, above its maximum %d", sub.Name, sub.Desired, high)
		}
	}
}

// caps: a subset is capped when, and as long as, the issue says.
func (j *judged) caps() {
	for k, sub := range j.Plans {
		want := no
		if j.top.mode != fixed {
			want = isCapped(&j.S.Kids[k])
		}
		if want == yes && sub.Cap == nil || want == no && sub.Cap != nil {
			j.Say("cap", "%s capped: %v", sub.Name, sub.Cap != nil)
		}
	}
}

// placedStays: what is placed is never moved away, and if there is too much of it, what is not placed goes first, and
// then the end of the list.
func (j *judged) placedStays() {
	sum, possible := 0, true
	for k := range j.Plans {
		n := max(kept(&j.S.Kids[k]), j.top.minimum(k, j.Replicas))
		sum += n
		possible = possible && n <= j.top.maximum(k, j.Replicas)
	}
	for k, sub := range j.Plans {
		has := min(j.keeps(k), j.top.maximum(k, j.Replicas))
		if int(sub.Desired) >= has {
			continue
		}
		if possible && sum <= j.Replicas && !j.decided(sub) {
			j.Say("placed stays", "%s gets %d and has %d", sub.Name, sub.Desired, has)
		}
		if has = min(placedTop(&j.S.Kids[k], false), has); int(sub.Desired) >= has || j.decided(sub) {
			continue
		}
		for i, other := range j.Plans {
			low := j.top.minimum(i, j.Replicas)
			if int(other.Desired) > max(kept(&j.S.Kids[i]), placedTop(&j.S.Kids[i], true), low) {
				j.Say("unplaced first", "%s gets %d and has %d, while %s gets %d", sub.Name, sub.Desired, has, other.Name, other.Desired)
			}
			if i > k && int(other.Desired) > low {
				j.Say("end of the list first", "%s gets %d and has %d, while %s gets %d", sub.Name, sub.Desired, has, other.Name, other.Desired)
			}
		}
	}
}

// keeps returns how many replicas a subset keeps if there is room. While an edit is being carried out, a replica that is
// being replaced may go first.
func (j *judged) keeps(k int) int {
	if c := j.S.Kids[k]; j.S.Edited {
		for i := range c.Set.Pods {
			if !placement.IsPlaced(&c.Set.Pods[i]) || c.Set.Pods[i].Terminating {
				c.Had &^= 1 << i
			}
		}
		return kept(&c)
	}
	return kept(&j.S.Kids[k])
}

// decided reports whether an earlier pass has decided on no more replicas.
func (j *judged) decided(sub *planner.SubsetPlan) bool {
	known := world.SubsetStatus(j.w.Status(&j.S.Core), sub.Name)
	return known != nil && known.DesiredReplicas <= sub.Desired
}

// cappedTakesPlaced: a subset that is on record as capped gets no more than what is placed, and its minimum, unless no
// other one has room.
func (j *judged) cappedTakesPlaced() {
	for k, sub := range j.Plans {
		c := &j.S.Kids[k]
		most := max(kept(c), placedTop(c, true), j.top.minimum(k, j.Replicas))
		known := world.SubsetStatus(j.w.Status(&j.S.Core), sub.Name)
		if sub.Cap == nil || known == nil || known.Cap == nil || int(known.Cap.Replicas) > most || int(sub.Desired) <= most {
			continue
		}
		for i, other := range j.Plans {
			if other.Cap == nil && int(other.Desired) < j.top.maximum(i, j.Replicas) {
				j.Say("capped", "%s is capped and gets %d instead of %d, while %s has room", sub.Name, sub.Desired, most, other.Name)
			}
		}
	}
}

// reserved: only replicas of capped subsets that have no node are reserved.
func (j *judged) reserved() {
	for k, sub := range j.Plans {
		without := 0
		for i := range min(int(sub.Desired), statefulset.MaxPods) {
			p := &j.S.Kids[k].Set.Pods[i]
			without += worlds.Int(!placement.IsPlaced(p) || p.Terminating || i >= int(j.S.Kids[k].Set.Replicas)) // the last will be gone
		}
		if int(sub.Reserved) > without || sub.Reserved > 0 && sub.Cap == nil {
			j.Say("reserved", "%s reserves %d, and %d have no node; capped: %v", sub.Name, sub.Reserved, without, sub.Cap != nil)
		}
	}
}

// writes: no child is asked for fewer replicas than its subset gets, except a seed.
func (j *judged) writes() {
	for _, wr := range j.X.Writes {
		sub := j.Plans[wr.Child]
		if sub != nil && wr.Action != subset.ActionSeed && wr.Action != subset.ActionCreate && wr.Remind == 0 && !wr.Remove && int(wr.Replicas) < int(sub.Desired) &&
			wr.Replicas < j.S.Kids[wr.Child].Set.Replicas {
			j.Say("write", "%s gets %d and is written with %d", sub.Name, sub.Desired, wr.Replicas)
		}
	}
}

// ledgers: the same for each subset. What the subset loses to others is not unavailable.
func (j *judged) ledgers(most int) {
	before, after := placement.Lasting(j.S, true), placement.Lasting(j.After(j.X.Deletes), true)
	for k := range j.Plans {
		if after[k] < before[k] && after[k] < j.real(k)-most {
			j.Say("ledger of a subset", "%d of %d replicas of %s stay available, before it were %d", after[k], j.real(k), worlds.SubsetName(k), before[k])
		}
	}
}

// substitutes: under Manual too, substitutes go only when others are available.
func (j *judged) substitutes() {
	before, after := placement.SumOf(placement.Lasting(j.S, false)), placement.SumOf(placement.Lasting(j.After(nil), false))
	if j.top.mode == reserve && !j.S.Edited && after < before && after < j.Replicas {
		j.Say("substitutes", "%d of %d replicas stay available, before it were %d", after, j.Replicas, before)
	}
}

// skew: the subsets that maxSkew binds release no more than the slowest of them and maxSkew allow; if that lets nobody
// move, the slowest gets one. Going back, and from a revision that is not the one before, is left out.
func (j *judged) skew(percent int, names []string) {
	before, after := j.S, j.After(j.X.Deletes)
	slowest := 100
	for k, sub := range j.Plans {
		c := &before.Kids[k].Set
		if !slices.Contains(names, sub.Name) || c.Replicas == 0 {
			continue
		}
		done := 0
		for i := range c.Pods {
			done += worlds.Int(c.Pods[i].Ready() && uint8(c.Pods[i].Version) == j.S.Version && i < int(c.Replicas))
		}
		slowest = min(slowest, 100*done/int(c.Replicas))
	}
	for k, sub := range j.Plans {
		is, was := &after.Kids[k].Set, &before.Kids[k].Set
		released := int(is.Replicas) - int(is.Partition)
		most := max(int(is.Replicas)*slowest/100+1, int(is.Replicas)*(slowest+percent)/100)
		if uint8(is.Template) != j.S.Version || was.Template != is.Template || was.Partition == is.Partition || released <= most || j.back() {
			continue
		}
		if slices.Contains(names, sub.Name) {
			j.Say("skew", "%s has released %d of %d, and the slowest is at %d%%", sub.Name, released, is.Replicas, slowest)
		} else {
			j.w.ahead++ // a subset that is not named does not wait
		}
	}
}

// back reports whether the rollout goes back.
func (j *judged) back() bool {
	status := j.w.Status(&j.S.Core)
	return status.CurrentRevision == status.UpdateRevision
}
