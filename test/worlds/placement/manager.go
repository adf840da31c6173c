// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/worlds"
)

// Read reads the children, and their pods from theirs, which may be an earlier state.
func (w *World) Read(in *planner.Input, s, theirs *State) {
	for k := range s.Kids {
		read := w.read(s, theirs, k)
		in.Pods[worlds.SubsetName(k)] = read.Have.Pods
		if read.Child != nil {
			in.Children[worlds.SubsetName(k)] = read.Child
		}
	}
}

func (w *World) read(s, theirs *State, k int) worlds.Read {
	key := worlds.ReadKey[Kid]{Child: k, Is: s.Kids[k].seen(), Theirs: theirs.Kids[k].seen()}
	return w.reads.Of(key, s.Kids[k].Set.Exists,
		func() adapters.Dependents { return adapters.Dependents{Pods: w.podsOf(k, &theirs.Kids[k].Set)} },
		func(have adapters.Dependents) *world.Child { return w.Observe(w.object(&s.Kids[k], k), have) })
}

// Observed reads a child.
func (w *World) Observed(s *State, k int) *world.Child { return w.read(s, s, k).Child }

// Writes returns what a step writes; false if there is no difference.
func (w *World) Writes(s *State, sub *planner.SubsetPlan, step worlds.Hold) (worlds.Write, bool) {
	k := worlds.SubsetNumber(sub.Name)
	c := &s.Kids[k]
	if step.Action == subset.ActionRemind {
		v := step.Hash[len(step.Hash)-1] - '0'
		return worlds.Write{Child: k, Action: step.Action, Remind: v}, c.Set.Exists && statefulset.Version(v) != c.Set.Current
	}
	has := worlds.Write{Child: k, Template: uint8(c.Set.Template), Replicas: c.Set.Replicas, Partition: c.Set.Partition, Record: c.Record, Generation: c.Generation}
	return w.WriteOf(has, c.Set.Exists, step, func(step worlds.Hold) worlds.Write { return w.built(k, &step.Child) })
}

// built reads a write from the object that would be applied, which is built once for each content.
func (w *World) built(k int, c *adapters.Child) worlds.Write {
	scalars := *c
	scalars.Template, scalars.Patch, scalars.RevisionTemplate, scalars.RevisionPatch = nil, nil, nil, nil
	scalars.Selector, scalars.NodeSelector, scalars.Pace, scalars.Owner, scalars.Colocation = nil, nil, nil, metav1.OwnerReference{}, nil
	scalars.ParentGeneration = 0 // it is not in the record
	containers, _, err := unstructured.NestedFieldNoCopy(c.RevisionTemplate, "spec", "containers")
	if err != nil {
		panic(err)
	}
	key := fmt.Sprint(containers, scalars)
	if x, known := w.writes[key]; known {
		return x
	}
	u, err := adapters.Build(w.Adapter, c)
	if err != nil {
		panic(err)
	}
	x := worlds.Write{Template: uint8(w.TemplateOf(k, c, u)), Replicas: uint8(c.Replicas), Partition: uint8(min(c.Partition, worlds.All)), Record: w.RecordOf(u)}
	w.writes[key] = x
	return x
}

// DeletionsOf returns the replicas that a subset loses.
func (w *World) DeletionsOf(sub *planner.SubsetPlan) (all []worlds.Deletion) {
	for _, r := range sub.Deletes {
		all = append(all, worlds.Deletion{Child: worlds.SubsetNumber(sub.Name), Replica: int(r.Position)})
	}
	return all
}

// Carry writes one child.
func (w *World) Carry(_ *worlds.Pass, s *State, wr worlds.Write) {
	c := &s.Kids[wr.Child]
	switch {
	case wr.Remove:
		c.Set.Remove(false)
		*c = Kid{Set: c.Set}
	case wr.Remind != 0:
		c.Set.Current = statefulset.Version(wr.Remind)
	default:
		c.Set.Apply(statefulset.Version(wr.Template), wr.Replicas, wr.Partition)
		c.Record, c.Generation = wr.Record, wr.Generation
	}
}

// Delete deletes a pod. One that was replaced since has another UID.
func (w *World) Delete(s *State, d worlds.Deletion, read *State) {
	p, was := &s.Kids[d.Child].Set.Pods[d.Replica], &read.Kids[d.Child].Set.Pods[d.Replica]
	if p.Version == was.Version && p.Terminating == was.Terminating {
		s.Kids[d.Child].Set.Delete(d.Replica)
	}
}

// Published records nothing.
func (w *World) Published(*worlds.Pass, *State, *v1alpha1.UnitedDeploymentStatus, *State) {}
