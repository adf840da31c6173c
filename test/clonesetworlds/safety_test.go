// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// The oracle. Its rules are the words of the design (docs/design.md, docs/workloads.md, docs/rollouts.md) by count, as
// they are read by somebody who does not know how the controller does it. Invariants I1 to I7 are those of
// the comment of package coordination.

// breach is a rule that is broken, and how.
type breach struct{ rule, what string }

// Where the documents say that a rule does not hold, it is an exception. Each is as narrow as their words, and
// there are worlds in which it has to be met (setting.meets): one that is not needed any more is found out.
const (
	// workloads.md: "With two earlier versions in a subset the CloneSet makes no difference between them. Where it
	// updates a pod of v1 and leaves one of v2, United deletes that, so that it comes back on v1".
	twoEarlier = "the CloneSet takes one earlier version for the other"
	// The CloneSet again, and nobody's to help: it chooses by the same order each time, and what it has chosen before
	// stays chosen. In the end as many come back as are protected.
	choosesAgain = "a pod that ceases to be ready is chosen beside one that was chosen before"
	// workloads.md: "A CloneSet forgets the version before as soon as all of its pods are updated, ready or not."
	forgets = "all pods were updated before they were ready, and the version before is forgotten"
)

// except notes that an exception was met. It is true, so that it can stand in a condition.
func (w *world) except(name string) bool {
	w.excepted[name]++
	return true
}

// judged is a pass, with the children as they were when it was decided, and as they would be.
type judged struct {
	w        *world
	s        *state
	x        *pass
	after    [maxChildren]child
	breaches []breach
}

func (j *judged) say(rule, how string, args ...any) {
	j.breaches = append(j.breaches, breach{rule, fmt.Sprintf(how, args...)})
}

// judge says what is wrong with a pass that was decided in a state.
func (w *world) judge(x *pass, s *state) []breach {
	j := &judged{w: w, s: s, x: x, after: s.Children}
	x = x.withoutReminders()
	j.x = x
	for _, wr := range x.writes {
		if wr.remove {
			j.after[wr.child] = child{}
			continue
		}
		c := &j.after[wr.child]
		c.Exists, c.Template, c.Replicas, c.Partition, c.MaxUnavailable = true, wr.template, wr.replicas, wr.partition, wr.maxUnavailable
	}
	if !w.initialized(s) {
		return nil // nothing is protected before a replica was ready once
	}
	for _, wr := range x.writes {
		j.protection(wr)
		j.paused(wr)
	}
	for _, d := range x.deletes {
		j.deletion(d)
	}
	if w.rolling(s) {
		j.ledger()
		j.order()
		j.skew()
		j.frozen()
		j.falls()
	}
	return j.breaches
}

// withoutReminders is a pass less what moves nothing.
func (x *pass) withoutReminders() *pass {
	less := *x
	less.writes = slices.DeleteFunc(slices.Clone(x.writes), func(wr write) bool { return wr.remind != 0 })
	return &less
}

// protection: a child that gets another version than one that its subset may protect keeps as many pods as the spec
// protects (I1). What it runs of the version that is asked for is not taken back, unless it never was released. A
// child that is removed under RollingUpdate is drained first (rollouts.md).
func (j *judged) protection(wr write) {
	before := &j.s.Children[wr.child]
	if wr.remove || !j.s.has(wr.child) {
		if wr.remove && j.w.rolling(j.s) && before.count() > 0 {
			j.say("drain", "%s is removed with replicas", subsetName(wr.child))
		}
		return
	}
	protects, want := j.w.protects(j.s, wr.child), j.w.partition(j.s, wr.child)
	// What was released before the rollout was on record stays so.
	asBefore := j.w.rolling(j.s) && before.Exists && wr.template == before.Template && wr.partition >= before.Partition
	if bit(wr.template)&protects == 0 && !asBefore && int(wr.partition) < min(want, int(wr.replicas)) {
		j.say("partition", "%s protects %b, %d of it, and is given %s", subsetName(wr.child), protects, want, wr)
	}
	updated := before.count(of(j.s.Version))
	released := updated <= max(int(before.Released), int(before.Replicas)-want)
	if before.Template == j.s.Version && wr.template != j.s.Version && updated > int(wr.partition) && released {
		j.say("taken back", "%s has %d updated pods, and is given %s", subsetName(wr.child), updated, wr)
	}
}

// paused: no new template, no pod is released, not by scaling either.
func (j *judged) paused(wr write) {
	before := &j.s.Children[wr.child]
	if !j.s.Paused || wr.remove || !before.Exists || before.Replicas == 0 || !j.s.has(wr.child) {
		return
	}
	if wr.template != before.Template {
		j.say("paused", "a new template under paused: %s", wr)
	}
	was, is := before.count(not(of(before.Template)))-int(before.Partition), before.count(not(of(wr.template)))-int(wr.partition)
	lost := max(0, int(before.Replicas)-int(wr.replicas))
	if is-lost > max(0, was) {
		j.say("paused", "under paused %d are released instead of %d: %s", is, was, wr)
	}
}

// takes is how many available pods a child is about to move: of what is released it takes first what is not
// available.
func (w *world) takes(c *child) int {
	old := not(of(c.Template))
	released := c.count(old) - c.partitionReplicas()
	return max(0, released-c.count(old, not(w.available)))
}

// exposure is how many replicas may come to be down by what children were told.
func (w *world) exposure(children *[maxChildren]child) (sum int) {
	for k := range children {
		if c := &children[k]; c.Exists {
			sum += max(0, int(c.Replicas)-max(0, c.count(w.available)-w.takes(c)))
		}
	}
	return sum
}

// ledger: no pass lets more come to be down than maxUnavailable (I2). Growth is no release of what exists, so
// it is judged with the replicas that are asked for then.
func (j *judged) ledger() {
	grown := j.s.Children
	for k := range grown {
		if j.after[k].Exists {
			grown[k].Exists, grown[k].Replicas = true, j.after[k].Replicas
		}
	}
	before, after := max(j.w.exposure(&j.s.Children), j.w.exposure(&grown)), j.w.exposure(&j.after)
	for _, d := range j.x.deletes {
		after += toInt(j.w.available(&j.s.Children[d.child].Pods[d.pod]))
	}
	if after > before && after > j.w.bound(j.s) && j.s.Forced == 0 {
		j.say("ledger", "what may be down rises from %d to %d, maxUnavailable is %d: %v", before, after, j.w.bound(j.s), j.x.does())
	}
}

// releases reports whether a write lets more available pods go.
func (j *judged) releases(wr write) bool {
	before, after := j.s.Children[wr.child], j.after[wr.child]
	return !wr.remove && before.Exists && wr.template == j.s.Version && j.w.takes(&after) > j.w.takes(&before) && after.Replicas == before.Replicas
}

// order: under Sequential no available replica is released before the subsets in front are done (I5); the
// way back has no order.
func (j *judged) order() {
	if j.w.strategy(j.s).RollingUpdate.Order != v1alpha1.SequentialOrder || j.w.goingBack(j.s) {
		return
	}
	for _, wr := range j.x.writes {
		for k := 0; j.releases(wr) && k < wr.child; k++ {
			c := &j.s.Children[k]
			if c.count(of(j.s.Version), j.w.available) < j.w.toRelease(j.s, k) {
				j.say("order", "%s is released before %s is done: %s", subsetName(wr.child), subsetName(k), wr)
			}
		}
	}
}

// skew: shares differ by at most maxSkew + 1/(smallest number to release) through our doing (I3).
func (j *judged) skew() {
	text := j.w.strategy(j.s).RollingUpdate.MaxSkew
	if text == "" || j.w.goingBack(j.s) || j.s.Forced != 0 {
		return
	}
	percent, _ := strconv.Atoi(strings.TrimSuffix(text, "%"))
	slowest, smallest := 1.0, 1000
	for k := range j.s.Children {
		c := &j.s.Children[k]
		if toRelease := j.w.toRelease(j.s, k); toRelease > 0 && j.s.has(k) {
			slowest = min(slowest, float64(c.count(of(j.s.Version), j.w.available))/float64(toRelease))
			smallest = min(smallest, toRelease)
		}
	}
	for _, wr := range j.x.writes {
		if !j.releases(wr) {
			continue
		}
		share := float64(int(wr.replicas)-int(wr.partition)) / float64(j.w.toRelease(j.s, wr.child))
		if share > slowest+float64(percent)/100+1/float64(smallest)+0.001 {
			j.say("skew", "%s is let go to a share of %.2f, the slowest has %.2f: %s", subsetName(wr.child), share, slowest, wr)
		}
	}
}

// toRelease is how many replicas of a subset lie above the floor.
func (w *world) toRelease(s *state, k int) int {
	r, floor := w.strategy(s).RollingUpdate, 0
	if r.Partition != nil {
		floor = w.number(s, k, r.Partition)
	}
	return w.allotted(s, k) - floor
}

// frozen: while an updated replica is failed, and under spec.paused, no available replica is let go (rollouts.md: "A failure
// stops the rollout").
func (j *judged) frozen() {
	failed := j.s.failed() && !j.w.goingBack(j.s) && j.s.Forced == 0 && j.w.begun(j.s)
	if !failed && !j.s.Paused {
		return
	}
	for _, wr := range j.x.writes {
		if j.releases(wr) {
			j.say("frozen", "failed=%v paused=%v and %s is let go", failed, j.s.Paused, wr)
		}
	}
}

// falls: within one revision a partition rises only to a higher floor, or over replicas that are new (I4).
func (j *judged) falls() {
	for _, wr := range j.x.writes {
		before := &j.s.Children[wr.child]
		if wr.remove || !before.Exists || before.Template != wr.template || wr.template != j.s.Version || !j.w.begun(j.s) || j.s.Paused {
			continue // under spec.paused what was released and has not moved stays
		}
		grows := wr.replicas > before.Replicas
		most := max(int(before.Partition), j.w.partition(j.s, wr.child))
		if !grows && int(wr.partition) > most && before.Partition < before.Replicas {
			j.say("rises", "the partition of %s rises from %d: %s", subsetName(wr.child), before.Partition, wr)
		}
	}
}

// judgeSync says what is wrong with what a CloneSet's controller did: what was told it beforehand. As long as no
// more than the partition are on what the subset protects, none of them is chosen, and none is made on anything
// else (I1); under spec.paused none of them is chosen at all. What is chosen to go counts until it is gone, as it does for the CloneSet. It is asked only while the
// last pass knew the spec and wrote all that it wanted to.
func (w *world) judgeSync(before *child, after *state, k int) []breach {
	if after.PassGeneration != after.Generation || !w.initialized(after) || before.Protects == 0 || !after.has(k) {
		return nil
	}
	c, keeps := &after.Children[k], in(before.Protects)
	want := min(w.partition(after, k), int(c.Replicas))
	stay := c.count(keeps, not(marked))
	if after.Paused { // nothing is moved, whatever was released before; only what is surplus goes
		want = min(before.count(keeps, not(marked)), max(0, int(c.Replicas)-c.count(not(keeps))))
	}
	taken := stay < want && stay < before.count(keeps, not(marked))
	made := !after.Paused && c.count(keeps) < want && c.count(not(keeps)) > before.count(not(keeps))
	switch {
	case !taken && !made:
		return nil
	case taken && before.count(marked) > 0 && w.except(choosesAgain):
		return nil
	case before.Protects&bit(before.Current) == 0 && before.Current != 0 && w.except(forgets):
		return nil
	case before.count(not(keeps), not(of(before.Template))) > 0 && w.except(twoEarlier):
		return nil
	}
	return []breach{{"protected", fmt.Sprintf("%s protects %d of %b: taken=%v made=%v, now %d stay", subsetName(k), want, before.Protects, taken, made, stay)}}
}

// judgeTaken says whether a controller that deletes available pods brings more down than maxUnavailable (I2),
// while nothing has happened that nobody could know.
func (w *world) judgeTaken(after *state, k, taken int) []breach {
	if taken == 0 || !w.rolling(after) || after.Race || !w.initialized(after) || after.Forced != 0 {
		return nil
	}
	down := int(after.Replicas)
	for i := range after.Children {
		down -= after.Children[i].count(w.available)
	}
	if down <= w.bound(after) {
		return nil
	}
	return []breach{{"taken", fmt.Sprintf("%s takes %d available so that %d are down, maxUnavailable %d", subsetName(k), taken, down, w.bound(after))}}
}
