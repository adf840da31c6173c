// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/report"
)

const (
	// mostSteps bounds the length of a schedule, mostTicks how often time passes in it.
	mostSteps = 400
	mostTicks = 40
)

// schedule is one run to the end: there are no more faults or edits, everybody acts in turn, and time passes.
type schedule struct {
	*walk
	// managerFirst: the manager acts before anybody else does.
	managerFirst bool
	trace        []string
	// isWayOut: it is a way out of a stall; stuck: why it has ended in another one.
	isWayOut  bool
	stuck     string
	endedWell map[uint64]bool
}

// act runs the first controller, or scheduler, or kubelet that has something to do.
func (c *schedule) act(s *state) (string, state, []breach) {
	e := &events{w: c.w, s: s}
	e.controllers()
	if len(e.list) == 0 {
		e.scheduler()
	}
	if len(e.list) == 0 {
		e.kubelets()
	}
	if len(e.list) == 0 {
		return "", *s, nil
	}
	return e.list[0].name, e.list[0].next, nil
}

func (c *schedule) pass(s *state) (string, state, []breach) {
	after, x, _ := c.passWhole(s)
	breaches := c.w.judge(x, s)
	if after == *s {
		return "", *s, breaches
	}
	return fmt.Sprintf("pass %v", x.does()), after, breaches
}

// next returns what happens next; "" if nothing but passes without effect is left.
func (c *schedule) next(s *state) (what string, after state, breaches []breach) {
	turns := []func(*state) (string, state, []breach){c.act, c.pass}
	if c.managerFirst {
		slices.Reverse(turns)
	}
	for _, turn := range turns {
		what, after, said := turn(s)
		if breaches = append(breaches, said...); what != "" {
			return what, after, breaches
		}
	}
	return "", *s, breaches
}

// run continues a world to its end, and says what is wrong with that.
func (c *schedule) run(s state) *breach {
	ticked, path, begun := 0, []uint64{}, map[state]bool{}
	for range mostSteps {
		h := c.hash(&s)
		if c.endedWell[h] {
			c.ended(path)
			return nil
		}
		if path = append(path, h); begun[s] {
			return c.circles(&s)
		}
		begun[s] = true
		what, next, breaches := c.next(&s)
		if len(breaches) > 0 {
			c.say(what, &next)
			return &breach{breaches[0].rule, "on the way: " + breaches[0].what}
		}
		if what == "" {
			what, ticked = "tick", ticked+1
			c.w.tick(&next)
			c.w.tidy(&next)
			if next == s {
				if wrong := c.ending(&s); wrong != nil {
					return wrong
				}
				if wrong := c.waysOut(s); wrong != nil {
					return wrong
				}
				c.ended(path)
				return nil
			}
		}
		c.say(what, &next)
		if s = next; ticked > mostTicks {
			return c.circles(&s)
		}
	}
	return &breach{"comes to rest", "it does not come to rest"}
}

// waysOut: out of a state that is not ready there are ways: room for everything, a template without faults, and no
// replicas.
func (c *schedule) waysOut(s state) *breach {
	if c.isWayOut {
		return nil
	}
	whole := true
	for k := range s.Kids {
		for i := range s.Kids[k].Set.Pods {
			p := &s.Kids[k].Set.Pods[i]
			whole = whole && (!p.Exists() || p.Ready())
		}
	}
	if whole {
		return nil
	}
	good, opens := s, slices.IndexFunc(c.w.strategies, func(text string) bool {
		return !strings.HasPrefix(text, "paused") && !strings.Contains(text, "artition")
	})
	if opens < 0 {
		return nil // what is held stays
	}
	if uint8(opens) != s.Strategy {
		good.Strategy, good.Generation, good.Edited = uint8(opens), good.Generation+1, true
	}
	good.Nodes = [maxDomains]uint8{30, 30, 30}
	if c.w.versions[c.w.parent(&s).update-1].broken() || c.w.versions[c.w.parent(&s).update-1].slow() {
		good.Generation, good.Edited = good.Generation+1, true
		good.Image = uint8(slices.IndexFunc(c.w.images, func(image string) bool {
			return (&version{image: image}).size() == 1 && !(&version{image: image}).broken() && !(&version{image: image}).slow()
		}))
	}
	none := s
	none.Generation, none.Replicas, none.Edited = none.Generation+1, 0, true
	ways := map[string]state{"good": good}
	if !c.w.kind.Ordered { // an ordered StatefulSet itself does not delete two replicas that are not ready
		ways["none"] = none
	}
	for name, way := range ways {
		out := &schedule{walk: c.walk, managerFirst: c.managerFirst, isWayOut: true, endedWell: map[uint64]bool{}}
		wrong := out.run(way)
		if wrong == nil && out.stuck != "" && out.stuck != v1alpha1.ReasonBlocked { // its message names the way out
			wrong = &breach{"way out", "it does not get out of a stall with: " + name}
		}
		if wrong != nil {
			c.trace = append(append(c.trace, "--- way out: "+name), out.trace...)
			return wrong
		}
	}
	return nil
}

// circles: a world without end.
func (c *schedule) circles(*state) *breach {
	return &breach{"comes to rest", "it goes round in circles"}
}

func (c *schedule) ended(path []uint64) {
	for _, h := range path {
		c.endedWell[h] = true
	}
}

func (c *schedule) say(what string, s *state) {
	c.trace = append(c.trace, what+"   => "+c.w.show(s))
}

// ending checks a state in which nothing happens anymore.
func (c *schedule) ending(s *state) *breach {
	after, x, status := c.passWhole(s)
	if len(x.does()) > 0 || after != *s {
		return &breach{"rest", fmt.Sprintf("at rest it writes %v", x.does())}
	}
	in := c.w.input(s)
	c.w.read(in, s, s)
	in.Parent.Status = *status
	if again, _ := report.Status(in, planner.Make(in), x.results(), report.Undone{}); publish.Compare(status, again) != publish.Same {
		return &breach{"rest", "at rest it writes the status"}
	}
	e := &end{schedule: c, s: s, top: &c.w.topologies[s.Topology], status: status, plan: x.plan}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	said := fmt.Sprintf(" :: Ready=%s %s %q stalled=%v", ready.Status, ready.Reason, ready.Message, e.is(v1alpha1.ConditionStalled))
	if wrong := e.look(); wrong != nil {
		wrong.what += said
		return wrong
	}
	return nil
}

// end is a state in which nothing happens anymore.
type end struct {
	*schedule
	s      *state
	top    *topology
	status *v1alpha1.UnitedDeploymentStatus
	plan   *planner.Plan
	// ready, waiting, faulty and old are the replicas that are ready, that have no node, that crash or never become ready,
	// and that do not have the version of the spec.
	ready, waiting, faulty, old int
}

func (e *end) is(condition string) bool {
	return meta.IsStatusConditionTrue(e.status.Conditions, condition)
}

func (e *end) look() *breach {
	for k := range e.s.Kids {
		update := e.w.same(k, e.w.parent(e.s).update)
		for i := range e.s.Kids[k].Set.Pods {
			p := &e.s.Kids[k].Set.Pods[i]
			e.ready += one(p.Ready())
			e.waiting += one(isUnschedulable(p))
			e.faulty += one(isPlaced(p) && !p.Ready())
			e.old += one(p.Exists() && p.Version != update)
		}
	}
	want := int(e.s.Replicas)
	stalled := e.is(v1alpha1.ConditionStalled)
	switch {
	case e.waiting > 0 && !stalled:
		return &breach{"stalled is said", fmt.Sprintf("%d replicas have no node", e.waiting)}
	case e.faulty > 0 && !stalled:
		// The world does not know the time of the last progress, from which a stall is told here.
		e.except("not ready")
		e.stuck = "not ready"
		return nil
	case e.waiting+e.faulty > 0:
		c := meta.FindStatusCondition(e.status.Conditions, v1alpha1.ConditionStalled)
		e.except(c.Reason)
		e.stuck = c.Reason
		e.said(c.Reason, c.Message)
		return e.group()
	case e.ready != want:
		return &breach{"end", fmt.Sprintf("%d of %d replicas are ready, and no other one waits for anything", e.ready, want)}
	case stalled || !e.is(v1alpha1.ConditionReady):
		return &breach{"ready", "all replicas are ready"}
	case e.w.rolling(e.s) != nil && !e.w.parent(e.s).object.Spec.Paused && e.old > 0:
		return &breach{"rollout ends", fmt.Sprintf("%d replicas are not updated", e.old)}
	}
	if e.top.order == "" {
		return nil
	}
	for k, n := range e.top.split(want) {
		if int(e.s.Kids[k].Set.Replicas) != n {
			return &breach{"split", fmt.Sprintf("%s has %d replicas instead of %d", subsetName(k), e.s.Kids[k].Set.Replicas, n)}
		}
	}
	return nil
}

// group: a group that waits for a node is named, with its domain if it has one.
func (e *end) group() *breach {
	c := meta.FindStatusCondition(e.status.Conditions, v1alpha1.ConditionStalled)
	if c.Reason != v1alpha1.ReasonGroupUnschedulable {
		return nil
	}
	for k := range e.s.Kids {
		for i := range e.s.Kids[k].Set.Pods {
			p := &e.s.Kids[k].Set.Pods[i]
			if !isUnschedulable(p) {
				continue
			}
			group := e.w.group(e.w.versions[p.Version-1], k, i)
			if strings.HasPrefix(c.Message, fmt.Sprintf("Group %d ", group)) {
				return nil
			}
		}
	}
	return &breach{"message", "it does not name a group that waits"}
}

// said keeps a message of a stall, for people who look at the walk.
func (k *walk) said(reason, message string) {
	if _, known := k.messages[reason]; !known {
		k.messages[reason] = message
	}
}
