// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"fmt"
	"slices"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// breach is a violation of a rule.
type breach struct{ rule, what string }

// judged is a pass that is checked. Its decision was made in state s, on the pods of view.
type judged struct {
	w        *game
	x        *pass
	s        *state
	top      *topology
	replicas int
	plans    map[int]*planner.SubsetPlan
	breaches []breach
}

func (j *judged) say(rule, what string, args ...any) {
	j.breaches = append(j.breaches, breach{rule, fmt.Sprintf(what, args...)})
}

// judge checks a pass that was decided in a state with current caches.
func (w *game) judge(x *pass, s *state) []breach {
	j := &judged{w: w, x: x, s: s, top: &w.topologies[s.Topology], replicas: int(s.Replicas), plans: map[int]*planner.SubsetPlan{}}
	for _, sub := range x.plan.Subsets {
		if !sub.Removed {
			j.plans[subsetNumber(sub.Name)] = sub
		}
	}
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
	if r := w.rolling(s); r != nil {
		j.ledger(maxUnavailable(r))
		if r.MaxUnavailablePerSubset != nil {
			j.ledgers(r.MaxUnavailablePerSubset.IntValue())
		}
		if r.MaxSkew != "" {
			j.skew(share(r.MaxSkew, 100, false), r.MaxSkewSubsets)
		}
	} else {
		j.substitutes()
	}
	return j.breaches
}

func (j *judged) real(k int) int {
	sub := j.plans[k]
	if sub == nil {
		return 0
	}
	return int(sub.Desired - sub.Reserved)
}

// sums: the subsets have exactly the replicas of the parent, without the reserved ones.
func (j *judged) sums() {
	sum := 0
	for k, sub := range j.plans {
		sum += j.real(k)
		if sub.Desired < 0 || sub.Reserved < 0 || sub.Reserved > sub.Desired {
			j.say("sum", "%s gets %d with %d reserved", sub.Name, sub.Desired, sub.Reserved)
		}
	}
	// With reserve, a substitute stays until the replica that it stands for is available.
	if len(j.plans) > 0 && (sum < j.replicas || sum > j.replicas && j.top.mode != reserve) {
		j.say("sum", "the subsets get %d of %d replicas", sum, j.replicas)
	}
	if j.top.mode != fixed {
		return
	}
	want := j.top.fill(j.replicas)
	for k, sub := range j.plans {
		if j.top.bounded() && int(sub.Desired) != want[k] {
			j.say("fill", "%s gets %d instead of %d of %d", sub.Name, sub.Desired, want[k], j.replicas)
		}
	}
}

// inBounds: minimums and maximums hold, and are filled in list order if the minimums are too many.
func (j *judged) inBounds() {
	few := j.top.minimums(j.replicas) > j.replicas
	if contrary := few || j.top.contrary(j.replicas); contrary == j.x.plan.Allocation.Honored && j.top.bounded() {
		j.say("honored", "the bounds cannot be met: %v, and honored: %v", contrary, j.x.plan.Allocation.Honored)
	}
	for k, sub := range j.plans {
		low, high := j.top.minimum(k, j.replicas), j.top.maximum(k, j.replicas)
		if few {
			low = j.top.fill(j.replicas)[k]
		}
		if int(sub.Desired) < low {
			j.say("minimum", "%s gets %d, below its minimum %d", sub.Name, sub.Desired, low)
		}
		if int(sub.Desired) > high {
			j.say("maximum", "%s gets %d, above its maximum %d", sub.Name, sub.Desired, high)
		}
	}
}

// caps: a subset is capped when, and as long as, the issue says.
func (j *judged) caps() {
	for k, sub := range j.plans {
		want := no
		if j.top.mode != fixed {
			seen := j.x.view.Kids[k]
			seen.Cap = j.s.Kids[k].Cap
			want = seen.isCapped()
		}
		if want == yes && sub.Cap == nil || want == no && sub.Cap != nil {
			j.say("cap", "%s capped: %v", sub.Name, sub.Cap != nil)
		}
	}
}

// placedStays: what is placed is never moved away, and if there is too much of it, what is not placed goes first, and
// then the end of the list.
func (j *judged) placedStays() {
	sum, possible := 0, true
	for k := range j.plans {
		n := max(j.s.Kids[k].kept(), j.top.minimum(k, j.replicas))
		sum += n
		possible = possible && n <= j.top.maximum(k, j.replicas)
	}
	for k, sub := range j.plans {
		kept := min(j.keeps(k), j.top.maximum(k, j.replicas))
		if int(sub.Desired) >= kept {
			continue
		}
		if possible && sum <= j.replicas && !j.decided(sub) {
			j.say("placed stays", "%s gets %d and has %d", sub.Name, sub.Desired, kept)
		}
		if kept = min(j.s.Kids[k].placedTop(false), kept); int(sub.Desired) >= kept || j.decided(sub) {
			continue
		}
		for i, other := range j.plans {
			low := j.top.minimum(i, j.replicas)
			if int(other.Desired) > max(j.s.Kids[i].kept(), j.s.Kids[i].placedTop(true), low) {
				j.say("unplaced first", "%s gets %d and has %d, while %s gets %d", sub.Name, sub.Desired, kept, other.Name, other.Desired)
			}
			if i > k && int(other.Desired) > low {
				j.say("end of the list first", "%s gets %d and has %d, while %s gets %d", sub.Name, sub.Desired, kept, other.Name, other.Desired)
			}
		}
	}
}

// keeps returns how many replicas a subset keeps if there is room. While an edit is being carried out, a replica that is
// being replaced may go first.
func (j *judged) keeps(k int) int {
	if c := j.s.Kids[k]; j.s.Edited {
		for i := range c.Set.Pods {
			if !isPlaced(&c.Set.Pods[i]) || c.Set.Pods[i].Terminating {
				c.Had &^= 1 << i
			}
		}
		return c.kept()
	}
	return j.s.Kids[k].kept()
}

// decided reports whether an earlier pass has decided on no more replicas.
func (j *judged) decided(sub *planner.SubsetPlan) bool {
	known := world.SubsetStatus(j.w.statusOf(j.s), sub.Name)
	return known != nil && known.DesiredReplicas <= sub.Desired
}

// cappedTakesPlaced: a subset that is on record as capped gets no more than what is placed, and its minimum, unless no
// other one has room.
func (j *judged) cappedTakesPlaced() {
	for k, sub := range j.plans {
		c := &j.s.Kids[k]
		most := max(c.kept(), c.placedTop(true), j.top.minimum(k, j.replicas))
		known := world.SubsetStatus(j.w.statusOf(j.s), sub.Name)
		if sub.Cap == nil || known == nil || known.Cap == nil || int(known.Cap.Replicas) > most || int(sub.Desired) <= most {
			continue
		}
		for i, other := range j.plans {
			if other.Cap == nil && int(other.Desired) < j.top.maximum(i, j.replicas) {
				j.say("capped", "%s is capped and gets %d instead of %d, while %s has room", sub.Name, sub.Desired, most, other.Name)
			}
		}
	}
}

// reserved: only replicas of capped subsets that have no node are reserved.
func (j *judged) reserved() {
	for k, sub := range j.plans {
		without := 0
		for i := range min(int(sub.Desired), statefulset.MaxPods) {
			p := &j.x.view.Kids[k].Set.Pods[i]
			without += one(!isPlaced(p) || p.Terminating || i >= int(j.s.Kids[k].Set.Replicas)) // the last will be gone
		}
		if int(sub.Reserved) > without || sub.Reserved > 0 && sub.Cap == nil {
			j.say("reserved", "%s reserves %d, and %d have no node; capped: %v", sub.Name, sub.Reserved, without, sub.Cap != nil)
		}
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// writes: no child is asked for fewer replicas than its subset gets, except a seed.
func (j *judged) writes() {
	for _, wr := range j.x.writes {
		sub := j.plans[wr.k]
		if sub != nil && wr.action != subset.ActionSeed && wr.action != subset.ActionCreate && wr.remind == 0 && int(wr.replicas) < int(sub.Desired) &&
			wr.replicas < j.s.Kids[wr.k].Set.Replicas {
			j.say("write", "%s gets %d and is written with %d", sub.Name, sub.Desired, wr.replicas)
		}
	}
}

// lasting returns how many available replicas of each child no controller is going to take, as its spec is. With
// releases, those that were released and are not updated yet do not last.
func lasting(s *state, releases bool) (each [maxKids]int) {
	for k := range s.Kids {
		c := &s.Kids[k].Set
		for i := range c.Pods {
			p := &c.Pods[i]
			doomed := i >= int(c.Replicas) || releases && i >= int(c.Partition) && p.Version != c.Template
			// Under Manual, one that is not ready for a moment makes no difference.
			available := p.Ready() || !releases && p.Phase == statefulset.Unready && !p.Terminating
			each[k] += one(c.Exists && p.Owner == statefulset.Mine && available && !doomed)
		}
	}
	return each
}

func sumOf(each [maxKids]int) (sum int) {
	for _, n := range each {
		sum += n
	}
	return sum
}

// after returns the state after the writes and deletions of the pass.
func (j *judged) after() *state {
	after := *j.s
	for _, wr := range j.x.writes {
		j.w.carry(&after, wr)
	}
	for _, d := range j.x.deletes {
		after.Kids[d.k].Set.Delete(d.ordinal)
	}
	return &after
}

// ledger: nothing that the pass does makes more than maxUnavailable replicas unavailable.
func (j *judged) ledger(most int) {
	before, after := sumOf(lasting(j.s, true)), sumOf(lasting(j.after(), true))
	if after < before && after < j.replicas-most {
		j.say("ledger", "%d of %d replicas stay available, before it were %d", after, j.replicas, before)
	}
}

// ledgers: the same for each subset. What the subset loses to others is not unavailable.
func (j *judged) ledgers(most int) {
	before, after := lasting(j.s, true), lasting(j.after(), true)
	for k := range j.plans {
		if after[k] < before[k] && after[k] < j.real(k)-most {
			j.say("ledger of a subset", "%d of %d replicas of %s stay available, before it were %d", after[k], j.real(k), subsetName(k), before[k])
		}
	}
}

// substitutes: under Manual too, substitutes go only when others are available.
func (j *judged) substitutes() {
	without := *j
	without.x = &pass{writes: j.x.writes}
	before, after := sumOf(lasting(j.s, false)), sumOf(lasting(without.after(), false))
	if j.top.mode == reserve && !j.s.Edited && after < before && after < j.replicas {
		j.say("substitutes", "%d of %d replicas stay available, before it were %d", after, j.replicas, before)
	}
}

// skew: the subsets that maxSkew binds release no more than the slowest of them and maxSkew allow; if that lets nobody
// move, the slowest gets one. Going back, and from a revision that is not the one before, is left out.
func (j *judged) skew(percent int, names []string) {
	before, after := j.s, j.after()
	slowest := 100
	for k, sub := range j.plans {
		c := &before.Kids[k].Set
		if !slices.Contains(names, sub.Name) || c.Replicas == 0 {
			continue
		}
		done := 0
		for i := range c.Pods {
			done += one(c.Pods[i].Ready() && uint8(c.Pods[i].Version) == j.s.Version && i < int(c.Replicas))
		}
		slowest = min(slowest, 100*done/int(c.Replicas))
	}
	for k, sub := range j.plans {
		is, was := &after.Kids[k].Set, &before.Kids[k].Set
		released := int(is.Replicas) - int(is.Partition)
		most := max(int(is.Replicas)*slowest/100+1, int(is.Replicas)*(slowest+percent)/100)
		if uint8(is.Template) != j.s.Version || was.Template != is.Template || was.Partition == is.Partition || released <= most || j.back() {
			continue
		}
		if slices.Contains(names, sub.Name) {
			j.say("skew", "%s has released %d of %d, and the slowest is at %d%%", sub.Name, released, is.Replicas, slowest)
		} else {
			j.w.ahead++ // a subset that is not named does not wait
		}
	}
}

// back reports whether the rollout goes back.
func (j *judged) back() bool {
	status := j.w.statusOf(j.s)
	return status.CurrentRevision == status.UpdateRevision
}
