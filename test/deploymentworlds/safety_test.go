// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// The oracle. Its rules are the words of the design (docs/design.md, docs/workloads.md, docs/rollouts.md), as
// they are read by somebody who does not know how the controller does it. Invariants I1 to I7 are those of
// the comment of package coordination.

// breach is a rule that is broken, and how.
type breach struct{ rule, what string }

// Where the documents say that a rule does not hold, it is an exception. Each is as narrow as their words, and
// there are worlds in which it has to be met (setting.meets): one that is not needed any more is found out.
const (
	// workloads.md: "While it is paused, a Deployment that is scaled shares what is added among the versions
	// that it has".
	mixGrows = "a mix that is held grows on all of its versions"
	// workloads.md, of the same: "What its controller has given up by then goes, and comes up on the new version".
	oldScaledDown = "the last old replica was given up before it was held"
	// workloads.md: "Its ReplicaSets are its memory: when somebody deletes that of the old version, its
	// controller makes the rest on the new one".
	oldLost = "the old ReplicaSet of a mix that is held is lost"
	// workloads.md: "What is held stays what it is". A child that was released, and stopped before anything of
	// it moved, gets back the template of what it runs, under spec.paused too: it moves nothing.
	neverBegan = "a child that was stopped before it moved gets its template back"
	// design.md, Coordinated rollouts: "a child without replicas is treated as not staged". It may have any
	// template before the rollout is on record; what it comes up on is judged then.
	nothingThere = "a child without replicas has the next template before the rollout is on record"
)

// except notes that an exception was met. It is true, so that it can stand in a condition.
func (w *world) except(name string) bool {
	w.excepted[name]++
	return true
}

func (w *world) strategy(s *state) *v1alpha1.UpdateStrategy {
	p, _ := w.parent(s)
	return &p.Spec.UpdateStrategy
}

func (w *world) rolling(s *state) bool {
	return w.strategy(s).Type == v1alpha1.RollingUpdateStrategy
}

// held reports whether the spec protects all of a subset, as things stand.
func (w *world) held(s *state, k int) bool {
	u := w.strategy(s)
	switch {
	case w.rolling(s):
		return w.heldByRollout(s, k, u.RollingUpdate)
	case u.ManualUpdate == nil:
		return false
	}
	if v, ok := u.ManualUpdate.Partitions[subsetName(k)]; ok {
		return full(&v)
	}
	return u.ManualUpdate.DefaultPartition == nil || full(u.ManualUpdate.DefaultPartition)
}

func full(v *intstr.IntOrString) bool { return v != nil && v.String() == "100%" }

// heldByRollout reports whether a child is held: by the floor; before the rollout is on record (design.md: "Nothing is acted on that is not on
// record"); and by the steps up to the running one, which the way back passes by.
func (w *world) heldByRollout(s *state, k int, r *v1alpha1.RollingUpdate) bool {
	status := w.status(s)
	switch {
	case full(r.Partition):
		return true
	case !w.begun(s):
		return !w.goingBack(s)
	case w.goingBack(s), int(status.Rollout.Step) >= len(r.Steps):
		return false
	}
	for _, step := range r.Steps[:status.Rollout.Step+1] {
		named := len(step.Subsets) == 0 || slices.Contains(step.Subsets, subsetName(k))
		if named && !full(step.Partition) {
			return false
		}
	}
	return true
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
	for _, wr := range x.writes {
		if wr.remove {
			j.after[wr.child] = child{}
			continue
		}
		c := &j.after[wr.child]
		c.Exists, c.Template, c.Replicas, c.Paused, c.MaxUnavailable = true, wr.template, wr.replicas, wr.paused, wr.maxUnavailable
	}
	if !w.initialized(s) {
		return nil // nothing is protected before a replica was ready once
	}
	for _, wr := range x.writes {
		j.protection(wr)
	}
	if w.rolling(s) {
		j.ledger()
		j.order()
		j.frozen()
	}
	return j.breaches
}

// protection: a subset that is held, or frozen by spec.paused, is given no other template than one that it
// may protect, or keeps the one that it has, and is paused if it has replicas (I1; workloads.md, Deployments). What
// one without replicas comes up on is judged then. One that is removed under RollingUpdate is drained first
// (rollouts.md).
func (j *judged) protection(wr write) {
	before := &j.s.Children[wr.child]
	if wr.remove {
		if j.w.rolling(j.s) && before.count() > 0 {
			j.say("drain", "%s is removed with replicas", subsetName(wr.child))
		}
		return
	}
	protects := before.Protects
	if protects == 0 {
		protects = bit(j.w.versionOf[j.w.status(j.s).CurrentRevision])
	}
	held := j.w.held(j.s, wr.child) || j.s.Paused
	stays := before.Exists && before.Template == wr.template && (wr.paused || wr.replicas == 0)
	if held && j.s.has(wr.child) && bit(wr.template)&protects == 0 && !stays && !j.nothingThere(wr) {
		j.say("protected", "%s protects %b (paused=%v) and is given %s", subsetName(wr.child), protects, j.s.Paused, wr)
	}
	if j.s.Paused && before.Exists && before.Replicas > 0 && wr.template != before.Template {
		// "paused: no new template reaches a child".
		back := !before.ReplicaSets[before.Template].Exists && bit(wr.template)&protects != 0
		if !back || !j.w.except(neverBegan) {
			j.say("paused", "a new template under paused: %s", wr)
		}
	}
}

// nothingThere is the exception of that name.
func (j *judged) nothingThere(wr write) bool {
	coordinated := j.w.rolling(j.s) && !j.s.Paused && !j.w.begun(j.s) && !full(j.w.strategy(j.s).RollingUpdate.Partition)
	return coordinated && wr.replicas == 0 && j.w.except(nothingThere)
}

// exposure is how many replicas may come to be down by what children were told: those that are down, or what
// one that is on its way may take, if that is more.
func (w *world) exposure(children *[maxChildren]child) (all int) {
	for k := range children {
		c := &children[k]
		if !c.Exists {
			continue
		}
		down := w.down(c)
		if c.onItsWay() && !c.Paused && c.MaxUnavailable != ofTemplate {
			down = max(down, w.maxUnavailable(c))
		}
		all += down
	}
	return all
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
	if after > before && after > j.w.bound(j.s) && j.s.Forced == 0 {
		j.say("ledger", "what may be down rises from %d to %d, maxUnavailable is %d: %v", before, after, j.w.bound(j.s), j.x.writes)
	}
}

// order: under Sequential no available replica is released before the subsets in front are done (I5); the
// way back has no order.
func (j *judged) order() {
	if j.w.strategy(j.s).RollingUpdate.Order != v1alpha1.SequentialOrder || j.w.goingBack(j.s) {
		return
	}
	for _, wr := range j.x.writes {
		before := &j.s.Children[wr.child]
		if wr.remove || !before.Exists || wr.template != j.s.Version || before.Template == j.s.Version || before.Replicas == 0 {
			continue
		}
		for k := range wr.child {
			c := &j.s.Children[k]
			done := c.Exists && c.count(of(j.s.Version), j.w.available) == c.count()
			if !done && c.Replicas > 0 {
				j.say("order", "%s is released with %d available replicas, and %s before it is not done",
					subsetName(wr.child), before.count(j.w.available), subsetName(k))
			}
		}
	}
}

// frozen: while an updated replica is failed, and under spec.paused, nothing is let go (rollouts.md: "A failure
// stops the rollout").
func (j *judged) frozen() {
	failed := j.s.failed() && !j.w.goingBack(j.s) && j.s.Forced == 0 && j.w.begun(j.s)
	if !failed && !j.s.Paused {
		return
	}
	for _, wr := range j.x.writes {
		before, after := &j.s.Children[wr.child], &j.after[wr.child]
		if wr.remove || !before.Exists || before.Replicas == 0 || after.Template != j.s.Version {
			continue
		}
		if before.Template != after.Template || before.Paused && !after.Paused && after.onItsWay() {
			j.say("frozen", "failed=%v paused=%v and %s is let go", failed, j.s.Paused, wr)
		}
	}
}

// judgeSync says what is wrong with what a Deployment's controller did: what was told it beforehand. In a subset
// that is held, nothing but what it may protect grows (I1). It is asked only while the last pass knew the spec and
// wrote all that it wanted to.
func (w *world) judgeSync(before *child, after *state, k int) (breaches []breach) {
	if after.PassGeneration != after.Generation || !w.initialized(after) || before.Protects == 0 || !after.has(k) || !w.held(after, k) {
		return nil
	}
	for v := uint8(1); v <= maxVersion; v++ {
		is, was := after.Children[k].ReplicaSets[v].Replicas, before.ReplicaSets[v].Replicas
		if before.Protects&bit(v) != 0 || is <= was {
			continue
		}
		if rule := w.judgeGrowth(before); rule != "" {
			breaches = append(breaches, breach{rule, fmt.Sprintf("%s is held, protects %b, and v%d goes from %d to %d", subsetName(k), before.Protects, v, was, is)})
		}
	}
	return breaches
}

// judgeGrowth says which rule it breaks that a version grows that is not protected, of a child that is held;
// "" if that is an exception.
func (w *world) judgeGrowth(before *child) string {
	old, lost := uint8(0), true
	for v := range before.ReplicaSets {
		if before.Protects&bit(uint8(v)) != 0 {
			old += before.ReplicaSets[v].Replicas
			lost = lost && !before.ReplicaSets[v].Exists
		}
	}
	switch {
	case before.asked() == 0 && before.count() == 0:
		return "comes up from nothing on what is not protected"
	case !before.Paused: // it was not stopped
		return "moves while held"
	case old == 0 && lost && w.except(oldLost), old == 0 && !lost && w.except(oldScaledDown):
		return ""
	case before.Replicas != before.asked() && w.except(mixGrows):
		return ""
	}
	return "moves while held"
}

// judgeTaken says whether ReplicaSets that delete available replicas bring more down than maxUnavailable (I2),
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
