// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
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
	if j.top.order != "" {
		j.shares()
		j.keeps()
	}
	if j.top.order == v1alpha1.SequentialGroups {
		j.inTurn()
	}
	if w.Rolling(&s.Core) && w.Initialized(&s.Core) { // until a first replica was ready, nothing is protected
		j.Ledger(j.asked())
	}
	j.floors()
	return j.Breaches
}

// shares: the subsets get what the spec says; members less only while groups are created in turn.
func (j *judged) shares() {
	want := j.top.split(j.Replicas)
	for k, sub := range j.Plans {
		got := int(sub.Desired)
		if got > want[k] || got < want[k] && (j.top.order != v1alpha1.SequentialGroups || j.top.ratio(k) == 0) {
			j.Say("share", "%s gets %d instead of %d", sub.Name, got, want[k])
		}
	}
}

// keeps: no child is asked for fewer replicas than it has, unless the spec asks for fewer.
func (j *judged) keeps() {
	want := j.top.split(j.Replicas)
	for _, wr := range j.X.Writes {
		had := int(j.S.Kids[wr.Child].Set.Replicas)
		if j.Plans[wr.Child] == nil || wr.Remind != 0 || wr.Remove {
			continue
		}
		if int(wr.Replicas) < min(had, want[wr.Child]) {
			j.Say("nothing is removed", "%s has %d, should get %d, and is written with %d", worlds.SubsetName(wr.Child), had, want[wr.Child], wr.Replicas)
		}
	}
}

// inTurn: the first replica of a group is created when the group before has all its replicas, and all of them are ready.
// What the status has asked for before counts as created: a child may be gone.
func (j *judged) inTurn() {
	last := j.last(j.S)
	for _, known := range j.w.Status(&j.S.Core).Subsets {
		if k := worlds.SubsetNumber(known.Name); j.top.ratio(k) > 0 && known.DesiredReplicas > 0 {
			last = max(last, (int(known.DesiredReplicas)-1)/j.top.ratio(k))
		}
	}
	now := j.last(j.After(j.X.Deletes))
	if now <= last {
		return
	}
	if now > last+1 {
		j.Say("in turn", "group %d is created, and group %d is not", now, now-1)
		return
	}
	want := j.top.split(j.Replicas)
	for k := range j.Plans {
		r := j.top.ratio(k)
		for i := last * r; r > 0 && last >= 0 && i < min((last+1)*r, want[k]); i++ {
			if i >= statefulset.MaxPods || !j.S.Kids[k].Set.Pods[i].Ready() {
				j.Say("in turn", "group %d is created, and %s-%d of group %d is not ready", now, worlds.SubsetName(k), i, last)
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

// floors: what the user protects is not released to the version of the spec, in a world that begins with a version that
// all replicas run.
func (j *judged) floors() {
	m, status := j.w.StrategyOf(&j.S.Core).ManualUpdate, j.w.Status(&j.S.Core)
	if m == nil || !j.w.rests || j.w.named(status.CurrentRevision) == j.w.update(j.S) {
		return // "partition and bound revision protect nothing from" the current revision
	}
	for _, wr := range j.X.Writes {
		floor, named := m.Partitions[worlds.SubsetName(wr.Child)]
		n := floor.IntValue()
		if !named || floor.String() == "100%" {
			n = int(wr.Replicas)
		}
		update, old := j.w.same(wr.Child, j.w.update(j.S)), 0
		for i := range j.S.Kids[wr.Child].Set.Pods {
			p := &j.S.Kids[wr.Child].Set.Pods[i]
			old += worlds.Int(i < n && p.WasReady && p.Version != update)
		}
		if old > 0 && wr.Remind == 0 && !wr.Remove && statefulset.Version(wr.Template) == update && int(wr.Partition) < min(n, int(wr.Replicas)) {
			j.Say("floor", "%s is written with partition %d, and %d are protected", worlds.SubsetName(wr.Child), wr.Partition, n)
		}
	}
}

// asked returns how many replicas there are at this point of the growth.
func (j *judged) asked() (sum int) {
	for _, sub := range j.Plans {
		sum += int(sub.Desired)
	}
	return sum
}
