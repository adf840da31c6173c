// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"fmt"
	"slices"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

// The oracle. Its rules are those of the text of the design (docs/design.md, docs/workloads.md, docs/rollouts.md), by
// ordinal, and written without knowledge of the implementation. Invariants I1 to I7 are those of the comment of package
// coordination.

// If the documents say that a rule does not hold, it is an exception. Each is as narrow as their text, and must occur in
// the worlds that name it (Meets), and only there: the test fails if an exception is no longer needed.
const (
	// workloads.md: "The LeaderWorkerSet controller forgets the earlier version as soon as all leaders are updated and
	// ready, even if workers are not."
	hasty = "all leaders were updated and ready before their workers were, and the version before is forgotten"
	// workloads.md: "A group that is held at the very moment in which the last one is updated can come back without workers."
	truncated = "a leader came back on a version that its LeaderWorkerSet had deleted"
	// design.md, A child that forgets: "Protection that is lost is noticed, and repaired".
	forgot = "the StatefulSet controller has lost what it remembered, and a group came back before it was reminded"
)

// excused reports whether an exception is allowed here, and records that it occurred.
func (w *game) excused(name string) bool {
	return slices.Contains(w.Meets, name) && w.Except(name)
}

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
	x = x.WithoutReminders()
	j := &judged{w: w, s: s, x: x, after: s.Children}
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
		j.growth()
	}
	return j.breaches
}

// protects returns the versions that a subset may protect; if the oracle has none yet, the version that the parent ran
// last.
func (w *game) protects(s *state, k int) uint8 {
	if v := s.Children[k].Protects; v != 0 {
		return v
	}
	return worlds.Bit(w.VersionOf[w.Status(&s.Core).CurrentRevision])
}

// protection: a child that gets a version which its subset may not protect keeps the groups that the spec protects (I1).
// Released groups are not reverted. A child that is removed under RollingUpdate is drained first (rollouts.md).
func (j *judged) protection(wr worlds.Write) {
	before, name := &j.s.Children[wr.Child], worlds.SubsetName(wr.Child)
	if wr.Remove || !j.s.Has(wr.Child) {
		if wr.Remove && j.w.Rolling(&j.s.Core) && before.count() > 0 {
			j.say("drain", "%s is removed with replicas", name)
		}
		return
	}
	protects, want := j.w.protects(j.s, wr.Child), j.w.Partition(&j.s.Core, wr.Child)
	// What was released before the rollout was recorded stays released.
	asBefore := j.w.Rolling(&j.s.Core) && before.Exists && wr.Template == before.Template && wr.Partition >= before.Partition
	if worlds.Bit(wr.Template)&protects == 0 && !asBefore && int(wr.Partition) < min(want, int(wr.Replicas)) {
		j.say("partition", "%s protects %b below %d, and is given %s", name, protects, want, wr)
	}
	for i := range int(wr.Replicas) {
		released := i >= worlds.All-int(before.Opened)
		if before.Template == j.s.Version && wr.Template != j.s.Version && before.in(worlds.Bit(j.s.Version), i) && i >= int(wr.Partition) && released {
			j.say("taken back", "%s-%d is updated and was released, and is given %s", name, i, wr)
		}
	}
}

// released matches the groups that a child has to replace: outdated, and not below its partition.
func (c *child) released() func(int) bool {
	return func(i int) bool { return c.version(i) != c.Template && i >= int(c.Partition) && i < int(c.Replicas) }
}

// paused: no child gets a new template, and no group is released, not even by scaling.
func (j *judged) paused(wr worlds.Write) {
	before, after := j.s.Children[wr.Child], j.after[wr.Child]
	if !j.s.Paused || wr.Remove || !before.Exists || before.Replicas == 0 || !j.s.Has(wr.Child) {
		return
	}
	if wr.Template != before.Template {
		j.say("paused", "a new template under paused: %s", wr)
	}
	if was, is := before.count(before.released()), after.count(after.released()); is > was {
		j.say("paused", "under paused %d are released instead of %d: %s", is, was, wr)
	}
}

// takes returns how many available groups a child is about to replace.
func (w *game) takes(c *child) int { return c.count(c.released(), w.available(c)) }

// exposure returns how many replicas may become unavailable because of what children were told.
func (j *judged) exposure(children *[maxChildren]child) (sum int) {
	for k := range children {
		sum += j.exposureOf(k, &children[k])
	}
	return sum
}

// exposureOf: of a child that has more replicas than its subset is allotted, for example because it waits to be scaled
// down, surplus ones may be missing ("R: the subset's replicas").
func (j *judged) exposureOf(k int, c *child) int {
	if !c.Exists {
		return 0
	}
	owed := int(c.Replicas)
	if j.s.Has(k) {
		owed = min(owed, j.w.Allotted(&j.s.Core, k))
	}
	stay := c.count(j.w.available(c), func(i int) bool { return i < int(c.Replicas) })
	return max(0, owed-max(0, stay-j.w.takes(c)))
}

// ledgerOf: the same for each subset, and maxUnavailablePerSubset.
func (j *judged) ledgerOf() {
	for k := range j.after {
		was, is := j.s.Children[k], j.after[k]
		grown := was
		if is.Exists {
			grown.Exists, grown.Replicas = true, is.Replicas
		}
		before, after := max(j.exposureOf(k, &was), j.exposureOf(k, &grown)), j.exposureOf(k, &is)
		for _, d := range j.x.Deletes {
			after += worlds.Int(d.Child == k && j.w.available(&was)(d.Replica) && !was.released()(d.Replica))
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
	before, after := max(j.exposure(&j.s.Children), j.exposure(&grown)), j.exposure(&j.after)
	for _, d := range j.x.Deletes {
		c := &j.s.Children[d.Child]
		after += worlds.Int(j.w.available(c)(d.Replica) && !c.released()(d.Replica))
	}
	if bound := j.w.Bound(&j.s.Core); after > before && after > bound && j.s.Forced == 0 {
		j.say("ledger", "what may be down rises from %d to %d, maxUnavailable is %d: %v", before, after, bound, j.x.Does())
	}
}

// releases reports whether a write releases more available groups.
func (j *judged) releases(wr worlds.Write) bool {
	before, after := &j.s.Children[wr.Child], &j.after[wr.Child]
	return !wr.Remove && before.Exists && wr.Template == j.s.Version && j.w.takes(after) > j.w.takes(before) && after.Replicas == before.Replicas
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
			if c.count(c.of(j.s.Version), j.w.available(c)) < j.w.ToRelease(&j.s.Core, k) {
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
		if toRelease := j.w.ToRelease(&j.s.Core, k); j.s.Has(k) && toRelease > 0 {
			slowest = min(slowest, float64(c.count(c.of(j.s.Version), j.w.available(c)))/float64(toRelease))
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

// failed reports whether an updated replica has failed.
func (s *state) failed() bool {
	return slices.ContainsFunc(s.Children[:], func(c child) bool { return c.count(c.of(s.Version), c.crashed) > 0 })
}

// stopped reports whether an updated replica has failed in a coordinated rollout that is recorded and does not go back.
func (j *judged) stopped() bool {
	return j.s.failed() && !j.w.GoingBack(&j.s.Core) && j.s.Forced == 0 && j.w.Begun(&j.s.Core)
}

// frozen: while an updated replica has failed, and under spec.paused, no available replica is released (rollouts.md: "A
// failure stops the rollout").
func (j *judged) frozen() {
	for _, wr := range j.x.Writes {
		if (j.stopped() || j.s.Paused) && j.releases(wr) {
			j.say("frozen", "failed=%v paused=%v and %s is let go", j.stopped(), j.s.Paused, wr)
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
		most := max(int(before.Partition), j.w.Highest(&j.s.Core, wr.Child))
		if wr.Replicas <= before.Replicas && int(wr.Partition) > most && before.Partition < before.Replicas {
			j.say("rises", "the partition of %s rises from %d: %s", worlds.SubsetName(wr.Child), before.Partition, wr)
		}
	}
}

// growth is a release: replicas that a scale-up adds come up on the update revision only as long as they and those in
// flight together are no more than maxUnavailable, and not while a replica has failed or the rollout is paused.
func (j *judged) growth() {
	added, inFlight := 0, 0
	for k := range j.after {
		before, after := &j.s.Children[k], &j.after[k]
		if !after.Exists || !j.s.Has(k) || after.Template != j.s.Version || j.w.protects(j.s, k)&worlds.Bit(after.Template) != 0 {
			continue
		}
		for i := int(after.Partition); i < int(after.Replicas); i++ {
			switch updated := before.version(i) == j.s.Version; {
			case i >= int(before.Replicas):
				added++
			case i >= int(before.Partition) && (!updated || !j.w.available(before)(i)):
				inFlight++
			}
		}
	}
	if added == 0 || j.w.GoingBack(&j.s.Core) || j.s.Forced != 0 {
		return
	}
	if bound := j.w.Bound(&j.s.Core); added+inFlight > bound || j.stopped() || j.s.Paused {
		j.say("growth", "%d are added on the update revision while %d are on their way, maxUnavailable %d, failed=%v paused=%v: %v",
			added, inFlight, bound, j.stopped(), j.s.Paused, j.x.Does())
	}
}

// judgeSync checks what a StatefulSet controller did, because what the manager told it before determines that. Below the
// partition it deletes no group that is as it must be, and creates none that is not (I1). This is checked only if the
// last pass knew the spec and made all its writes, and the LeaderWorkerSet controller has seen them.
func (w *game) judgeSync(before *child, after *state, k int) (breaches []worlds.Breach) {
	c := &after.Children[k]
	if after.PassGeneration != after.Generation || !w.Initialized(&after.Core) || before.Protects == 0 || !after.Has(k) || !c.Exists || !c.Observed {
		return nil
	}
	for i := range min(w.Partition(&after.Core, k), int(c.Replicas), maxGroups) {
		taken := before.in(before.Protects, i) && !c.live(i)
		made := !before.Leaders.Pods[i].Exists() && c.live(i) && !c.in(before.Protects, i)
		switch forgotten := worlds.Bit(uint8(before.Leaders.Current))&before.Protects == 0 && before.Leaders.Current != 0; {
		case !taken && !made:
		case made && before.Lost && w.excused(forgot):
		case made && forgotten && w.excused(hasty):
		default:
			breaches = append(breaches, worlds.Breach{Rule: "protected", What: fmt.Sprintf("%s of %b is protected: taken=%v made=%v v%d",
				leaderName(k, i), before.Protects, taken, made, c.version(i))})
		}
	}
	return breaches
}

// judgeTaken checks whether a controller that deletes available groups makes more than maxUnavailable unavailable (I2),
// as long as nothing unforeseeable has happened.
func (w *game) judgeTaken(after *state, k, taken int) []worlds.Breach {
	if taken == 0 || !w.Rolling(&after.Core) || after.Race || !w.Initialized(&after.Core) || after.Forced != 0 {
		return nil
	}
	down := int(after.Replicas)
	for i := range after.Children {
		c := &after.Children[i]
		down -= c.count(w.available(c))
	}
	own := w.Allotted(&after.Core, k) - after.Children[k].count(w.available(&after.Children[k]))
	if most := w.BoundOf(&after.Core, k); own > most {
		return []worlds.Breach{{Rule: "taken", What: fmt.Sprintf("%s takes %d available so that %d of it are down, maxUnavailablePerSubset %d", worlds.SubsetName(k), taken, own, most)}}
	}
	if down <= w.Bound(&after.Core) {
		return nil
	}
	return []worlds.Breach{{Rule: "taken", What: fmt.Sprintf("%s takes %d available so that %d are down, maxUnavailable %d",
		worlds.SubsetName(k), taken, down, w.Bound(&after.Core))}}
}
