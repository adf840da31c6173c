// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
)

// write is one write of a pass to a child.
type write struct {
	k      int
	action subset.Action
	// remind is the version that the child has to make protected replicas of, written into its status.
	remind              statefulset.Version
	template            statefulset.Version
	replicas, partition uint8
	record              uint32
	generation          uint8
}

func (x write) String() string {
	if x.remind != 0 {
		return fmt.Sprintf("%s:remind v%d", subsetName(x.k), x.remind)
	}
	return fmt.Sprintf("%s:%s v%d r%d p%d", subsetName(x.k), x.action, x.template, x.replicas, x.partition)
}

type deletion struct{ k, ordinal int }

// pass is a decision of the manager.
type pass struct {
	in   *planner.Input
	plan *planner.Plan
	// view are the pods that the pass has seen.
	view    *state
	writes  []write
	deletes []deletion
}

func (x *pass) does() (said []string) {
	for _, wr := range x.writes {
		said = append(said, wr.String())
	}
	for _, d := range x.deletes {
		said = append(said, fmt.Sprintf("delete %s-%d", subsetName(d.k), d.ordinal))
	}
	return said
}

func (x *pass) results() planner.Results {
	results := planner.Results{}
	for _, sub := range x.plan.Subsets {
		results[sub.Name] = &planner.Result{}
	}
	return results
}

// decide is the part of a pass that reads and decides.
func (w *game) decide(s, theirs *state) *pass {
	in := w.input(s)
	w.read(in, s, theirs)
	x := &pass{in: in, plan: planner.Make(in), view: theirs}
	if w.mutant != nil {
		w.mutant(in, x.plan)
	}
	results := planner.Results{}
	for sub := x.plan.Next(results); sub != nil; sub = x.plan.Next(results) {
		results[sub.Name] = &planner.Result{}
		wr, differs := w.writeOf(s, sub.Name, sub.Step)
		if differs && !sub.Deferred {
			x.writes = append(x.writes, wr)
		}
		if differs {
			continue // a child that has to be written must be observed first
		}
		for _, r := range sub.Deletes {
			x.deletes = append(x.deletes, deletion{subsetNumber(sub.Name), int(r.Position)})
		}
	}
	return x
}

// writeOf returns what a step writes; false if there is no difference.
func (w *game) writeOf(s *state, name string, step subset.Step) (write, bool) {
	k := subsetNumber(name)
	c := &s.Kids[k]
	has := write{k: k, action: step.Action, template: c.Set.Template, replicas: c.Set.Replicas, partition: c.Set.Partition, record: c.Record, generation: c.Generation}
	switch step.Action {
	case subset.ActionApply, subset.ActionSeed, subset.ActionCreate, subset.ActionRelearn:
		x := w.build(k, &step.Child)
		x.action = step.Action
		differs := !c.Set.Exists || x.template != has.template || x.replicas != has.replicas || x.partition != has.partition ||
			w.compared(x.record) != w.compared(has.record)
		return x, differs
	case subset.ActionShrink:
		x := has
		x.replicas = uint8(step.Child.Replicas)
		return x, c.Set.Exists && x.replicas != has.replicas
	case subset.ActionRemove:
		return has, c.Set.Exists
	case subset.ActionRemind:
		has.remind = statefulset.Version(step.Hash[len(step.Hash)-1] - '0')
		return has, c.Set.Exists && has.remind != c.Set.Current
	case subset.ActionSeek, subset.ActionWait, subset.ActionHalt:
	}
	return write{}, false
}

// compared are the annotations whose change is a reason to write a child.
func (w *game) compared(record uint32) string {
	of := w.records.values[record]
	return of[v1alpha1.AnnotationRevision] + " " + of[v1alpha1.AnnotationPartition] + " " + of[v1alpha1.AnnotationSeeding] + " " + of[v1alpha1.AnnotationAsked]
}

type built struct {
	record   uint32
	template statefulset.Version
}

// build reads a write from the object that would be applied.
func (w *game) build(k int, c *adapters.Child) write {
	scalars := *c
	scalars.Template, scalars.Patch, scalars.RevisionTemplate, scalars.RevisionPatch = nil, nil, nil, nil
	scalars.Selector, scalars.NodeSelector, scalars.Pace, scalars.Owner = nil, nil, nil, metav1.OwnerReference{}
	containers, _, err := unstructured.NestedFieldNoCopy(c.RevisionTemplate, "spec", "containers")
	if err != nil {
		panic(err)
	}
	image := containers.([]any)[0].(map[string]any)["image"].(string)
	key := fmt.Sprint(image, scalars)
	b, known := w.built[key]
	if !known {
		u, err := adapters.Build(w.adapter, c)
		if err != nil {
			panic(err)
		}
		annotations := u.GetAnnotations()
		delete(annotations, v1alpha1.AnnotationParentGeneration)
		delete(annotations, v1alpha1.AnnotationRecordChecksum)
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(annotations)) {
			text.WriteString(name + "=" + annotations[name] + "\n")
		}
		b = built{w.records.id(text.String(), func() map[string]string { return annotations }), statefulset.Version(image[1] - '0')}
		w.built[key] = b
	}
	return write{
		k: k, template: b.template, replicas: uint8(c.Replicas), partition: uint8(min(c.Partition, all)), record: b.record,
		generation: uint8(c.ParentGeneration),
	}
}

// execute executes a pass, in whole or, if dies is positive, up to that many writes. A changed child is not written; -1
// if none has. read is the state that the pass had read.
func (w *game) execute(x *pass, s *state, read *state, changed, dies int) *v1alpha1.UnitedDeploymentStatus {
	results := x.results()
	for n, wr := range x.writes {
		if dies > 0 && n == dies {
			return nil
		}
		r := results[subsetName(wr.k)]
		if wr.k == changed {
			r.Stale = true
			continue
		}
		w.carry(s, wr)
		if wr.action == subset.ActionRemove {
			r.Deleted = true
		} else {
			r.Child = w.observe(s, s, wr.k)
		}
	}
	for n, d := range x.deletes {
		if dies > 0 && n+len(x.writes) == dies {
			return nil
		}
		// A pod that was replaced since has another UID.
		if p, was := &s.Kids[d.k].Set.Pods[d.ordinal], &read.Kids[d.k].Set.Pods[d.ordinal]; p.Version == was.Version && p.Terminating == was.Terminating {
			s.Kids[d.k].Set.Delete(d.ordinal)
		}
	}
	if dies > 0 {
		return nil
	}
	status, _ := report.Status(x.in, x.plan, results, report.Undone{})
	w.publish(s, status)
	w.learnCaps(s, x, status)
	if len(x.writes)+len(x.deletes) == 0 && w.settled(s) {
		s.Edited = false
	}
	return status
}

// carry writes one child.
func (w *game) carry(s *state, wr write) {
	c := &s.Kids[wr.k]
	switch {
	case wr.action == subset.ActionRemove:
		c.Set.Remove(false)
		*c = kid{Set: c.Set}
	case wr.remind != 0:
		c.Set.Current = wr.remind
	default:
		c.Set.Apply(wr.template, wr.replicas, wr.partition)
		c.Record, c.Generation = wr.record, wr.generation
	}
}

// times matches the times in a message.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]+Z`)

// publish stores the status, without what is only for people.
func (w *game) publish(s *state, status *v1alpha1.UnitedDeploymentStatus) {
	kept := status.DeepCopy()
	kept.ReplicaCounts, kept.Summary, kept.Selector, kept.LastProgressTime = v1alpha1.ReplicaCounts{}, "", "", nil
	kept.Conditions = nil
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionInitialized) {
		kept.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue}}
	}
	for i := range kept.Subsets {
		sub := &kept.Subsets[i]
		sub.ReplicaCounts, sub.Phase, sub.Message, sub.Conditions, sub.ChildRecord = v1alpha1.ReplicaCounts{}, "", "", nil, nil
		if sub.Cap != nil {
			sub.Cap.Message = times.ReplaceAllString(sub.Cap.Message, "T")
		}
	}
	if kept.Rollout != nil {
		kept.Rollout.Message, kept.Rollout.LastProgressTime = "", nil
	}
	s.Status = w.store(kept)
}

func (w *game) store(status *v1alpha1.UnitedDeploymentStatus) uint32 {
	raw, err := json.Marshal(status)
	if err != nil {
		panic(err)
	}
	return w.statuses.id(string(raw), func() *v1alpha1.UnitedDeploymentStatus {
		back := &v1alpha1.UnitedDeploymentStatus{} // as it is read back
		if err := json.Unmarshal(raw, back); err != nil {
			panic(err)
		}
		return back
	})
}

// older lets the times in the status become older by one tick.
func (w *game) older(s *state) {
	status := w.statusOf(s).DeepCopy()
	shift := func(t *metav1.Time) {
		if t == nil || t.IsZero() {
			return
		}
		age := now.Sub(t.Time) + tick
		if age >= oldAge*tick {
			age = time.Hour
		}
		*t = metav1.NewTime(now.Add(-age))
	}
	for i := range status.Subsets {
		if c := status.Subsets[i].Cap; c != nil {
			shift(&c.SinceTime)
			shift(c.ClearedTime)
		}
	}
	if r := status.Rollout; r != nil {
		shift(r.StartTime)
		shift(r.ReachedTime)
	}
	s.Status = w.store(status)
}
