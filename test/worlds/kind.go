// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"strings"
)

// kindness describes how a world continues to its end (I6): there are no more faults or edits, all controllers act in
// turn, replicas become ready, approvals are given, and time passes.
type kindness struct {
	name string
	// scarred: a replica that is not ready, and does not have the version that the spec asks for, never becomes ready
	// again.
	scarred bool
	// controllersFirst: controllers and the manager act before replicas do.
	controllersFirst bool
	// managerFirst: the manager acts before everybody else.
	managerFirst bool
}

func (k *walk[S]) kindnesses() []kindness {
	if k.ageless != nil { // kubelets act as controllers do
		return []kindness{{name: "manager first", managerFirst: true}, {name: "controllers first"}}
	}
	return []kindness{
		{name: "controllers first", controllersFirst: true},
		{name: "everybody heals"},
		{name: "scarred", scarred: true},
	}
}

// mostKindSteps bounds the length of a schedule.
const mostKindSteps = 400

// mostTicks bounds how often time passes in it: with minReadySeconds once for each replica that is replaced. Without a clock it
// passes until that changes nothing, at most mostAges times.
const (
	mostTicks = 8
	mostAges  = 40
)

// next returns what happens next; "" if nothing but passes without effect is left.
func (k *walk[S]) next(n kindness, s *S) (what string, after S, breaches []Breach) {
	heal := func(s *S) (string, S, []Breach) {
		what, after := k.heal(n, s)
		return what, after, nil
	}
	turns := []func(*S) (string, S, []Breach){heal, k.act, k.passKindly}
	if n.controllersFirst {
		turns = []func(*S) (string, S, []Breach){k.act, k.passKindly, heal}
	}
	if n.managerFirst {
		turns = []func(*S) (string, S, []Breach){k.passKindly, k.act}
	}
	for _, turn := range turns {
		what, after, said := turn(s)
		if breaches = append(breaches, said...); what != "" {
			return what, after, breaches
		}
	}
	return "", *s, breaches
}

// heal makes all replicas ready at once.
func (k *walk[S]) heal(n kindness, s *S) (string, S) {
	after := *s
	if !k.Heal(&after, n.scarred) {
		return "", *s
	}
	k.Tidy(&after)
	return "replicas come up", after
}

// act runs the first controller that has something to do.
func (k *walk[S]) act(s *S) (string, S, []Breach) {
	e := k.controllers(s)
	if len(e.List) == 0 {
		return "", *s, e.Breaches
	}
	return e.List[0].Name, e.List[0].Next, e.Breaches
}

func (k *walk[S]) passKindly(s *S) (string, S, []Breach) {
	after, x, _ := k.passWhole(s)
	if after == *s {
		return "", *s, k.Judge(x, s)
	}
	return x.String(), after, k.Judge(x, s)
}

// moment is what has happened in a run, and the state after it.
type moment[S comparable] struct {
	what string
	s    S
}

// schedule is one run to the end.
type schedule[S comparable] struct {
	*walk[S]
	kind kindness
	// begun are the states of this run, endedWell those of all runs with the same kindness that ended well.
	begun     map[uint64]bool
	endedWell map[uint64]bool
	trace     []moment[S]
	// depth is how many suggested actions the user has tried.
	depth int
}

// run continues a world to its end, and says what is wrong with that; "" if nothing.
func (c *schedule[S]) run(s S) (wrong string) {
	ticked, path, h := 0, []uint64{}, c.hash(&s)
	for range mostKindSteps {
		if c.ageless != nil || ticked == 0 && c.depth == 0 {
			if c.endedWell[h] {
				return c.endsWell(path)
			}
			path = append(path, h)
		}
		what, next, breaches := c.next(c.kind, &s)
		if len(breaches) > 0 {
			c.say(what, &next)
			return fmt.Sprint("on the way: ", breaches)
		}
		switch key := c.w.ApprovalKey(c.Core(&s)); {
		case what != "":
		case key != 0 && c.Core(&s).Approved != key:
			what, c.Core(&next).Approved = "approve", key
		case c.ageless != nil || ticked < mostTicks: // then nothing is young anymore
			ticked++
			what = tick
			c.tick(&next)
			c.Tidy(&next)
		}
		if next == s {
			if wrong := c.ending(&s); wrong != "" {
				return wrong
			}
			return c.endsWell(path)
		}
		c.say(what, &next)
		if s, h = next, c.hash(&next); c.begun[h] || ticked > mostAges {
			return c.circles(&s)
		}
		c.begun[h] = true
	}
	return fmt.Sprint(Breach{"comes to rest", "it does not come to rest"})
}

// circles is what is wrong with a world that goes round in circles.
func (c *schedule[S]) circles(s *S) string {
	if c.ageless != nil && c.ageless.MayCircle(s) {
		return ""
	}
	return fmt.Sprint(Breach{"comes to rest", "it goes round in circles"})
}

func (c *schedule[S]) endsWell(path []uint64) string {
	for _, h := range path {
		c.endedWell[h] = true
	}
	return ""
}

func (c *schedule[S]) say(what string, s *S) {
	c.trace = append(c.trace, moment[S]{what, *s})
}

// continues runs a world on to its end after the user has done something: a suggested action, or the end of a pause.
func (c *schedule[S]) continues(how string, s *S, f func(*S)) string {
	after := *s
	f(&after)
	c.Core(&after).Generation++
	c.say(strings.ToUpper(how), &after)
	on := &schedule[S]{walk: c.walk, kind: c.kind, begun: map[uint64]bool{}, endedWell: map[uint64]bool{}, trace: c.trace, depth: c.depth + 1}
	wrong := on.run(after)
	c.trace = on.trace
	if wrong != "" {
		return fmt.Sprintf("after %q: %s", how, wrong)
	}
	return ""
}

// endsOf checks how a state ends.
func (k *walk[S]) endsOf(s *S, n kindness, endedWell map[uint64]bool) (wrong string, trace []moment[S]) {
	begin := *s
	core := k.Core(&begin)
	core.Budget, core.Race = Budget{}, true
	k.Tidy(&begin)
	c := &schedule[S]{walk: k, kind: n, begun: map[uint64]bool{}, endedWell: endedWell}
	return c.run(begin), c.trace
}
