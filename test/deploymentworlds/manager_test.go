// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

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
		c, name := &s.Children[k], worlds.SubsetName(k)
		if !c.Exists && !c.Orphaned {
			continue
		}
		read := w.read(s, theirs, k)
		in.Pods[name], in.Related[name] = read.Have.Pods, read.Have.Related
		if c.Exists {
			in.Children[name] = read.Child
			continue
		}
		for _, pod := range w.read(s, s, k).Have.Pods {
			in.Outlived[name] = append(in.Outlived[name], *pod)
		}
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

// DeletionsOf returns nothing: United deletes no pods of a Deployment.
func (w *game) DeletionsOf(sub *planner.SubsetPlan) []worlds.Deletion {
	if len(sub.Deletes) > 0 {
		panic("pods of a Deployment are deleted: " + sub.Name)
	}
	return nil
}

func (w *game) Delete(*state, worlds.Deletion, *state) {}

// Writes returns what a step writes; false if there is no difference.
func (w *game) Writes(s *state, sub *planner.SubsetPlan, step worlds.Hold) (worlds.Write, bool) {
	switch step.Action {
	case subset.ActionSeed, subset.ActionRelearn, subset.ActionRemind, subset.ActionSeek, subset.ActionHalt:
		panic(fmt.Sprint("a Deployment needs no ", step.Action))
	case subset.ActionApply, subset.ActionCreate, subset.ActionWait, subset.ActionShrink, subset.ActionRemove:
	}
	k := worlds.SubsetNumber(sub.Name)
	c := &s.Children[k]
	has := worlds.Write{Child: k, Template: c.Template, Replicas: c.Replicas, Paused: c.Paused, MaxUnavailable: c.MaxUnavailable, MaxSurge: c.MaxSurge,
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
	x := worlds.Write{Replicas: uint8(number(spec["replicas"])), MaxUnavailable: ofTemplate, MaxSurge: unsaid, Record: w.RecordOf(u)}
	x.Paused, _, _ = unstructured.NestedBool(spec, "paused")
	if most, found, _ := unstructured.NestedFieldNoCopy(spec, "strategy", "rollingUpdate", "maxUnavailable"); found && step.Child.Pace != nil {
		x.MaxUnavailable = uint8(number(most))
	}
	if most, found, _ := unstructured.NestedFieldNoCopy(spec, "strategy", "rollingUpdate", "maxSurge"); found {
		x.MaxSurge = uint8(number(most))
	}
	template := spec["template"].(map[string]any)
	containers, _, _ := unstructured.NestedFieldNoCopy(template, "spec", "containers")
	x.Template = containers.([]any)[0].(map[string]any)["image"].(string)[1] - '0'
	if key := [2]uint8{uint8(k), x.Template}; w.templates[key] == nil {
		w.templates[key] = runtime.DeepCopyJSON(template)
	}
	return x
}

func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case string: // a percentage
		return ofTemplate
	}
	panic(fmt.Sprintf("%T", v))
}

// Carry writes one child.
func (w *game) Carry(x *worlds.Pass, s *state, wr worlds.Write) {
	c := &s.Children[wr.Child]
	if wr.Remove {
		*c = child{Incarnation: c.Incarnation, MaxUnavailable: ofTemplate, MaxSurge: w.templateSurge(), Protects: c.Protects}
		return
	}
	if !c.Exists {
		c.Exists, c.Orphaned, c.Progress, c.Observed = true, false, noProgress, false
		c.Incarnation = (c.Incarnation + 1) % 4
		c.StatusReplicas, c.StatusUpdated, c.StatusAvailable = 0, 0, 0
		if c.Protects == 0 && w.Initialized(&s.Core) {
			c.Protects = worlds.Bit(w.VersionOf[x.Plan.CurrentRevision])
		}
	}
	was := *c
	c.MaxSurge = wr.MaxSurge
	c.Template, c.Replicas, c.MaxUnavailable, c.Paused, c.Record, c.ParentGeneration = wr.Template, wr.Replicas, wr.MaxUnavailable, wr.Paused, wr.Record, wr.Generation
	if *c != was {
		c.Observed = false
	}
	if !w.held(&x.Core, wr.Child) && !wr.Paused {
		c.Released |= worlds.Bit(wr.Template)
	}
}

// Published: of the versions that a subset may protect, it protects the one in the status.
func (w *game) Published(_ *worlds.Pass, s *state, status *v1alpha1.UnitedDeploymentStatus, _ *state) {
	for _, sub := range status.Subsets {
		c := &s.Children[worlds.SubsetNumber(sub.Name)]
		if v := worlds.Bit(w.VersionOf[sub.CurrentRevision]); c.Protects&v != 0 {
			c.Protects = v
		}
	}
}
