// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
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
	if j.top.order != "" {
		j.shares()
		j.keeps()
	}
	if j.top.order == v1alpha1.SequentialGroups {
		j.inTurn()
	}
	if r := w.rolling(s); r != nil && j.initialized() {
		j.ledger(maxUnavailable(r))
	}
	j.floors()
	return j.breaches
}

// shares: the subsets get what the spec says; members less only while groups are created in turn.
func (j *judged) shares() {
	want := j.top.split(j.replicas)
	for k, sub := range j.plans {
		got := int(sub.Desired)
		if got > want[k] || got < want[k] && (j.top.order != v1alpha1.SequentialGroups || j.top.ratio(k) == 0) {
			j.say("share", "%s gets %d instead of %d", sub.Name, got, want[k])
		}
	}
}

// keeps: no child is asked for fewer replicas than it has, unless the spec asks for fewer.
func (j *judged) keeps() {
	want := j.top.split(j.replicas)
	for _, wr := range j.x.writes {
		had := int(j.s.Kids[wr.k].Set.Replicas)
		if j.plans[wr.k] == nil || wr.remind != 0 || wr.action == subset.ActionRemove {
			continue
		}
		if int(wr.replicas) < min(had, want[wr.k]) {
			j.say("nothing is removed", "%s has %d, should get %d, and is written with %d", subsetName(wr.k), had, want[wr.k], wr.replicas)
		}
	}
}

// inTurn: the first replica of a group is created when the group before has all its replicas, and all of them are ready.
// What the status has asked for before counts as created: a child may be gone.
func (j *judged) inTurn() {
	last := j.last(j.s)
	for _, known := range j.w.statusOf(j.s).Subsets {
		if k := subsetNumber(known.Name); j.top.ratio(k) > 0 && known.DesiredReplicas > 0 {
			last = max(last, (int(known.DesiredReplicas)-1)/j.top.ratio(k))
		}
	}
	now := j.last(j.after())
	if now <= last {
		return
	}
	if now > last+1 {
		j.say("in turn", "group %d is created, and group %d is not", now, now-1)
		return
	}
	want := j.top.split(j.replicas)
	for k := range j.plans {
		r := j.top.ratio(k)
		for i := last * r; r > 0 && last >= 0 && i < min((last+1)*r, want[k]); i++ {
			if i >= statefulset.MaxPods || !j.x.view.Kids[k].Set.Pods[i].Ready() {
				j.say("in turn", "group %d is created, and %s-%d of group %d is not ready", now, subsetName(k), i, last)
			}
		}
	}
}

// last returns the last group that children are asked for, -1 if none.
func (j *judged) last(s *state) int {
	last := -1
	for k := range s.Kids {
		if r := j.top.ratio(k); r > 0 && s.Kids[k].Set.Exists && s.Kids[k].Set.Replicas > 0 {
			last = max(last, (int(s.Kids[k].Set.Replicas)-1)/r)
		}
	}
	return last
}

// initialized: until a first replica was ready, nothing is protected.
func (j *judged) initialized() bool {
	return meta.IsStatusConditionTrue(j.w.statusOf(j.s).Conditions, v1alpha1.ConditionInitialized)
}

// floors: what the user protects is not released to the version of the spec, in a world that begins with a version that
// all replicas run.
func (j *judged) floors() {
	m, status := j.w.parent(j.s).object.Spec.UpdateStrategy.ManualUpdate, j.w.statusOf(j.s)
	if m == nil || !j.w.rests || j.w.versionOf[status.CurrentRevision] == j.w.parent(j.s).update {
		return // "partition and bound revision protect nothing from" the current revision
	}
	for _, wr := range j.x.writes {
		floor, named := m.Partitions[subsetName(wr.k)]
		n := floor.IntValue()
		if !named || floor.String() == "100%" {
			n = int(wr.replicas)
		}
		update, old := j.w.same(wr.k, j.w.parent(j.s).update), 0
		for i := range j.s.Kids[wr.k].Set.Pods {
			p := &j.s.Kids[wr.k].Set.Pods[i]
			old += one(i < n && p.WasReady && p.Version != update)
		}
		if old > 0 && wr.remind == 0 && wr.action != subset.ActionRemove && wr.template == update && int(wr.partition) < min(n, int(wr.replicas)) {
			j.say("floor", "%s is written with partition %d, and %d are protected", subsetName(wr.k), wr.partition, n)
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
	if after < before && after < j.asked()-most {
		j.say("ledger", "%d of %d replicas stay available, before it were %d", after, j.asked(), before)
	}
}

// asked returns how many replicas there are at this point of the growth.
func (j *judged) asked() (sum int) {
	for _, sub := range j.plans {
		sum += int(sub.Desired)
	}
	return sum
}
