// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/worlds"
)

// Read reads the children for a pass.
func (w *game) Read(in *planner.Input, s, theirs *state) {
	for k := range s.Children {
		name := worlds.SubsetName(k)
		read := w.read(s, theirs, k)
		in.Pods[name], in.Related[name] = read.Have.Pods, read.Have.Related
		if s.Children[k].Exists {
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
		func() adapters.Dependents { return w.theirs(theirs, k) },
		func(have adapters.Dependents) *world.Child { return w.Observe(w.object(s, k), have) })
}

func (w *game) Observed(s *state, k int) *world.Child { return w.read(s, s, k).Child }

// DeletionsOf parses the deletions of a subset from the names of the leaders.
func (w *game) DeletionsOf(sub *planner.SubsetPlan) (all []worlds.Deletion) {
	for _, d := range sub.Deletes {
		all = append(all, worlds.Deletion{Child: worlds.SubsetNumber(sub.Name), Replica: int(d.Name[len(d.Name)-1] - '0')})
	}
	return all
}

// Writes returns what a step writes; false if there is no difference.
func (w *game) Writes(s *state, sub *planner.SubsetPlan, step worlds.Hold) (worlds.Write, bool) {
	k := worlds.SubsetNumber(sub.Name)
	c := &s.Children[k]
	if step.Action == subset.ActionRemind {
		v := step.Hash[len(step.Hash)-1] - '0'
		if c.Leaders.Revisions[v] != statefulset.Mine { // its ControllerRevision is gone
			return w.Writes(s, sub, *step.Instead)
		}
		return worlds.Write{Child: k, Action: step.Action, Remind: v}, uint8(c.Leaders.Current) != v
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
	lws := &lwsv1.LeaderWorkerSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, lws); err != nil {
		panic(err)
	}
	x := worlds.Write{Replicas: uint8(*lws.Spec.Replicas), MaxUnavailable: ofTemplate, Record: w.RecordOf(u)}
	rolling := lws.Spec.RolloutStrategy.RollingUpdateConfiguration
	x.Partition = uint8(min(*rolling.Partition, worlds.All))
	if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "rolloutStrategy", "rollingUpdateConfiguration", "maxUnavailable"); found && step.Child.Pace != nil {
		x.MaxUnavailable = paceOf(rolling)
	}
	group := &lws.Spec.LeaderWorkerTemplate
	x.Template = group.WorkerTemplate.Spec.Containers[0].Image[1] - '0'
	if key := [2]uint8{uint8(k), x.Template}; w.templates[key] == nil {
		if group.RestartPolicy == "" { // its webhook
			group.RestartPolicy = lwsv1.RecreateGroupOnPodRestart
		}
		w.templates[key] = group
	}
	return x
}

func paceOf(rolling *lwsv1.RollingUpdateConfiguration) uint8 {
	if rolling.MaxUnavailable.String() == "100%" {
		return unbounded
	}
	n := rolling.MaxUnavailable.IntValue()
	if n < 0 || n > math.MaxUint8 {
		panic(fmt.Sprint(rolling.MaxUnavailable))
	}
	return uint8(n)
}

// Carry writes one child.
func (w *game) Carry(x *worlds.Pass, s *state, wr worlds.Write) {
	c := &s.Children[wr.Child]
	switch {
	case wr.Remove:
		*c = child{Incarnation: c.Incarnation, LeadersAre: c.LeadersAre, Protects: c.Protects}
		return
	case wr.Remind != 0:
		c.Leaders.Current = statefulset.Version(wr.Remind)
		return
	case !c.Exists:
		c.Exists, c.Observed, c.Incarnation = true, false, (c.Incarnation+1)%4
		if c.Protects == 0 && w.Initialized(&s.Core) {
			c.Protects = worlds.Bit(w.VersionOf[x.Plan.CurrentRevision])
		}
	}
	was := c.generation()
	c.Template, c.Replicas, c.Partition, c.MaxUnavailable = wr.Template, wr.Replicas, wr.Partition, wr.MaxUnavailable
	c.Record, c.ParentGeneration = wr.Record, wr.Generation
	if !w.Rolling(&x.Core) { // the user had released this much when the pass read the spec
		c.Opened = max(c.Opened, uint8(worlds.All-min(worlds.All, w.Partition(&x.Core, wr.Child))))
	}
	if c.generation() != was {
		c.Observed = false
	}
}

// Delete deletes the leader of a group if it is still the one that was read, as its UID shows.
func (w *game) Delete(s *state, d worlds.Deletion, read *state) {
	c := &s.Children[d.Child]
	if c.version(d.Replica) == read.Children[d.Child].version(d.Replica) {
		c.Leaders.Delete(d.Replica)
	}
}

// Published: of the versions that a subset may protect, it protects the one in the status.
func (w *game) Published(_ *worlds.Pass, s *state, status *v1alpha1.UnitedDeploymentStatus, _ *state) {
	for _, sub := range status.Subsets {
		c := &s.Children[worlds.SubsetNumber(sub.Name)]
		v := worlds.Bit(w.VersionOf[sub.CurrentRevision])
		if c.Protects&v != 0 {
			c.Protects = v
		}
		c.Told = c.Opened
	}
}
