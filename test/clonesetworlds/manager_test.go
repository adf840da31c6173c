// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/worlds"
)

// Read reads the children for a pass.
func (w *game) Read(in *planner.Input, s, theirs *state) {
	for k := range s.Children {
		if !s.Children[k].Exists {
			continue
		}
		read := w.read(s, theirs, k)
		in.Pods[worlds.SubsetName(k)], in.Children[worlds.SubsetName(k)] = read.Have.Pods, read.Child
	}
}

// read reads a child, and the objects that belong to it from theirs, which may be an earlier state.
func (w *game) read(s, theirs *state, k int) worlds.Read {
	key := worlds.ReadKey[child]{Child: k, Is: s.Children[k].seen(), Theirs: theirs.Children[k].seen(), Now: s.Now, TheirNow: theirs.Now}
	return w.reads.Of(key, s.Children[k].Exists,
		func() adapters.Dependents { return w.dependents(theirs, k) },
		func(have adapters.Dependents) *world.Child { return w.Observe(w.object(s, k), have) })
}

func (w *game) Observed(s *state, k int) *world.Child { return w.read(s, s, k).Child }

// DeletionsOf parses the deletions of a subset from the names of the pods.
func (w *game) DeletionsOf(sub *planner.SubsetPlan) (all []worlds.Deletion) {
	for _, d := range sub.Deletes {
		all = append(all, worlds.Deletion{Child: worlds.SubsetNumber(sub.Name), Replica: int(d.Name[len(d.Name)-1] - '0')})
	}
	return all
}

// Writes returns what a step writes; false if there is no difference.
func (w *game) Writes(s *state, sub *planner.SubsetPlan, step worlds.Hold) (worlds.Write, bool) {
	if step.Action == subset.ActionSeek || step.Action == subset.ActionHalt {
		panic(fmt.Sprint("a CloneSet needs no ", step.Action, ": ", step.Reason))
	}
	k := worlds.SubsetNumber(sub.Name)
	c := &s.Children[k]
	if step.Action == subset.ActionRemind {
		v := step.Hash[len(step.Hash)-1] - '0'
		if c.Known&worlds.Bit(v) == 0 { // its ControllerRevision is gone
			return w.Writes(s, sub, *step.Instead)
		}
		return worlds.Write{Child: k, Action: step.Action, Remind: v}, c.Current != v
	}
	has := worlds.Write{Child: k, Template: c.Template, Replicas: c.Replicas, Partition: c.Partition, MaxUnavailable: c.MaxUnavailable,
		Record: c.Record, Generation: c.ParentGeneration}
	return w.WriteOf(has, c.Exists, step, func(step worlds.Hold) worlds.Write { return w.built(k, step) })
}

// built reads a write from the object that would be applied.
func (w *game) built(k int, step worlds.Hold) worlds.Write {
	u, err := adapters.Build(w.Adapter, &step.Child)
	if err != nil {
		panic(err)
	}
	spec := u.Object["spec"].(map[string]any)
	strategy := spec["updateStrategy"].(map[string]any)
	x := worlds.Write{Replicas: uint8(number(spec["replicas"])), Partition: partitionFrom(number(strategy["partition"])), MaxUnavailable: ofTemplate, Record: w.RecordOf(u)}
	if most, found := strategy["maxUnavailable"]; found && step.Child.Pace != nil {
		x.MaxUnavailable = uint8(number(most))
	}
	template := spec["template"].(map[string]any)
	containers, _, _ := unstructured.NestedFieldNoCopy(template, "spec", "containers")
	x.Template = containers.([]any)[0].(map[string]any)["image"].(string)[1] - '0'
	if key := [2]uint8{uint8(k), x.Template}; w.templates[key] == nil {
		w.templates[key] = runtime.DeepCopyJSON(template)
	}
	return x
}

func partitionFrom(n int64) uint8 { return uint8(min(n, worlds.All)) }

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

// Carry writes one child.
func (w *game) Carry(x *worlds.Pass, s *state, wr worlds.Write) {
	c := &s.Children[wr.Child]
	switch {
	case wr.Remove:
		*c = child{Incarnation: c.Incarnation, Protects: c.Protects}
		return
	case wr.Remind != 0:
		c.Current = wr.Remind
		return
	case !c.Exists:
		*c = child{Exists: true, Incarnation: (c.Incarnation + 1) % 4, Protects: c.Protects, Released: c.Released, Pods: c.Pods}
		if c.Protects == 0 && w.Initialized(&s.Core) {
			c.Protects = worlds.Bit(w.VersionOf[x.Plan.CurrentRevision])
		}
	}
	was := c.generation()
	c.Template, c.Replicas, c.Partition, c.MaxUnavailable = wr.Template, wr.Replicas, wr.Partition, wr.MaxUnavailable
	c.Record, c.ParentGeneration = wr.Record, wr.Generation
	if c.generation() != was {
		c.Observed = false
	}
}

// Delete deletes a pod if it is still the one that was read, as its UID shows.
func (w *game) Delete(s *state, d worlds.Deletion, read *state) {
	p := &s.Children[d.Child].Pods[d.Replica]
	if p.Version != read.Children[d.Child].Pods[d.Replica].Version {
		return
	}
	if p.live() {
		w.end(p)
	}
}

// Published: of the versions that a subset may protect, it protects the one in the status.
func (w *game) Published(_ *worlds.Pass, s *state, status *v1alpha1.UnitedDeploymentStatus, _ *state) {
	for _, sub := range status.Subsets {
		c := &s.Children[worlds.SubsetNumber(sub.Name)]
		v := worlds.Bit(w.VersionOf[sub.CurrentRevision])
		if c.Protects&v == 0 {
			continue
		}
		if c.Protects != v && c.count() > 0 && c.count(in(v)) == c.count() {
			c.Released = 0
		}
		c.Protects = v
	}
}
