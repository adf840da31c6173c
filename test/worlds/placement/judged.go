// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/test/worlds"
)

// Judged is a pass that is checked. Its decision was made in state S.
type Judged struct {
	W        *World
	X        *worlds.Pass
	S        *State
	Replicas int
	Plans    map[int]*planner.SubsetPlan
	Breaches []worlds.Breach
}

// NewJudged returns a pass with the plans of all subsets that the spec has.
func NewJudged(w *World, x *worlds.Pass, s *State) *Judged {
	j := &Judged{W: w, X: x, S: s, Replicas: int(s.Replicas), Plans: map[int]*planner.SubsetPlan{}}
	for _, sub := range x.Plan.Subsets {
		if !sub.Removed {
			j.Plans[worlds.SubsetNumber(sub.Name)] = sub
		}
	}
	return j
}

// Say adds a violation.
func (j *Judged) Say(rule, what string, args ...any) {
	j.Breaches = append(j.Breaches, worlds.Breach{Rule: rule, What: fmt.Sprintf(what, args...)})
}

// After returns the state after the writes of the pass, and its deletions.
func (j *Judged) After(deletes []worlds.Deletion) *State {
	after := *j.S
	for _, wr := range j.X.Writes {
		j.W.Carry(j.X, &after, wr)
	}
	for _, d := range deletes {
		after.Kids[d.Child].Set.Delete(d.Replica)
	}
	return &after
}

// Ledger checks that nothing that the pass does makes more than maxUnavailable of some replicas unavailable.
func (j *Judged) Ledger(of int) {
	before, after := SumOf(Lasting(j.S, true)), SumOf(Lasting(j.After(j.X.Deletes), true))
	if after < before && after < of-j.W.Bound(&j.S.Core) {
		j.Say("ledger", "%d of %d replicas stay available, before it were %d", after, of, before)
	}
}

// Lasting returns how many available replicas of each child no controller is going to take, as its spec is. With
// releases, those that were released and are not updated yet do not last.
func Lasting(s *State, releases bool) (each [maxKids]int) {
	for k := range s.Kids {
		c := &s.Kids[k].Set
		for i := range c.Pods {
			p := &c.Pods[i]
			doomed := i >= int(c.Replicas) || releases && i >= int(c.Partition) && p.Version != c.Template
			// Under Manual, one that is not ready for a moment makes no difference.
			available := p.Ready() || !releases && p.Phase == statefulset.Unready && !p.Terminating
			each[k] += worlds.Int(c.Exists && p.Owner == statefulset.Mine && available && !doomed)
		}
	}
	return each
}

// SumOf adds the numbers of all children.
func SumOf(each [maxKids]int) (sum int) {
	for _, n := range each {
		sum += n
	}
	return sum
}
