// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"
	"slices"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

// The oracle. Its rules are those of the text of the design (docs/design.md, docs/workloads.md, docs/rollouts.md),
// counting replicas, and written without knowledge of the implementation. Invariants I1 to I7 are those of the comment of
// package coordination.

// If the documents say that a rule does not hold, it is an exception. Each is as narrow as their text, and must occur in
// some worlds (setting.meets): the test fails if an exception is no longer needed.
const (
	// workloads.md: "With two earlier versions in a subset the CloneSet makes no difference between them. Where it
	// updates a pod of v1 and leaves one of v2, United deletes that, so that it comes back on v1".
	twoEarlier = "the CloneSet takes one earlier version for the other"
	// Also a limitation of the CloneSet controller: it chooses in the same order each time, and what it has chosen stays
	// chosen. In the end, as many pods come back as are protected.
	choosesAgain = "a pod that ceases to be ready is chosen beside one that was chosen before"
	// workloads.md: "A CloneSet forgets the version before as soon as all of its pods are updated, ready or not."
	forgets = "all pods were updated before they were ready, and the version before is forgotten"
)

// judged is a pass, with the children at the time of the decision, and as the pass would change them.
type judged struct {
	w        *game
	s        *state
	x        *worlds.Pass
	after    [maxChildren]child
	breaches []worlds.Breach
}

func (j *judged) say(rule, how string, args ...any) {
	j.breaches = append(j.breaches, worlds.Breach{Rule: rule, What: fmt.Sprintf(how, args...)})
}

// Judge checks a pass that was decided in a state.
func (w *game) Judge(x *worlds.Pass, s *state) []worlds.Breach {
	j := &judged{w: w, s: s, x: x, after: s.Children}
	x = x.WithoutReminders()
	j.x = x
	for _, wr := range x.Writes {
		if wr.Remove {
			j.after[wr.Child] = child{}
			continue
		}
		c := &j.after[wr.Child]
		c.Exists, c.Template, c.Replicas, c.Partition, c.MaxUnavailable = true, wr.Template, wr.Replicas, wr.Partition, wr.MaxUnavailable
	}
	if !w.Initialized(&s.Core) {
		return nil // nothing is protected before a replica has been ready
	}
	for _, sub := range w.Status(&s.Core).Subsets { // a subset protects what all of its replicas have run, and were ready
		if v := w.VersionOf[sub.CurrentRevision]; w.Bad&worlds.Bit(v) != 0 {
			j.say("never ready", "%s protects v%d, which fails", sub.Name, v)
		}
	}
	for _, wr := range x.Writes {
		j.protection(wr)
		j.paused(wr)
	}
	for _, d := range x.Deletes {
		j.deletion(d)
	}
	if w.Rolling(&s.Core) {
		j.ledger()
		j.ledgerOf()
		j.order()
		j.skew()
		j.frozen()
		j.falls()
	}
	return j.breaches
}

// protection: a child that gets a version which its subset may not protect keeps as many pods as the spec protects (I1).
// Its updated pods are not reverted, unless they were never released. A child that is removed under RollingUpdate is
// drained first (rollouts.md).
func (j *judged) protection(wr worlds.Write) {
	before := &j.s.Children[wr.Child]
	if wr.Remove || !j.s.Has(wr.Child) {
		if wr.Remove && j.w.Rolling(&j.s.Core) && before.count() > 0 {
			j.say("drain", "%s is removed with replicas", worlds.SubsetName(wr.Child))
		}
		return
	}
	protects, want := j.w.protects(j.s, wr.Child), j.w.Partition(&j.s.Core, wr.Child)
	// What was released before the rollout was recorded stays released.
	asBefore := j.w.Rolling(&j.s.Core) && before.Exists && wr.Template == before.Template && wr.Partition >= before.Partition
	if worlds.Bit(wr.Template)&protects == 0 && !asBefore && int(wr.Partition) < min(want, int(wr.Replicas)) {
		j.say("partition", "%s protects %b, %d of it, and is given %s", worlds.SubsetName(wr.Child), protects, want, wr)
	}
	updated := before.count(of(j.s.Version))
	released := updated <= max(int(before.Released), int(before.Replicas)-want)
	if before.Template == j.s.Version && wr.Template != j.s.Version && updated > int(wr.Partition) && released {
		j.say("taken back", "%s has %d updated pods, and is given %s", worlds.SubsetName(wr.Child), updated, wr)
	}
}

// paused: no child gets a new template, and no pod is released, not even by scaling.
func (j *judged) paused(wr worlds.Write) {
	before := &j.s.Children[wr.Child]
	if !j.s.Paused || wr.Remove || !before.Exists || before.Replicas == 0 || !j.s.Has(wr.Child) {
		return
	}
	if wr.Template != before.Template {
		j.say("paused", "a new template under paused: %s", wr)
	}
	was, is := before.count(not(of(before.Template)))-int(before.Partition), before.count(not(of(wr.Template)))-int(wr.Partition)
	lost := max(0, int(before.Replicas)-int(wr.Replicas))
	if is-lost > max(0, was) {
		j.say("paused", "under paused %d are released instead of %d: %s", is, was, wr)
	}
}

// takes returns how many available pods a child is about to replace: of the released pods it replaces unavailable ones
// first.
func (w *game) takes(c *child) int {
	old := not(of(c.Template))
	released := c.count(old) - c.partitionReplicas()
	return max(0, released-c.count(old, not(w.available)))
}

// exposure returns how many replicas may become unavailable because of what children were told.
func (w *game) exposure(children *[maxChildren]child) (sum int) {
	for k := range children {
		sum += w.exposureOf(&children[k])
	}
	return sum
}

func (w *game) exposureOf(c *child) int {
	if !c.Exists {
		return 0
	}
	return max(0, int(c.Replicas)-max(0, c.count(w.available)-w.takes(c)))
}

// ledgerOf: the same for each subset, and maxUnavailablePerSubset.
func (j *judged) ledgerOf() {
	for k := range j.after {
		was, is := j.s.Children[k], j.after[k]
		grown := was
		if is.Exists {
			grown.Exists, grown.Replicas = true, is.Replicas
		}
		before, after := max(j.w.exposureOf(&was), j.w.exposureOf(&grown)), j.w.exposureOf(&is)
		for _, d := range j.x.Deletes {
			after += worlds.Int(d.Child == k && j.w.available(&was.Pods[d.Replica]))
		}
		if most := j.w.BoundOf(&j.s.Core, k); after > before && after > most && j.s.Forced == 0 {
			j.say("each", "what may be down of %s rises from %d to %d, maxUnavailablePerSubset is %d: %v", worlds.SubsetName(k), before, after, most, j.x.Writes)
		}
	}
}

// ledger: no pass lets more than maxUnavailable replicas become unavailable (I2). Growth releases no existing replica, so
// it is judged with the new number of replicas.
func (j *judged) ledger() {
	grown := j.s.Children
	for k := range grown {
		if j.after[k].Exists {
			grown[k].Exists, grown[k].Replicas = true, j.after[k].Replicas
		}
	}
	before, after := max(j.w.exposure(&j.s.Children), j.w.exposure(&grown)), j.w.exposure(&j.after)
	for _, d := range j.x.Deletes {
		after += worlds.Int(j.w.available(&j.s.Children[d.Child].Pods[d.Replica]))
	}
	if after > before && after > j.w.Bound(&j.s.Core) && j.s.Forced == 0 {
		j.say("ledger", "what may be down rises from %d to %d, maxUnavailable is %d: %v", before, after, j.w.Bound(&j.s.Core), j.x.Does())
	}
}

// releases reports whether a write releases more available pods.
func (j *judged) releases(wr worlds.Write) bool {
	before, after := j.s.Children[wr.Child], j.after[wr.Child]
	return !wr.Remove && before.Exists && wr.Template == j.s.Version && j.w.takes(&after) > j.w.takes(&before) && after.Replicas == before.Replicas
}

// order: under Sequential no available replica is released before the earlier subsets are done (I5); going back has no
// order.
func (j *judged) order() {
	if j.w.StrategyOf(&j.s.Core).RollingUpdate.Order != v1alpha1.SequentialOrder || j.w.GoingBack(&j.s.Core) {
		return
	}
	for _, wr := range j.x.Writes {
		for k := 0; j.releases(wr) && k < wr.Child; k++ {
			c := &j.s.Children[k]
			if c.count(of(j.s.Version), j.w.available) < j.w.ToRelease(&j.s.Core, k) {
				j.say("order", "%s is released before %s is done: %s", worlds.SubsetName(wr.Child), worlds.SubsetName(k), wr)
			}
		}
	}
}

// skew: United lets shares differ by at most maxSkew + 1/(smallest number to release) (I3).
func (j *judged) skew() {
	percent := j.w.MaxSkew(&j.s.Core)
	if percent < 0 || j.w.GoingBack(&j.s.Core) || j.s.Forced != 0 {
		return
	}
	slowest, smallest := 1.0, 1000
	for k := range j.s.Children {
		c := &j.s.Children[k]
		if toRelease := j.w.ToRelease(&j.s.Core, k); toRelease > 0 && j.s.Has(k) {
			slowest = min(slowest, float64(c.count(of(j.s.Version), j.w.available))/float64(toRelease))
			smallest = min(smallest, toRelease)
		}
	}
	for _, wr := range j.x.Writes {
		if !j.releases(wr) {
			continue
		}
		share := float64(int(wr.Replicas)-int(wr.Partition)) / float64(j.w.ToRelease(&j.s.Core, wr.Child))
		if share > slowest+float64(percent)/100+1/float64(smallest)+0.001 {
			j.say("skew", "%s is let go to a share of %.2f, the slowest has %.2f: %s", worlds.SubsetName(wr.Child), share, slowest, wr)
		}
	}
}

// frozen: while an updated replica has failed, and under spec.paused, no available replica is released (rollouts.md: "A
// failure stops the rollout").
func (j *judged) frozen() {
	failed := j.s.failed() && !j.w.GoingBack(&j.s.Core) && j.s.Forced == 0 && j.w.Begun(&j.s.Core)
	if !failed && !j.s.Paused {
		return
	}
	for _, wr := range j.x.Writes {
		if j.releases(wr) {
			j.say("frozen", "failed=%v paused=%v and %s is let go", failed, j.s.Paused, wr)
		}
	}
}

// falls: within one revision a partition rises only to a higher floor, or over replicas that are new (I4).
func (j *judged) falls() {
	for _, wr := range j.x.Writes {
		before := &j.s.Children[wr.Child]
		if wr.Remove || !before.Exists || before.Template != wr.Template || wr.Template != j.s.Version || !j.w.Begun(&j.s.Core) || j.s.Paused {
			continue // under spec.paused, released replicas that were not updated stay released
		}
		grows := wr.Replicas > before.Replicas
		most := max(int(before.Partition), j.w.Highest(&j.s.Core, wr.Child))
		if !grows && int(wr.Partition) > most && before.Partition < before.Replicas {
			j.say("rises", "the partition of %s rises from %d: %s", worlds.SubsetName(wr.Child), before.Partition, wr)
		}
	}
}

// judgeSync checks what the CloneSet controller did, because what the manager told it before determines that. As long as
// no more pods than the partition have a version that the subset protects, it chooses none of them, and creates none of
// another version (I1); under spec.paused it chooses none of them at all. A chosen pod counts until it is gone, as it
// does for the CloneSet controller. This is checked only if the last pass knew the spec and made all its writes.
func (w *game) judgeSync(before *child, after *state, k int) []worlds.Breach {
	if after.PassGeneration != after.Generation || !w.Initialized(&after.Core) || before.Protects == 0 || !after.Has(k) {
		return nil
	}
	c, keeps := &after.Children[k], in(before.Protects)
	want := min(w.Partition(&after.Core, k), int(c.Replicas))
	stay := c.count(keeps, not(marked))
	if after.Paused { // no pod is updated, even if it was released before; only surplus pods go
		want = min(before.count(keeps, not(marked)), max(0, int(c.Replicas)-c.count(not(keeps))))
	}
	taken := stay < want && stay < before.count(keeps, not(marked))
	made := !after.Paused && c.count(keeps) < want && c.count(not(keeps)) > before.count(not(keeps))
	switch {
	case !taken && !made:
		return nil
	case taken && before.count(marked) > 0 && w.Except(choosesAgain):
		return nil
	case before.Protects&worlds.Bit(before.Current) == 0 && before.Current != 0 && w.Except(forgets):
		return nil
	case before.count(not(keeps), not(of(before.Template))) > 0 && w.Except(twoEarlier):
		return nil
	}
	return []worlds.Breach{{Rule: "protected", What: fmt.Sprintf("%s protects %d of %b: taken=%v made=%v, now %d stay", worlds.SubsetName(k), want, before.Protects, taken, made, stay)}}
}

// judgeTaken checks whether a controller that deletes available pods makes more than maxUnavailable unavailable (I2), as
// long as nothing unforeseeable has happened.
func (w *game) judgeTaken(after *state, k, taken int) []worlds.Breach {
	if taken == 0 || !w.Rolling(&after.Core) || after.Race || !w.Initialized(&after.Core) || after.Forced != 0 {
		return nil
	}
	down := int(after.Replicas)
	for i := range after.Children {
		down -= after.Children[i].count(w.available)
	}
	own := w.Allotted(&after.Core, k) - after.Children[k].count(w.available)
	if most := w.BoundOf(&after.Core, k); own > most {
		return []worlds.Breach{{Rule: "taken", What: fmt.Sprintf("%s takes %d available so that %d of it are down, maxUnavailablePerSubset %d", worlds.SubsetName(k), taken, own, most)}}
	}
	if down <= w.Bound(&after.Core) {
		return nil
	}
	return []worlds.Breach{{Rule: "taken", What: fmt.Sprintf("%s takes %d available so that %d are down, maxUnavailable %d", worlds.SubsetName(k), taken, down, w.Bound(&after.Core))}}
}

// failed reports whether an updated replica has failed.
func (s *state) failed() bool {
	return slices.ContainsFunc(s.Children[:], func(c child) bool {
		return c.count(of(s.Version), func(p *pod) bool { return p.Phase == crashed }) > 0
	})
}

// protects returns the versions that a subset may protect; if the oracle has none yet, the version that the parent ran
// last.
func (w *game) protects(s *state, k int) uint8 {
	if v := s.Children[k].Protects; v != 0 {
		return v
	}
	return worlds.Bit(w.VersionOf[w.Status(&s.Core).CurrentRevision])
}
