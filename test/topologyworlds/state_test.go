// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topologyworlds walks through small worlds of a UnitedDeployment whose subsets have bounds, and nodes that are
// full, come and go. A small scheduler gives pods a node or says that it finds none, and time passes in steps. The model
// of what the spec asks for was written from the text of the issue, without reading the code under test. Its value is
// that it is independent, so do not replace any of it by code of the project.
//
// The package has only tests:
//
//	state_test.go    a state: the content of a world
//	spec_test.go     the parents that a world may have
//	objects_test.go  the state as objects of the API
//	pass_test.go     a pass of the manager, with the real decisions
//	events_test.go   what else can happen
//	model_test.go    what the spec asks for
//	judge_test.go    what a pass must not decide: the oracle
//	ending_test.go   what must be true after everything has come to rest
//	walk_test.go     the walk
//	worlds_test.go   the worlds
//	mutants_test.go  wrong decisions, which the oracle must find
//	version_label_test.go  one version label over all subsets; this needs no world
package topologyworlds

import (
	"fmt"
	"strings"
	"time"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
)

const (
	maxKids = 3
	// tick is a step of the clock. A replica that has waited for one tick has waited for longer than reschedule, and a
	// cap that was cleared two ticks ago is over.
	tick       = 15 * time.Second
	reschedule = 10
	retry      = 20
	// oldAge is an age in ticks that counts as an hour, which is longer than every deadline.
	oldAge = 4
)

// now is the time of every state. When time passes, everything else becomes older.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// ago returns the time of an age in ticks.
func ago(age int) time.Time {
	if age >= oldAge {
		return now.Add(-time.Hour)
	}
	return now.Add(-time.Duration(age) * tick)
}

// Marks of a pod: placed has a node; otherwise, the age in ticks of the scheduler's verdict plus 1, or 0 if the
// scheduler has not seen the pod.
const placed = 0x80

func isPlaced(p *statefulset.Pod) bool { return p.Exists() && p.Marks&placed != 0 }

func isUnschedulable(p *statefulset.Pod) bool {
	return p.Exists() && p.Marks&placed == 0 && p.Marks > 0
}

// isStuck reports whether the scheduler has called a pod unschedulable for longer than rescheduleAfterSeconds.
func isStuck(p *statefulset.Pod) bool { return isUnschedulable(p) && p.Marks > 1 }

// kid is the child of a subset.
type kid struct {
	Set statefulset.Set
	// Record are its annotations; Generation is one of them.
	Record     uint32
	Generation uint8
	// Had has a bit for each replica that had a node, and whose place nobody has said to be lost since. Only the oracle
	// uses it.
	Had uint8
	// Cap is what the oracle knows of the cap of the subset.
	Cap capModel
}

// capModel is the state of a cap: none, active, or cleared some ticks ago.
type capModel uint8

const (
	noCap capModel = iota
	activeCap
	clearedCap // and later: one more for each tick
)

// overCap is a cap that was cleared retryAfterSeconds ago.
const overCap = clearedCap + 2

// state is the whole content of a world.
type state struct {
	Version, Replicas, Topology, Strategy, Generation uint8
	Status                                            uint32
	// Edited: the user has changed something, and the manager has had something to do since.
	Edited bool
	// Nodes is how many pods have room on the nodes of each subset.
	Nodes  [maxKids]uint8
	Kids   [maxKids]kid
	Budget budget
}

// budget is how often each kind of event may still happen.
type budget [budgets]int8

// The kinds of events with a budget.
const (
	templates  = iota
	scales     // edits of replicas
	topologies // edits of the subsets, their bounds and the schedule strategy
	strategies
	nodes // the room on the nodes of a subset changes
	flaps
	deletions // a pod is deleted by hand
	stales    // a pass that writes what it decided before an event
	lags      // a pass that sees the current children, but earlier pods
	deaths    // a pass that dies between two writes
	budgets
)

func subsetName(k int) string { return string(rune('a' + k)) }

func subsetNumber(name string) int { return int(name[0] - 'a') }

// tidy brings a state into its canonical form.
func (w *game) tidy(s *state) {
	for k := range s.Kids {
		c := &s.Kids[k]
		for i := range c.Set.Pods {
			p := &c.Set.Pods[i]
			if p.Terminating && p.Marks&placed == 0 {
				*p = statefulset.Pod{} // without a kubelet it is gone at once
			}
			p.WasReady = p.WasReady || p.Phase == statefulset.Ready
			switch {
			case i >= int(c.Set.Replicas):
				c.Had &^= 1 << i // its end is decided
			case isPlaced(p) && !p.Terminating:
				c.Had |= 1 << i
			case isStuck(p), p.Terminating && p.Marks&^placed != 0:
				c.Had &^= 1 << i
			}
		}
		if !c.Set.Exists {
			c.Had = 0
		}
	}
}

// show formats a state as one line. In the pods, "." is ready, "?" not ready, "-" without the scheduler's verdict, a
// digit the age of its verdict, and "~" terminating.
func (w *game) show(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "v%d R%d t%d s%d nodes%v edited=%v", s.Version, s.Replicas, s.Topology, s.Strategy, s.Nodes, s.Edited)
	status := w.statusOf(s)
	for k := range s.Kids {
		c := &s.Kids[k]
		fmt.Fprintf(&b, " | %s", subsetName(k))
		for i := range status.Subsets {
			if sub := &status.Subsets[i]; sub.Name == subsetName(k) {
				fmt.Fprintf(&b, " want%d", sub.DesiredReplicas)
				if sub.Cap != nil {
					fmt.Fprintf(&b, " CAP%d+%d", sub.Cap.Replicas, sub.Cap.Reserved)
					if sub.Cap.ClearedTime != nil {
						fmt.Fprintf(&b, "c%v", now.Sub(sub.Cap.ClearedTime.Time))
					}
				}
			}
		}
		if c.Set.Exists {
			fmt.Fprintf(&b, " v%d r%d p%d", c.Set.Template, c.Set.Replicas, c.Set.Partition)
		}
		fmt.Fprintf(&b, " cap%d[", c.Cap)
		for i := range c.Set.Pods {
			b.WriteString(letters(&c.Set.Pods[i]))
		}
		b.WriteString(" ]")
	}
	return b.String()
}

func letters(p *statefulset.Pod) string {
	if !p.Exists() {
		return " _"
	}
	text := fmt.Sprintf(" %d", p.Version)
	switch {
	case p.Marks == 0:
		text += "-"
	case !isPlaced(p):
		text += fmt.Sprintf("(%d)", p.Marks-1)
	case p.Phase == statefulset.Ready:
		text += "."
	default:
		text += "?"
	}
	if p.Terminating {
		text += "~"
	}
	return text
}
