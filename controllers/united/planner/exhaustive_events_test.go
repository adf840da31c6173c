// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// smallEvent is one event, in four bytes: what happens, to which child, to which ordinal or by which edit, and
// whether a pass that had read the world before it is carried out after it.
type smallEvent struct {
	what what
	k, i uint8
	late bool
}

type what uint8

// The kinds of events.
const (
	// happensPass: the controller reconciles.
	happensPass what = iota
	// happensDeath: the controller reconciles, and dies after its first i writes, before the status.
	happensDeath
	// happensSync: the child's controller syncs it.
	happensSync
	happensReady
	happensUnready
	happensCrash
	happensEviction
	// happensEnd: a terminating pod is gone.
	happensEnd
	// happensTick: a long time passes.
	happensTick
	happensEdit
	happensApproval
	// happensForgetting: the child's controller takes its update revision for the current one, for example because
	// it does not see the ControllerRevision of the latter.
	happensForgetting
	// happensMeddling: somebody lowers the child's partition to 0 (i = 0), raises it
	// above its replicas (1), takes a replica (2), or deletes the child (3).
	happensMeddling
	// happensStripping: somebody removes what United wrote on the child: all (i = 0), the
	// revision (1), the protected revision (2), or the rest (3).
	happensStripping
	// happensOrphaning: somebody deletes the child, and leaves its pods.
	happensOrphaning
	// happensTurn: the check is met, or is not any more; happensRestart: a new controller has not read that yet;
	// happensReading: it has. happensLoss: status.rollout is lost.
	happensTurn
	happensRestart
	happensReading
	happensLoss
	// happensRun: the run of the check succeeds (i = 1), fails (2), ends without a result (3), or is deleted (4).
	happensRun
)

// String describes the event.
func (ev smallEvent) String() string { return ev.in(nil) }

// in describes the event in a world.
func (ev smallEvent) in(c *smallConfig) string {
	late := ""
	if ev.late {
		late = ", then a pass that had not seen it"
	}
	switch ev.what {
	case happensPass:
		return "pass"
	case happensDeath:
		return fmt.Sprintf("pass, dies after %d writes", ev.i)
	case happensSync:
		return "sync " + subsetName(int(ev.k)) + late
	case happensTick:
		return "time" + late
	case happensEdit:
		if c != nil {
			return "edit: " + c.edits[ev.i].name + late
		}
		return fmt.Sprint("edit ", ev.i) + late
	case happensApproval:
		return "approved" + late
	case happensTurn, happensRestart, happensReading, happensLoss:
		return map[what]string{happensTurn: "the check turns" + [...]string{"", ": missed", ": no data"}[ev.i], happensRestart: "restart", happensReading: "the check is read", happensLoss: "status lost"}[ev.what] + late
	case happensRun:
		return "the run " + [...]string{"", "succeeds", "fails", "is undecided", "is deleted"}[ev.i] + late
	case happensForgetting:
		return subsetName(int(ev.k)) + " forgets" + late
	case happensStripping:
		return fmt.Sprint("somebody strips ", subsetName(int(ev.k)), " of ", [...]string{"all", "its revision", "its protected revision", "the rest"}[ev.i]) + late
	case happensOrphaning:
		return "somebody orphans the pods of " + subsetName(int(ev.k)) + late
	case happensMeddling:
		return fmt.Sprint("somebody ", [...]string{"lowers", "raises", "scales", "deletes"}[ev.i], " ", subsetName(int(ev.k))) + late
	}
	return map[what]string{
		happensReady: "ready ", happensUnready: "unready ", happensCrash: "crash ", happensEviction: "evict ", happensEnd: "gone ",
	}[ev.what] + fmt.Sprintf("%s-%d", subsetName(int(ev.k)), ev.i) + late
}

// costs returns the budget that pays for an event, or -1 for none.
func (ev smallEvent) costs(c *smallConfig, s *smallState) int {
	switch ev.what {
	case happensDeath:
		return budgetDie
	case happensUnready:
		return budgetUnready
	case happensCrash:
		if c.bad&bit(s.kids[ev.k].set.Pods[ev.i].Version) != 0 {
			return -1
		}
		return budgetCrash
	case happensEviction:
		return budgetEvict
	case happensTick:
		return budgetTick
	case happensEdit:
		return budgetEdit
	case happensForgetting:
		return budgetForget
	case happensMeddling:
		return budgetMeddle
	case happensStripping:
		return budgetStrip
	case happensOrphaning:
		return budgetOrphan
	case happensTurn:
		return budgetTurn
	case happensRun:
		if runState(ev.i) == runSucceeded {
			return -1
		}
		return budgetTurn
	case happensRestart:
		return budgetRestart
	case happensLoss:
		return budgetLoss
	default:
		return -1
	}
}

// possible calls f for each event that can happen, except passes, in a fixed order.
func (c *smallConfig) possible(s *smallState, f func(smallEvent)) {
	try := func(ev smallEvent) {
		if b := ev.costs(c, s); b < 0 || s.budget[b] > 0 {
			f(ev)
		}
	}
	for k := range uint8(maxKids) {
		kid := &s.kids[k]
		if kid.set.Exists {
			try(smallEvent{what: happensSync, k: k})
		}
		for i := range uint8(statefulset.MaxPods) {
			c.possibleOf(&kid.set.Pods[i], func(what what) { try(smallEvent{what: what, k: k, i: i}) })
		}
		if kid.set.Exists && kid.set.Observed && kid.set.Current != kid.set.Update {
			try(smallEvent{what: happensForgetting, k: k})
		}
		if kid.set.Exists {
			try(smallEvent{what: happensOrphaning, k: k})
		}
		for i := range uint8(4) {
			if kid.set.Exists {
				try(smallEvent{what: happensMeddling, k: k, i: i})
				try(smallEvent{what: happensStripping, k: k, i: i})
			}
		}
	}
	if !s.parent.paused {
		try(smallEvent{what: happensTick})
	}
	for i := range c.edits {
		try(smallEvent{what: happensEdit, i: uint8(i)})
	}
	if approvable(s) {
		try(smallEvent{what: happensApproval})
	}
	c.possibleChecks(s, try)
}

// possibleOf calls f for the events of one pod.
func (c *smallConfig) possibleOf(pod *statefulset.Pod, f func(what)) {
	bad := c.bad&bit(pod.Version) != 0
	switch {
	case !pod.Exists():
	case pod.Terminating:
		f(happensEnd)
	case pod.Phase == statefulset.Ready:
		f(happensUnready)
		f(happensCrash)
		f(happensEviction)
	default:
		if !bad {
			f(happensReady)
		}
		if pod.Phase != statefulset.Crashed {
			f(happensCrash)
		}
		f(happensEviction)
	}
}

// approvable reports whether a step waits for an approval that is not given.
func approvable(s *smallState) bool {
	rollout := statuses.at(s.parent.status).Rollout
	return rollout != nil && rollout.ApprovalKey != "" && textID(rollout.ApprovalKey) != s.parent.approved
}

// happen lets an event other than a pass happen. It returns what a sync did.
func (c *smallConfig) happen(s *smallState, ev smallEvent) statefulset.Synced {
	if b := ev.costs(c, s); b >= 0 {
		s.budget[b]--
	}
	var synced statefulset.Synced
	kid := &s.kids[ev.k]
	pod := &kid.set.Pods[ev.i%statefulset.MaxPods]
	switch ev.what {
	case happensSync:
		synced = kid.sync(c.kind)
	case happensReady:
		pod.Phase, pod.WasReady, pod.Aged = statefulset.Ready, true, false
	case happensUnready:
		pod.Phase, pod.Aged = statefulset.Unready, false
	case happensCrash:
		if pod.Phase == statefulset.Ready {
			pod.Aged = false
		}
		pod.Phase = statefulset.Crashed
	case happensEviction:
		kid.set.Delete(int(ev.i))
	case happensEnd:
		*pod = statefulset.Pod{}
	case happensTick:
		s.tick()
	case happensEdit:
		was := s.parent.version
		if c.edits[ev.i].do(&s.parent); s.parent.version != was {
			s.parent.check = s.parent.check.inAnotherRound(c)
		}
		s.parent.generation++
		s.loseSubsets()
	case happensApproval:
		rollout := statuses.at(s.parent.status).Rollout
		s.parent.approved = textID(rollout.ApprovalKey)
		of, _ := namesOfVersions.Load(rollout.Revision)
		s.parent.approval = smallApproval{of.(statefulset.Version), uint8(rollout.Step), s.parent.asked}
	case happensForgetting:
		kid.set.Current, kid.forgot = kid.set.Update, true
		if kid.releasedFrom() == 0 {
			kid.protects |= bit(kid.set.Update) // this cannot be distinguished from an end
		}
	case happensMeddling:
		if ev.i < 3 {
			kid.meddle(ev.i)
			break
		}
		kid.remove()
		kid.meddled = true
	case happensStripping:
		kid.strip(ev.i)
	case happensOrphaning:
		kid.orphan()
	case happensTurn, happensRestart, happensReading, happensLoss:
		s.happenToCheck(c, ev)
	case happensRun:
		s.happenToRun(runState(ev.i))
	default:
		panic("a pass is not an event of the world")
	}
	s.tidy()
	return synced
}

// loseSubsets: a subset that is removed, and added again before its child is gone, may protect what the child
// remembers, or what the whole parent runs, like a new one.
func (s *smallState) loseSubsets() {
	current, known := namesOfVersions.Load(statuses.at(s.parent.status).CurrentRevision)
	for k := range s.kids {
		if kid := &s.kids[k]; known && kid.protects != 0 && !s.parent.has(k) {
			kid.protects |= bit(current.(statefulset.Version))
		}
	}
}

func (s *smallState) tick() {
	s.parent.now++
	for k := range s.kids {
		for i := range s.kids[k].set.Pods {
			if pod := &s.kids[k].set.Pods[i]; pod.Exists() {
				pod.Aged = true
			}
		}
	}
}

func (k *smallKid) meddle(how uint8) {
	before := k.set
	switch set := &k.set; {
	case how == 0:
		set.Apply(set.Template, set.Replicas, 0)
	case how == 1:
		set.Apply(set.Template, set.Replicas, set.Replicas+1)
	case set.Replicas > 0:
		set.Apply(set.Template, set.Replicas-1, set.Partition)
	}
	k.meddled = k.meddled || k.set != before
}

// strip removes annotations from the child.
func (k *smallKid) strip(which uint8) {
	rest := maps.Clone(notes.at(k.notes).all)
	switch which {
	case 0:
		clear(rest)
		k.generation = 0
	case 1:
		delete(rest, v1alpha1.AnnotationRevision)
	case 2:
		delete(rest, v1alpha1.AnnotationProtectedRevision)
	default:
		maps.DeleteFunc(rest, func(key, _ string) bool {
			return key != v1alpha1.AnnotationRevision && key != v1alpha1.AnnotationProtectedRevision
		})
	}
	if k.stripped == 0 {
		k.stripped = k.notes
	}
	k.notes = notesFrom(rest)
}

// remove deletes the child, with its pods. The protected revision of its subset stays.
func (k *smallKid) remove() {
	k.set.Remove(false)
	k.set.Collect(true)
	k.notes, k.generation, k.forgot, k.meddled, k.stripped = noNotes(), 0, false, false, 0
}

// orphan deletes the child, and leaves its pods and revisions to the next one.
func (k *smallKid) orphan() {
	before := cmp.Or(k.stripped, k.notes)
	k.set.Remove(true)
	k.notes, k.generation, k.forgot, k.meddled, k.stripped = noNotes(), 0, false, false, before
}

// sync runs a pass of the child's controller. If the child finishes, that is recorded: from then on the subset may
// protect what its replicas run, and does so when the status says it.
func (k *smallKid) sync(kind statefulset.Kind) statefulset.Synced {
	ranAll := k.set.RunsAll()
	done := k.set.Sync(kind)
	switch {
	case done.Finished && ranAll && k.strays():
		k.forgot = true // nothing has finished: some replicas came up on it without having been released
	case done.Finished && ranAll:
		k.protects |= bit(k.set.Template)
	case done.Finished && k.protects&bit(k.set.Current) == 0:
		// It has counted a surplus replica as a missing one. If nothing is protected, this cannot be distinguished
		// from an end.
		if k.forgot = k.set.Partition > 0; !k.forgot {
			k.protects |= bit(k.set.Template)
		}
	}
	for i := range k.set.Partition {
		if i < statefulset.MaxPods && k.forgot && int(i) >= k.releasedFrom() {
			continue // it was released before, and it is unknown for which of the two reasons it exists
		}
		if i < statefulset.MaxPods && done.Created&(1<<i) != 0 && k.protects != 0 && k.protects&bit(k.set.Pods[i].Version) == 0 {
			k.set.Pods[i].Marks |= markStray
		}
	}
	k.markMeddled(done)
	return done
}

// markMeddled marks replicas that come up on the template because somebody else has lowered the partition: they
// were never released.
func (k *smallKid) markMeddled(done statefulset.Synced) {
	for i := k.set.Partition; k.meddled && int(i) < k.releasedFrom(); i++ {
		if pod := &k.set.Pods[i]; done.Created&(1<<i) != 0 && k.protects != 0 && k.protects&bit(pod.Version) == 0 {
			pod.Marks |= markStray
		}
	}
}

// releasedFrom returns the lowest ordinal that was ever released, according to the annotations of the child.
func (k *smallKid) releasedFrom() int {
	from, _, _ := adapters.ReadReleased(notes.at(cmp.Or(k.stripped, k.notes)).all[v1alpha1.AnnotationReleasedFrom])
	return min(int(from), statefulset.MaxPods)
}

// strays reports whether a replica runs what its subset does not protect, and was not released.
func (k *smallKid) strays() bool {
	return slices.ContainsFunc(k.set.Pods[:], func(pod statefulset.Pod) bool {
		return pod.Exists() && pod.Marks&markStray != 0 && pod.Version == k.set.Template
	})
}

// release clears the marks of stray replicas that are released now. If a child has forgotten, and is released
// completely, this cannot be distinguished from an end.
func (k *smallKid) release() {
	if k.forgot && k.releasedFrom() == 0 {
		k.protects |= bit(k.set.Update)
	}
	for i := range k.set.Pods {
		if pod := &k.set.Pods[i]; i >= int(k.set.Partition) && pod.Version == k.set.Template {
			pod.Marks &^= markStray
		}
	}
}

// changedBy returns what a pass that had read the world before an event can no longer write: children, and the
// parent.
func changedBy(before, after *smallState) [maxKids + 1]bool {
	var changed [maxKids + 1]bool
	for k := range before.kids {
		was, is := before.kids[k], after.kids[k]
		was.set.Pods, was.protects, was.forgot, was.asked = is.set.Pods, is.protects, is.forgot, is.asked
		changed[k] = was != is
	}
	was, is := before.parent, after.parent
	was.now, was.soaked, was.check, was.run = is.now, is.soaked, is.check, is.run
	changed[maxKids] = was != is
	return changed
}

// strategy returns a variant, with maxUnavailable raised or not, and maxUnavailablePerSubset.
func (c *smallConfig) strategy(variant uint8, raised, raisedEach bool) v1alpha1.UpdateStrategy {
	s := c.variants[variant]
	if s.RollingUpdate != nil && (raised || raisedEach) {
		s.RollingUpdate = s.RollingUpdate.DeepCopy()
		if raised {
			s.RollingUpdate.MaxUnavailable = percentOf(100)
		}
		if raisedEach {
			s.RollingUpdate.MaxUnavailablePerSubset = percentOf(100)
		}
	}
	return s
}
