// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"k8s.io/utils/dump"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
)

// Hold is a step to be executed.
type Hold = subset.Step

// Write is one write of a pass to a child.
type Write struct {
	Child          int
	Action         subset.Action
	Remove, Shrink bool
	// Remind is the version that the child has to make protected replicas of, written into its status.
	Remind                                        uint8
	Template, Replicas, Partition, MaxUnavailable uint8
	// MaxSurge is for Deployments alone.
	MaxSurge   uint8
	Record     uint32
	Generation uint8
	// Paused is spec.paused of the child.
	Paused bool
}

func (x Write) String() string {
	switch {
	case x.Remove:
		return SubsetName(x.Child) + ":remove"
	case x.Remind != 0:
		return fmt.Sprintf("%s:remind of v%d", SubsetName(x.Child), x.Remind)
	}
	return fmt.Sprintf("%s:%s v%d r%d p%d mu%d%s%s", SubsetName(x.Child), x.Action, x.Template, x.Replicas, x.Partition, x.MaxUnavailable, x.surge(),
		strings.Repeat(" paused", Int(x.Paused)))
}

// surge is the maxSurge of a write, if it has one.
func (x *Write) surge() string {
	if x.MaxSurge == 0 {
		return ""
	}
	return fmt.Sprintf(" ms%d", x.MaxSurge)
}

// Deletion is a replica that a pass deletes.
type Deletion struct{ Child, Replica int }

func (d Deletion) String() string { return fmt.Sprintf("delete %s-%d", SubsetName(d.Child), d.Replica) }

// Pass is a decision of the manager, and what it is based on.
type Pass struct {
	// Core is what the pass had read, without the children.
	Core    Core
	In      *planner.Input
	Plan    *planner.Plan
	Writes  []Write
	Deletes []Deletion
	// outcomes are the statuses that it writes, by what became of its writes.
	outcomes map[uint64]outcome
	// text is the result of String, once that was called.
	text string
}

// outcome is a status that a pass writes, and the number under which it is stored.
type outcome struct {
	status *v1alpha1.UnitedDeploymentStatus
	id     uint32
}

// String describes the pass.
func (x *Pass) String() string {
	if x.text == "" { // most passes are met many times
		x.text = fmt.Sprintf("pass %v", x.Does())
	}
	return x.text
}

// Does describes the writes.
func (x *Pass) Does() []string {
	var said []string
	for _, wr := range x.Writes {
		said = append(said, wr.String())
	}
	for _, d := range x.Deletes {
		said = append(said, d.String())
	}
	return said
}

// WithoutReminders returns the pass without writes that affect no replica.
func (x *Pass) WithoutReminders() *Pass {
	less := *x
	less.text = ""
	less.Writes = slices.DeleteFunc(slices.Clone(x.Writes), func(wr Write) bool { return wr.Remind != 0 })
	return &less
}

func (x *Pass) results() planner.Results {
	results := planner.Results{}
	for _, sub := range x.Plan.Subsets {
		results[sub.Name] = &planner.Result{}
	}
	return results
}

// WriteOf returns what a step writes to a child whose current content is has, if it exists; false if there is no
// difference. The kind determines what a child is reminded of.
func (w *World) WriteOf(has Write, exists bool, step Hold, built func(Hold) Write) (Write, bool) {
	switch step.Action {
	case subset.ActionApply, subset.ActionSeed, subset.ActionCreate, subset.ActionRelearn:
		x := built(step)
		x.Child, x.Action, x.Generation = has.Child, step.Action, uint8(step.Child.ParentGeneration)
		differs := !exists || x.Template != has.Template || x.Replicas != has.Replicas || x.Partition != has.Partition ||
			x.MaxUnavailable != has.MaxUnavailable || x.MaxSurge != has.MaxSurge || x.Paused != has.Paused || w.compared[x.Record] != w.compared[has.Record]
		return x, differs
	case subset.ActionShrink:
		x := has
		x.Action, x.Shrink, x.Replicas = step.Action, true, uint8(step.Child.Replicas)
		x.Paused = x.Paused || step.Child.Paused
		return x, exists && x.Replicas != has.Replicas
	case subset.ActionRemove:
		return Write{Child: has.Child, Action: step.Action, Remove: true}, exists
	case subset.ActionRemind, subset.ActionSeek, subset.ActionWait, subset.ActionHalt:
	}
	return Write{}, false
}

// decide is the part of a pass that reads and decides. The result is cached by everything that a pass can see.
func (k *walk[S]) decide(s, theirs *S) *Pass {
	h := maphash.Comparable(k.seed, [2]S{k.Seen(s), k.Seen(theirs)})
	if x := k.passes[h]; x != nil {
		return x
	}
	in := k.w.Input(k.Core(s))
	k.Read(in, s, theirs)
	x := &Pass{Core: *k.Core(s), In: in, Plan: k.planned(in), outcomes: map[uint64]outcome{}}
	if k.w.Mutant != nil {
		k.w.Mutant(in, x.Plan)
	}
	pass.Writes(x.Plan, nil, func(sub *planner.Write) *planner.Result {
		if wr, differs := k.Writes(s, sub.SubsetPlan, sub.Step); differs {
			x.Writes = append(x.Writes, wr)
		} else { // a child that had to be written must be observed first
			x.Deletes = append(x.Deletes, k.DeletionsOf(sub.SubsetPlan)...)
		}
		return &planner.Result{}
	})
	if len(k.passes) > 20_000 {
		clear(k.passes)
	}
	k.passes[h] = x
	return x
}

// planned makes a plan. One of so many times it checks that neither that, nor a status and the events of it, change what
// they are made from.
func (k *walk[S]) planned(in *planner.Input) *planner.Plan {
	if k.asked++; k.asked%audits != 0 {
		return planner.Make(in)
	}
	before := dump.ForHash(in)
	plan := planner.Make(in)
	made := dump.ForHash(plan)
	status, _ := report.Status(in, plan, planner.Results{}, report.Undone{})
	report.Events(&in.Parent.Status, status, plan, planner.Results{})
	if dump.ForHash(in) != before || dump.ForHash(plan) != made {
		panic("a plan, its status or its events have changed what they are made from")
	}
	return plan
}

// disturbed describes what has happened since a pass has read the world: which child has changed, whether the status
// has, and after how many writes the pass dies. read is the state whose objects of the children it had read.
type disturbed[S comparable] struct {
	child  int // -1 if none
	status bool
	dies   int
	read   *S
}

// execute executes a pass. It returns the status if the pass completes.
func (k *walk[S]) execute(x *Pass, s *S, d disturbed[S]) *v1alpha1.UnitedDeploymentStatus {
	stale := uint8(0)
	for n, wr := range x.Writes {
		if d.dies > 0 && n == d.dies {
			return nil
		}
		if d.child == wr.Child || !k.Exists(s, wr.Child) && (wr.Shrink || wr.Action == subset.ActionApply) {
			stale |= 1 << wr.Child
			continue
		}
		k.Carry(x, s, wr)
	}
	written := *s
	for n, del := range x.Deletes {
		if d.dies > 0 && n+len(x.Writes) == d.dies {
			return nil
		}
		k.Delete(s, del, d.read)
	}
	if d.dies > 0 || d.status {
		return nil
	}
	o := k.outcomeOf(x, &written, stale)
	k.Published(x, s, o.status, d.read)
	core := k.Core(s)
	core.Status = o.id
	if stale == 0 {
		core.PassGeneration = uint8(x.In.Parent.Generation)
	}
	if k.ageless != nil && core.Edited && len(x.Writes)+len(x.Deletes) == 0 {
		after := *s
		k.Tidy(&after)
		core.Edited = !k.settled(&after)
	}
	return o.status
}

// outcomeOf returns the status that a pass writes after its writes to children. stale has a bit for each child that could
// not be written. As the status follows from what a pass can see of those children, it is computed once.
func (k *walk[S]) outcomeOf(x *Pass, written *S, stale uint8) outcome {
	h := maphash.Comparable(k.seed, struct {
		seen  S
		stale uint8
	}{k.Seen(written), stale})
	o, known := x.outcomes[h]
	if k.asked++; known && k.asked%audits != 0 {
		return o
	}
	again := k.newOutcome(x, written, stale)
	if known && again.id != o.id {
		panic("a status depends on what Seen leaves out: " + k.show(written))
	}
	x.outcomes[h] = again
	return again
}

// audits is how many of the kept statuses are computed again, to see that they are the same: one of so many.
const audits = 64

func (k *walk[S]) newOutcome(x *Pass, written *S, stale uint8) outcome {
	results := x.results()
	for _, wr := range x.Writes {
		switch r := results[SubsetName(wr.Child)]; {
		case stale>>wr.Child&1 == 1:
			r.Stale = true
		case wr.Remove:
			r.Deleted = true
		case wr.Remind == 0:
			r.Child = k.Observed(written, wr.Child)
		}
	}
	status, _ := report.Status(x.In, x.Plan, results, report.Undone{})
	return outcome{status, k.w.Store(status)}
}

// passWhole runs a whole pass on the current state.
func (k *walk[S]) passWhole(s *S) (S, *Pass, *v1alpha1.UnitedDeploymentStatus) {
	x, after := k.decide(s, s), *s
	status := k.execute(x, &after, disturbed[S]{child: -1, read: s})
	if core := k.Core(&after); len(x.Writes)+len(x.Deletes) == 0 && core.Race {
		core.Race = !k.settled(&after)
	}
	k.Tidy(&after)
	return after, x, status
}
