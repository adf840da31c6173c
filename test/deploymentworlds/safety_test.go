// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/worlds"
)

// The oracle. Its rules are those of the text of the design (docs/design.md, docs/workloads.md, docs/rollouts.md),
// written without knowledge of the implementation. Invariants I1 to I7 are those of the comment of package coordination.

// If the documents say that a rule does not hold, it is an exception. Each is as narrow as their text, and must occur in
// some worlds (setting.meets): the test fails if an exception is no longer needed.
const (
	// workloads.md: "While it is paused, a Deployment that is scaled shares what is added among the versions
	// that it has"; and: "If you scale up a subset while it is being updated, the Deployment controller distributes the new
	// replicas among the versions". The latter also applies to an orphaned one that "is then created again on the protected
	// version of its subset, and its controller replaces the other pods".
	mixGrows = "a mix that is held grows on all of its versions"
	// workloads.md, of the same: "What its controller has given up by then goes, and comes up on the new version".
	oldScaledDown = "the last old replica was given up before it was held"
	// workloads.md: "Its ReplicaSets are its memory: when somebody deletes that of the old version, its
	// controller makes the rest on the new one".
	oldLost = "the old ReplicaSet of a mix that is held is lost"
	// workloads.md, of a Deployment that is held on its way: "it keeps the surplus replicas that maxSurge allowed".
	surplusKept = "what is held on its way keeps its surplus replicas"
	// workloads.md: "What is held stays what it is". A child that was released, and stopped before any of its replicas
	// was updated, gets back the template of what it runs, also under spec.paused: that updates nothing.
	neverBegan = "a child that was stopped before it moved gets its template back"
	// design.md, Coordinated rollouts: "a child without replicas is treated as not staged". It may have any template
	// before the rollout is recorded; the version of its pods is judged when they are created.
	nothingThere = "a child without replicas has the next template before the rollout is on record"
)

// held reports whether the spec currently protects all of a subset.
func (w *game) held(s *worlds.Core, k int) bool { return w.Partition(s, k) == worlds.All }

func full(v *intstr.IntOrString) bool { return v != nil && v.String() == "100%" }

// failed reports whether an updated replica has failed, in a subset that the spec has.
func (s *state) failed() bool {
	for k := range s.Children {
		if s.Has(k) && s.Children[k].count(of(s.Version), func(p *pod) bool { return p.Phase == crashed }) > 0 {
			return true
		}
	}
	return false
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
	j := &judged{w: w, s: s, x: x, after: s.Children}
	for _, wr := range x.Writes {
		if wr.Remove {
			j.after[wr.Child] = child{}
			continue
		}
		c := &j.after[wr.Child]
		c.Exists, c.Template, c.Replicas, c.Paused, c.MaxUnavailable, c.MaxSurge = true, wr.Template, wr.Replicas, wr.Paused, wr.MaxUnavailable, wr.MaxSurge
	}
	if !w.Initialized(&s.Core) {
		return nil // nothing is protected before a replica has been ready
	}
	for _, wr := range x.Writes {
		j.protection(wr)
	}
	if w.Rolling(&s.Core) {
		j.ledger()
		j.ledgerOf()
		j.order()
		j.frozen()
	}
	return j.breaches
}

// protection: a subset that is held, or frozen by spec.paused, may only get a template of a version that it may protect,
// or keep its own, and is paused if it has replicas (I1; workloads.md, Deployments). If it has no replicas, the version
// of its pods is judged when they are created. A subset that is removed under RollingUpdate is drained first
// (rollouts.md).
func (j *judged) protection(wr worlds.Write) {
	before := &j.s.Children[wr.Child]
	if wr.Remove {
		if j.w.Rolling(&j.s.Core) && before.count() > 0 {
			j.say("drain", "%s is removed with replicas", worlds.SubsetName(wr.Child))
		}
		return
	}
	protects := j.protects(before)
	if before.Orphaned && before.count() > 0 && before.count() == before.count(of(j.s.Version)) && wr.Template != j.s.Version &&
		!j.s.Paused && !j.w.held(&j.s.Core, wr.Child) && j.onRecord(wr.Child) {
		j.say("adopts", "%s outlived its Deployment with v%d, which is released, and is given %s", worlds.SubsetName(wr.Child), j.s.Version, wr)
	}
	held := j.w.held(&j.s.Core, wr.Child) || j.s.Paused
	stays := before.Exists && before.Template == wr.Template && (wr.Paused || wr.Replicas == 0)
	if held && j.s.Has(wr.Child) && worlds.Bit(wr.Template)&protects == 0 && !stays && !j.nothingThere(wr) {
		j.say("protected", "%s protects %b (paused=%v) and is given %s", worlds.SubsetName(wr.Child), protects, j.s.Paused, wr)
	}
	if j.s.Paused && before.Exists && before.Replicas > 0 && wr.Template != before.Template {
		// "paused: no new template reaches a child".
		if !j.neverBegan(before, wr) {
			j.say("paused", "a new template under paused: %s", wr)
		}
	}
}

// onRecord reports whether the status has the release of a subset. If a pass died before it wrote that, and the child is
// gone, what is released is not known, and a child comes up protected: docs/design.md, "Children that are released as a whole".
func (j *judged) onRecord(k int) bool {
	sub := world.SubsetStatus(j.w.Status(&j.s.Core), worlds.SubsetName(k))
	return sub != nil && sub.Partition == 0
}

// neverBegan reports whether the exception of that name applies.
func (j *judged) neverBegan(before *child, wr worlds.Write) bool {
	return !before.ReplicaSets[before.Template].Exists && worlds.Bit(wr.Template)&j.protects(before) != 0 && j.w.Except(neverBegan)
}

// protects returns what a child may protect; before it was ever written, that is the current revision.
func (j *judged) protects(c *child) uint8 {
	if c.Protects == 0 {
		return worlds.Bit(j.w.VersionOf[j.w.Status(&j.s.Core).CurrentRevision])
	}
	return c.Protects
}

// nothingThere reports whether the exception of that name applies.
func (j *judged) nothingThere(wr worlds.Write) bool {
	coordinated := j.w.Rolling(&j.s.Core) && !j.s.Paused && !j.w.Begun(&j.s.Core) && !full(j.w.StrategyOf(&j.s.Core).RollingUpdate.Partition)
	return coordinated && wr.Replicas == 0 && j.w.Except(nothingThere)
}

// exposure returns how many replicas may become unavailable because of what children were told: those that already are,
// or those that a child in the middle of an update may make unavailable, if that is more.
func (w *game) exposure(s *worlds.Core, children *[maxChildren]child) (all int) {
	for k := range children {
		if s.Has(k) {
			all += w.exposureOf(s, &children[k], k)
		}
	}
	return all
}

// exposureOf returns how many of the replicas that a subset should have may be down by what its child is asked for.
func (w *game) exposureOf(s *worlds.Core, c *child, k int) int {
	stays := c.count(w.available)
	if c.Exists && c.onItsWay() && !w.back(c) && !c.Paused && c.MaxUnavailable != ofTemplate {
		stays = min(stays, max(0, int(c.Replicas)-w.maxUnavailable(c)))
	}
	return max(0, min(int(c.Replicas), w.Allotted(s, k))-stays)
}

// back reports whether all replicas of a child have its template and are available, so that only surplus ones are left to
// delete. "Released and not yet back" counts as unavailable (design.md, One ledger), and these are back. If one of them
// becomes unavailable after that, it counts like any other.
func (w *game) back(c *child) bool {
	n := c.count(of(c.Template), w.available)
	return !c.isScalingEvent() && c.ReplicaSets[c.Template].Replicas == c.Replicas && n >= int(c.Replicas)
}

// ledgerOf: the same for each subset, and maxUnavailablePerSubset.
func (j *judged) ledgerOf() {
	for k := range j.after {
		was, is := j.s.Children[k], j.after[k]
		grown := was
		if is.Exists {
			grown.Exists, grown.Replicas = true, is.Replicas
		}
		before, after := max(j.w.exposureOf(&j.s.Core, &was, k), j.w.exposureOf(&j.s.Core, &grown, k)), j.w.exposureOf(&j.s.Core, &is, k)
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
	before, after := max(j.w.exposure(&j.s.Core, &j.s.Children), j.w.exposure(&j.s.Core, &grown)), j.w.exposure(&j.s.Core, &j.after)
	if after > before && after > j.w.Bound(&j.s.Core) && j.s.Forced == 0 {
		j.say("ledger", "what may be down rises from %d to %d, maxUnavailable is %d: %v", before, after, j.w.Bound(&j.s.Core), j.x.Writes)
	}
}

// order: under Sequential no available replica is released before the earlier subsets are done (I5); going back has no
// order.
func (j *judged) order() {
	if j.w.StrategyOf(&j.s.Core).RollingUpdate.Order != v1alpha1.SequentialOrder || j.w.GoingBack(&j.s.Core) {
		return
	}
	for _, wr := range j.x.Writes {
		before := &j.s.Children[wr.Child]
		if wr.Remove || !before.Exists || wr.Template != j.s.Version || before.Template == j.s.Version || before.Replicas == 0 {
			continue
		}
		for k := range wr.Child {
			c := &j.s.Children[k]
			done := c.Exists && c.count(of(j.s.Version), j.w.available) == c.count()
			if !done && c.Replicas > 0 {
				j.say("order", "%s is released with %d available replicas, and %s before it is not done",
					worlds.SubsetName(wr.Child), before.count(j.w.available), worlds.SubsetName(k))
			}
		}
	}
}

// frozen: while an updated replica has failed, and under spec.paused, nothing is released (rollouts.md: "A failure stops
// the rollout").
func (j *judged) frozen() {
	failed := j.s.failed() && !j.w.GoingBack(&j.s.Core) && j.s.Forced == 0 && j.w.Begun(&j.s.Core)
	if !failed && !j.s.Paused {
		return
	}
	for _, wr := range j.x.Writes {
		before, after := &j.s.Children[wr.Child], &j.after[wr.Child]
		if wr.Remove || !before.Exists || before.Replicas == 0 || after.Template != j.s.Version {
			continue
		}
		if before.Template != after.Template && !j.neverBegan(before, wr) || before.Paused && !after.Paused && after.onItsWay() {
			j.say("frozen", "failed=%v paused=%v and %s is let go", failed, j.s.Paused, wr)
		}
	}
}

// judgeSync checks what the Deployment controller did, because what the manager told it before determines that. In a
// subset that is held, only versions that it may protect may grow (I1). This is checked only if the last pass knew the
// spec and made all its writes.
func (w *game) judgeSync(before *child, after *state, k int) (breaches []worlds.Breach) {
	if after.PassGeneration != after.Generation || !w.Initialized(&after.Core) || before.Protects == 0 || !after.Has(k) || !w.held(&after.Core, k) {
		return nil
	}
	for v := uint8(1); v <= worlds.MaxVersion; v++ {
		is, was := after.Children[k].ReplicaSets[v].Replicas, before.ReplicaSets[v].Replicas
		if before.Protects&worlds.Bit(v) != 0 || is <= was {
			continue
		}
		if rule := w.judgeGrowth(before); rule != "" {
			breaches = append(breaches, worlds.Breach{Rule: rule, What: fmt.Sprintf("%s is held, protects %b, and v%d goes from %d to %d", worlds.SubsetName(k), before.Protects, v, was, is)})
		}
	}
	return breaches
}

// judgeGrowth returns the rule that is violated if an unprotected version of a held child grows; "" if that is an
// exception.
func (w *game) judgeGrowth(before *child) string {
	old, lost := uint8(0), true
	for v := range before.ReplicaSets {
		if before.Protects&worlds.Bit(uint8(v)) != 0 {
			old += before.ReplicaSets[v].Replicas
			lost = lost && !before.ReplicaSets[v].Exists
		}
	}
	switch {
	case before.asked() == 0 && before.count() == 0 && before.Paused && lost && w.Except(oldLost):
		return "" // it was stopped as a mix, and that of the old version is gone since
	case before.asked() == 0 && before.count() == 0:
		return "comes up from nothing on what is not protected"
	case !before.Paused && before.Protects&worlds.Bit(before.Template) != 0 && before.isScalingEvent() && w.Except(mixGrows):
		return "" // it is on its way to what it protects
	case !before.Paused: // it was not stopped
		return "moves while held"
	case old == 0 && lost && w.Except(oldLost), old == 0 && !lost && w.Except(oldScaledDown):
		return ""
	case before.Replicas != before.asked() && w.Except(mixGrows):
		return ""
	}
	return "moves while held"
}

// judgeTaken checks whether ReplicaSets that delete available replicas make more than maxUnavailable unavailable (I2), as
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
	// A move adds replicas to a subset, which excuses what is under way there, as a scale-up does.
	if most := w.BoundOf(&after.Core, k); own > most && len(w.MovedTo) == 0 {
		return []worlds.Breach{{Rule: "taken", What: fmt.Sprintf("%s takes %d available so that %d of it are down, maxUnavailablePerSubset %d", worlds.SubsetName(k), taken, own, most)}}
	}
	if down <= w.Bound(&after.Core) {
		return nil
	}
	return []worlds.Breach{{Rule: "taken", What: fmt.Sprintf("%s takes %d available so that %d are down, maxUnavailable %d", worlds.SubsetName(k), taken, down, w.Bound(&after.Core))}}
}
