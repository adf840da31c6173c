// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// write is one write of a pass to a child.
type write struct {
	child          int
	action         subset.Action
	remove, shrink bool
	// remind is the version that the child is to make protected pods of, written into its status.
	remind         uint8
	template       uint8
	replicas       uint8
	partition      uint8
	maxUnavailable uint8
	record         uint32
	generation     uint8
}

func (x write) String() string {
	switch {
	case x.remove:
		return subsetName(x.child) + ":remove"
	case x.remind != 0:
		return fmt.Sprintf("%s:remind of v%d", subsetName(x.child), x.remind)
	}
	return fmt.Sprintf("%s:%s v%d r%d p%d mu%d", subsetName(x.child), x.action, x.template, x.replicas, x.partition, x.maxUnavailable)
}

// deletion is a pod that a pass deletes.
type deletion struct{ child, pod int }

func (d deletion) String() string { return fmt.Sprintf("delete %s", podName(d.child, d.pod)) }

// pass is what the manager has decided, on what it has read.
type pass struct {
	in      *planner.Input
	plan    *planner.Plan
	writes  []write
	deletes []deletion
}

// does are its writes in words.
func (x *pass) does() []string {
	var said []string
	for _, wr := range x.writes {
		said = append(said, wr.String())
	}
	for _, d := range x.deletes {
		said = append(said, d.String())
	}
	return said
}

func (w *world) hash(s *state) uint64 { return maphash.Comparable(w.seed, *s) }

// seen is what a pass can see of a state.
func seen(s *state) state {
	of := *s
	of.Budget, of.Race, of.PassGeneration = budget{}, false, 0
	for k := range of.Children {
		c := &of.Children[k]
		c.Protects, c.Released = 0, 0
	}
	return of
}

// decide is a pass as far as it reads and decides. It is remembered by all that a pass can see.
func (w *world) decide(s, podsOf *state) *pass {
	h := maphash.Comparable(w.seed, [2]state{seen(s), seen(podsOf)})
	if x := w.passes[h]; x != nil {
		return x
	}
	in := w.input(s, podsOf)
	x := &pass{in: in, plan: planner.Make(in)}
	if w.mutant != nil {
		w.mutant(x.plan)
	}
	results := x.results()
	for _, sub := range x.plan.Order(in) {
		step, _ := x.plan.Hold(in, sub, results)
		wr, differs := w.writeOf(s, sub.Name, step)
		if differs && !sub.Deferred {
			x.writes = append(x.writes, wr)
		}
		if !differs { // a child that had to be written is to be observed first
			x.deletes = append(x.deletes, deletionsOf(sub)...)
		}
	}
	if len(w.passes) > 20_000 {
		clear(w.passes)
	}
	w.passes[h] = x
	return x
}

// deletionsOf reads the deletions of a subset from the names of the pods.
func deletionsOf(sub *planner.SubsetPlan) (all []deletion) {
	for _, d := range sub.Deletes {
		all = append(all, deletion{child: int(sub.Name[0] - 'a'), pod: int(d.Name[len(d.Name)-1] - '0')})
	}
	return all
}

func (x *pass) results() planner.Results {
	results := planner.Results{}
	for _, sub := range x.plan.Subsets {
		results[sub.Name] = &planner.Result{}
	}
	return results
}

// writeOf is what a step writes; false when nothing differs.
func (w *world) writeOf(s *state, name string, step subset.Step) (write, bool) {
	k := int(name[0] - 'a')
	c := &s.Children[k]
	switch step.Action {
	case subset.ActionApply, subset.ActionSeed, subset.ActionCreate, subset.ActionRelearn:
		x := w.built(k, step)
		differs := !c.Exists || x.template != c.Template || x.replicas != c.Replicas || x.partition != c.Partition ||
			x.maxUnavailable != c.MaxUnavailable || w.compared[x.record] != w.compared[c.Record]
		return x, differs
	case subset.ActionShrink:
		x := write{child: k, action: step.Action, shrink: true, replicas: uint8(step.Child.Replicas)}
		x.template, x.partition, x.maxUnavailable, x.record, x.generation = c.Template, c.Partition, c.MaxUnavailable, c.Record, c.ParentGeneration
		return x, c.Exists && x.replicas != c.Replicas
	case subset.ActionRemove:
		return write{child: k, action: step.Action, remove: true}, c.Exists
	case subset.ActionRemind:
		v := step.Hash[len(step.Hash)-1] - '0'
		if c.Known&bit(v) == 0 { // its ControllerRevision is gone
			return w.writeOf(s, name, *step.Instead)
		}
		return write{child: k, action: step.Action, remind: v}, c.Current != v
	case subset.ActionSeek, subset.ActionWait, subset.ActionHalt:
	}
	return write{}, false
}

// built reads a write from the object that would be applied.
func (w *world) built(k int, step subset.Step) write {
	u, err := adapters.Build(w.adapter, &step.Child)
	if err != nil {
		panic(err)
	}
	x := write{child: k, action: step.Action, generation: uint8(step.Child.ParentGeneration)}
	spec := u.Object["spec"].(map[string]any)
	strategy := spec["updateStrategy"].(map[string]any)
	x.replicas, x.partition = uint8(number(spec["replicas"])), partitionFrom(number(strategy["partition"]))
	x.maxUnavailable = ofTemplate
	if most, found := strategy["maxUnavailable"]; found {
		x.maxUnavailable = uint8(number(most))
	}
	template := spec["template"].(map[string]any)
	containers, _, _ := unstructured.NestedFieldNoCopy(template, "spec", "containers")
	x.template = containers.([]any)[0].(map[string]any)["image"].(string)[1] - '0'
	if key := [2]uint8{uint8(k), x.template}; w.templates[key] == nil {
		w.templates[key] = runtime.DeepCopyJSON(template)
	}
	record := u.GetAnnotations()
	delete(record, v1alpha1.AnnotationParentGeneration)
	delete(record, v1alpha1.AnnotationRecordChecksum)
	x.record = w.recordID(record)
	return x
}

func partitionFrom(n int64) uint8 { return uint8(min(n, all)) }

func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case string:
		if v == "100%" {
			return unbounded
		}
	}
	panic(fmt.Sprintf("%T %v", v, v))
}

// recordID gives annotations a number.
func (w *world) recordID(record map[string]string) uint32 {
	text := func(compared bool) string {
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(record)) {
			if compared && !wroteFor[key] {
				continue
			}
			b.WriteString(key + "=" + record[key] + "\n")
		}
		return b.String()
	}
	id := w.records.id(text(false), func() map[string]string { return maps.Clone(record) })
	if int(id) == len(w.compared) {
		w.compared = append(w.compared, text(true))
	}
	return id
}

// wroteFor are the annotations for which a child is written: the revision of its template, the partition, and the end of a seed
// (adapters.Record: "None of it makes a write of its own, but for another revision or partition, and the end of a seed").
var wroteFor = map[string]bool{v1alpha1.AnnotationRevision: true, v1alpha1.AnnotationPartition: true, v1alpha1.AnnotationSeeding: true}
