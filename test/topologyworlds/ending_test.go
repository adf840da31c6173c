// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"fmt"
	"slices"

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
	endedWell    map[uint64]bool
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

// circles: a world without end. Where too few nodes have room, replicas without a node may be tried here and there.
func (c *schedule) circles(s *state) *breach {
	if c.lacksRoom(s) {
		c.except("tries here and there")
		return nil
	}
	return &breach{"comes to rest", "it goes round in circles"}
}

// lacksRoom reports whether the nodes have too little room for all replicas, within the maximums.
func (c *schedule) lacksRoom(s *state) bool {
	room, top := 0, &c.w.topologies[s.Topology]
	for k := range top.bounds {
		if top.has(k) {
			room += min(int(s.Nodes[k]), top.maximum(k, int(s.Replicas)))
		}
	}
	return room < int(s.Replicas)
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
	// ready, waiting and old are the replicas that are ready, that have no node, and that do not have the template's
	// version.
	ready, waiting, old int
}

func (e *end) is(condition string) bool {
	return meta.IsStatusConditionTrue(e.status.Conditions, condition)
}

func (e *end) look() *breach {
	for k := range e.s.Kids {
		for i := range e.s.Kids[k].Set.Pods {
			p := &e.s.Kids[k].Set.Pods[i]
			e.ready += one(p.Ready())
			e.waiting += one(isUnschedulable(p))
			e.old += one(p.Exists() && uint8(p.Version) != e.s.Version)
		}
	}
	want, rolling, real, reserved := int(e.s.Replicas), e.w.rolling(e.s) != nil, 0, 0
	for i := range e.plan.Subsets {
		real += int(e.plan.Subsets[i].Desired - e.plan.Subsets[i].Reserved)
		reserved += int(e.plan.Subsets[i].Reserved)
	}
	switch {
	case real != want:
		return &breach{"sum", fmt.Sprintf("at rest the subsets get %d of %d replicas", real, want)}
	case e.ready > want:
		return &breach{"end", fmt.Sprintf("%d of %d replicas", e.ready, want)}
	case e.ready+e.waiting < want:
		return &breach{"end", fmt.Sprintf("%d ready and %d waiting of %d replicas", e.ready, e.waiting, want)}
	case e.is(v1alpha1.ConditionReady) != (e.ready == want) && e.old == 0:
		return &breach{"ready", fmt.Sprintf("%d of %d replicas are ready", e.ready, want)}
	case e.top.mode == reserve && e.ready == want && rolling && e.old > 0, e.waiting == 0 && rolling && e.old > 0:
		return &breach{"rollout ends", fmt.Sprintf("%d replicas are not updated", e.old)}
	case e.is(v1alpha1.ConditionStalled) && e.ready == want:
		return &breach{"ready", "stalled"}
	case e.top.mode == reserve && e.waiting == 0:
		return e.afterReserve()
	case e.top.mode == adaptive && e.ready < want:
		return e.whyWaiting()
	case e.top.mode == adaptive && e.waiting+e.ready > want+reserved:
		return &breach{"end", "more than the replicas"}
	}
	return nil
}

// whyWaiting: a replica waits only below one that has a node, within the minimum, or if nobody has room.
func (e *end) whyWaiting() *breach {
	for k := range e.s.Kids {
		c := &e.s.Kids[k]
		for i := range c.Set.Pods {
			if !isUnschedulable(&c.Set.Pods[i]) || i < max(c.kept(), e.top.minimum(k, int(e.s.Replicas))) {
				continue
			}
			for other := range e.top.bounds {
				o := &e.s.Kids[other]
				if e.top.has(other) && used(e.s, other) < int(e.s.Nodes[other]) && int(o.Set.Replicas) < e.top.maximum(other, int(e.s.Replicas)) {
					return &breach{"waits for nothing", fmt.Sprintf("%s-%d waits, and %s has room", subsetName(k), i, subsetName(other))}
				}
			}
		}
	}
	return nil
}

// afterReserve: if every subset has room for what the spec gives it, it has that.
func (e *end) afterReserve() *breach {
	want := e.top.fill(int(e.s.Replicas))
	for k, n := range want {
		if n > int(e.s.Nodes[k]) {
			return nil
		}
	}
	for k, n := range want {
		if int(e.s.Kids[k].Set.Replicas) != n {
			return &breach{"substitutes go", fmt.Sprintf("%s has %d replicas instead of %d", subsetName(k), e.s.Kids[k].Set.Replicas, n)}
		}
	}
	return nil
}
