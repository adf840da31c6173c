// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"
	"strings"
)

// kindness says how kind a world becomes when it is asked how it ends (I6): no more faults, nobody edits
// anything, everybody acts in turn, pods become ready, approvals are given, time passes.
type kindness struct {
	name string
	// scarred: what is not ready, and not of the version that is asked for, never becomes ready again.
	scarred bool
	// controllersFirst: they and the manager act before the pods do.
	controllersFirst bool
}

func kindnesses() []kindness {
	return []kindness{
		{name: "controllers first", controllersFirst: true},
		{name: "everybody heals"},
		{name: "scarred", scarred: true},
	}
}

// mostKindSteps bounds a kind schedule.
const mostKindSteps = 400

// mostTicks is how often time passes in it: with minReadySeconds once for each replica that is replaced.
const mostTicks = 8

// next is what happens next in a kind world; "" when nothing is left but passes that do nothing.
func (n *kindness) next(w *world, s *state) (what string, after state, breaches []breach) {
	turns := []func(*world, *state) (string, state, []breach){n.heal, n.controllers, n.pass}
	if n.controllersFirst {
		turns = []func(*world, *state) (string, state, []breach){n.controllers, n.pass, n.heal}
	}
	for _, turn := range turns {
		what, after, said := turn(w, s)
		if breaches = append(breaches, said...); what != "" {
			return what, after, breaches
		}
	}
	return "", *s, breaches
}

// heal brings all pods on, at once.
func (n *kindness) heal(w *world, s *state) (string, state, []breach) {
	after, healed := *s, false
	for k := range after.Children {
		for i := range after.Children[k].Pods {
			p := &after.Children[k].Pods[i]
			bad := w.bad&bit(p.Version) != 0
			switch {
			case p.Version != 0 && p.Terminating:
				*p, healed = pod{}, true
			case p.Version == 0 || p.Phase == ready:
			case p.Phase == starting && bad:
				p.Phase, p.Aged, healed = crashed, false, true
			case p.Phase == starting, !bad && (!n.scarred || p.Version == s.Version):
				p.Phase, p.Aged, p.WasReady, healed = ready, false, true, true
			}
		}
	}
	if !healed {
		return "", *s, nil
	}
	w.tidy(&after)
	return "pods come up", after, nil
}

// controllers lets the first of them act that has something to do.
func (n *kindness) controllers(w *world, s *state) (string, state, []breach) {
	e := &events{w: w, s: s}
	for k := range s.Children {
		if s.Children[k].Exists {
			e.controllers(k)
		}
	}
	if len(e.list) == 0 {
		return "", *s, e.breaches
	}
	return e.list[0].name, e.list[0].next, e.breaches
}

func (n *kindness) pass(w *world, s *state) (string, state, []breach) {
	after, x, _ := w.passWhole(s)
	if after == *s {
		return "", *s, w.judge(x, s)
	}
	return fmt.Sprintf("pass %v", x.does()), after, w.judge(x, s)
}

// schedule is one kind schedule.
type schedule struct {
	*kindness
	w *world
	// begun are the states that it went through, well those of all schedules of its kind that ended well.
	begun map[state]bool
	well  map[uint64]bool
	trace []string
	// depth is how often the user has gone a way out.
	depth int
}

// live plays a kind world to its end, and says what is wrong with that; "" if nothing.
func (c *schedule) live(s state) (wrong string) {
	ticked, path := 0, []uint64{}
	for range mostKindSteps {
		if h := c.w.hash(&s); ticked == 0 && c.depth == 0 {
			if c.well[h] {
				return c.endsWell(path)
			}
			path = append(path, h)
		}
		what, next, breaches := c.next(c.w, &s)
		if len(breaches) > 0 {
			c.say(what, &next)
			return fmt.Sprint("on the way: ", breaches)
		}
		switch key := c.w.approvalKey(&s); {
		case what != "":
		case key != 0 && s.Approved != key:
			what, next.Approved = "approve", key
		case ticked < mostTicks: // then nothing is young any more
			ticked++
			what = "tick"
			next.tick()
			c.w.tidy(&next)
		default:
			if wrong := c.ending(&s); wrong != "" {
				return wrong
			}
			return c.endsWell(path)
		}
		c.say(what, &next)
		if s = next; c.begun[s] {
			return "it goes round in circles"
		}
		c.begun[s] = true
	}
	return "it does not come to rest"
}

func (c *schedule) endsWell(path []uint64) string {
	for _, h := range path {
		c.well[h] = true
	}
	return ""
}

func (c *schedule) say(what string, s *state) {
	c.trace = append(c.trace, what+"   => "+c.w.show(s))
}

// goesOn is what becomes of it when the user does something: a way out, or the end of a pause.
func (c *schedule) goesOn(how string, s *state, f func(*state)) string {
	after := *s
	f(&after)
	after.Generation++
	c.say(strings.ToUpper(how), &after)
	on := &schedule{kindness: c.kindness, w: c.w, begun: map[state]bool{}, trace: c.trace, depth: c.depth + 1}
	wrong := on.live(after)
	c.trace = on.trace
	if wrong != "" {
		return fmt.Sprintf("after %q: %s", how, wrong)
	}
	return ""
}

// endsOf asks how a state ends when the world is kind.
func (w *world) endsOf(s *state, n *kindness, well map[uint64]bool) (wrong string, trace []string) {
	begin := *s
	begin.Budget, begin.Race = budget{}, true
	c := &schedule{kindness: n, w: w, begun: map[state]bool{}, well: well}
	return c.live(begin), c.trace
}
