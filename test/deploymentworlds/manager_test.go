// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// write is one write of a pass.
type write struct {
	child          int
	action         subset.Action
	remove, shrink bool
	template       uint8
	replicas       uint8
	maxUnavailable uint8
	paused         bool
	record         uint32
	generation     uint8
}

func (x write) String() string {
	if x.remove {
		return subsetName(x.child) + ":remove"
	}
	return fmt.Sprintf("%s:%s v%d r%d mu%d paused=%v", subsetName(x.child), x.action, x.template, x.replicas, x.maxUnavailable, x.paused)
}

// pass is what the manager has decided, on what it has read.
type pass struct {
	in     *planner.Input
	plan   *planner.Plan
	writes []write
	// held are the subsets that the spec held when it was read.
	held []bool
}

func (w *world) hash(s *state) uint64 { return maphash.Comparable(w.seed, *s) }

// decide is a pass as far as it reads and decides. It is remembered by all that a pass can see.
func (w *world) decide(s *state) *pass {
	seen := *s
	seen.Budget, seen.Race, seen.PassGeneration = budget{}, false, 0
	for k := range seen.Children {
		seen.Children[k].Protects, seen.Children[k].Released = 0, 0
	}
	h := w.hash(&seen)
	if x := w.passes[h]; x != nil {
		return x
	}
	in := w.input(s)
	x := &pass{in: in, plan: planner.Make(in)}
	for k := range s.Children {
		x.held = append(x.held, w.held(s, k))
	}
	if w.mutant != nil {
		w.mutant(x.plan)
	}
	results := x.results()
	for _, sub := range x.plan.Order(in) {
		step, _ := x.plan.Hold(in, sub, results)
		if wr, any := w.writeOf(s, sub.Name, step); any && !sub.Deferred {
			x.writes = append(x.writes, wr)
		}
		if len(sub.Deletes) > 0 {
			panic("pods of a Deployment are deleted: " + sub.Name)
		}
	}
	if len(w.passes) > 20_000 {
		clear(w.passes)
	}
	w.passes[h] = x
	return x
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
		differs := !c.Exists || x.template != c.Template || x.replicas != c.Replicas || x.maxUnavailable != c.MaxUnavailable ||
			x.paused != c.Paused || w.compared[x.record] != w.compared[c.Record]
		return x, differs
	case subset.ActionShrink:
		x := write{child: k, action: step.Action, shrink: true, replicas: uint8(step.Child.Replicas)}
		x.template, x.maxUnavailable, x.paused, x.record, x.generation = c.Template, c.MaxUnavailable, c.Paused, c.Record, c.ParentGeneration
		return x, c.Exists && x.replicas != c.Replicas
	case subset.ActionRemove:
		return write{child: k, action: step.Action, remove: true}, c.Exists
	case subset.ActionRemind, subset.ActionSeek, subset.ActionWait, subset.ActionHalt:
	}
	return write{}, false
}

// built reads a write from the object that would be applied.
func (w *world) built(k int, step subset.Step) write {
	u, err := adapters.Build(w.adapter, &step.Child)
	if err != nil {
		panic(err)
	}
	x := write{child: k, action: step.Action, maxUnavailable: ofTemplate, generation: uint8(step.Child.ParentGeneration)}
	spec := u.Object["spec"].(map[string]any)
	x.replicas = uint8(number(spec["replicas"]))
	x.paused, _, _ = unstructured.NestedBool(spec, "paused")
	if most, found, _ := unstructured.NestedFieldNoCopy(spec, "strategy", "rollingUpdate", "maxUnavailable"); found && step.Child.Pace != nil {
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

// recordID gives annotations a number.
func (w *world) recordID(record map[string]string) uint32 {
	text := func(compared bool) string {
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(record)) {
			if compared && key == v1alpha1.AnnotationProtectedRevision {
				continue // what a subset protects is written along with other things
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

// disturbed is what has happened since a pass has read the world: which children have changed,
// whether the status has, and after how many writes the pass dies.
type disturbed struct {
	children [maxChildren]bool
	status   bool
	dies     int
}

// execute carries a pass out. It gives the status when the pass has come to its end.
func (w *world) execute(x *pass, s *state, d disturbed) *v1alpha1.UnitedDeploymentStatus {
	results, stale := x.results(), false
	for n, wr := range x.writes {
		if d.dies > 0 && n == d.dies {
			return nil
		}
		c, r := &s.Children[wr.child], results[subsetName(wr.child)]
		if d.children[wr.child] || !c.Exists && (wr.shrink || wr.action == subset.ActionApply) {
			r.Stale, stale = true, true
			continue
		}
		if wr.remove {
			*c = child{Incarnation: c.Incarnation, MaxUnavailable: ofTemplate, Protects: c.Protects}
			r.Deleted = true
			continue
		}
		w.carry(x, s, wr)
		r.Child = w.observe(s, wr.child, w.dependents(s, wr.child))
	}
	if d.dies > 0 || d.status {
		return nil
	}
	status, _ := planner.Status(x.in, x.plan, results)
	w.publish(s, status)
	if !stale {
		s.PassGeneration = uint8(x.in.Parent.Generation)
	}
	return status
}

// carry writes one child.
func (w *world) carry(x *pass, s *state, wr write) {
	c := &s.Children[wr.child]
	if !c.Exists {
		c.Exists, c.Orphaned, c.Progress, c.Observed = true, false, noProgress, false
		c.Incarnation = (c.Incarnation + 1) % 4
		c.StatusReplicas, c.StatusUpdated, c.StatusAvailable = 0, 0, 0
		if c.Protects == 0 && w.initialized(s) {
			c.Protects = bit(w.versionOf[x.plan.CurrentRevision])
		}
	}
	was := *c
	c.Template, c.Replicas, c.MaxUnavailable, c.Paused, c.Record, c.ParentGeneration = wr.template, wr.replicas, wr.maxUnavailable, wr.paused, wr.record, wr.generation
	if *c != was {
		c.Observed = false
	}
	if !x.held[wr.child] && !wr.paused {
		c.Released |= bit(wr.template)
	}
}

func (w *world) initialized(s *state) bool {
	return meta.IsStatusConditionTrue(w.status(s).Conditions, v1alpha1.ConditionInitialized)
}

// publish writes the status, less what no pass decides by.
func (w *world) publish(s *state, status *v1alpha1.UnitedDeploymentStatus) {
	for _, sub := range status.Subsets {
		c := &s.Children[sub.Name[0]-'a']
		if v := bit(w.versionOf[sub.CurrentRevision]); c.Protects&v != 0 {
			c.Protects = v // of those that it may protect, this it does
		}
	}
	kept := status.DeepCopy()
	kept.ReplicaCounts, kept.Summary = v1alpha1.ReplicaCounts{}, ""
	kept.LastProgressTime, kept.Selector, kept.Conditions = nil, "", nil
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionInitialized) {
		kept.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue}}
	}
	for i := range kept.Subsets {
		sub := &kept.Subsets[i]
		sub.ReplicaCounts, sub.Phase, sub.Message = v1alpha1.ReplicaCounts{}, "", ""
	}
	if kept.Rollout != nil {
		kept.Rollout.Message, kept.Rollout.LastProgressTime = "", nil
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		panic(err)
	}
	s.Status = w.statuses.id(string(raw), func() *v1alpha1.UnitedDeploymentStatus {
		back := &v1alpha1.UnitedDeploymentStatus{}
		if err := json.Unmarshal(raw, back); err != nil {
			panic(err)
		}
		return back
	})
}

// passWhole is a whole pass on what is there now.
func (w *world) passWhole(s *state) (state, *pass, *v1alpha1.UnitedDeploymentStatus) {
	x, after := w.decide(s), *s
	status := w.execute(x, &after, disturbed{})
	if len(x.writes) == 0 && after.Race {
		after.Race = !after.settled()
	}
	w.tidy(&after)
	return after, x, status
}

// settled reports whether all controllers have done what they were told.
func (s *state) settled() bool {
	for k := range s.Children {
		c := &s.Children[k]
		if c.Exists && !c.Observed {
			return false
		}
		for v := uint8(1); c.Exists && v <= maxVersion; v++ {
			if c.count(of(v)) != int(c.ReplicaSets[v].Replicas) {
				return false
			}
		}
	}
	return true
}
