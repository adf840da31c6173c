// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// child is one child, with its replicas and what its controller knows.
type child struct {
	subset   string
	object   *unstructured.Unstructured
	observed adapters.Observed
	pods     []adapters.Replica
	// hashes are the child's own revisions of the parent's revisions, by the names of these.
	hashes map[string]string
	// reach is how many replicas its controller made, or has begun to make.
	reach int32
	// scaledFor is the number of replicas for which its controller scaled it last, and scaledMost that with those that it may have
	// beyond them. Only Deployments have them.
	scaledFor, scaledMost int32
	// checked: it is among the writes, for a dry run.
	checked bool
	// view is what seen returned last; nil since the child has changed.
	view *world.Child
}

// childOf returns a child as it is.
func childOf(name string, was *world.Child) *child {
	o := was.Observed
	c := &child{subset: name, object: was.Object, observed: *o, pods: slices.Clone(o.Pods), hashes: map[string]string{}}
	for i := range c.pods {
		c.reach = max(c.reach, c.pods[i].Position+1)
	}
	c.scaledFor = o.Replicas + o.Unscaled
	c.scaledMost = c.scaledFor + c.surge()
	protects, protected := subset.RecordedProtectedRevision(o), subset.ProtectedHash(o)
	if protected == "" && o.SpecObserved && o.HasTwoRevisions() {
		protected = o.CurrentHash
	}
	if protects != "" && protected != "" {
		c.hashes[protects] = protected
	}
	if o.SpecObserved && o.UpdateHash != "" {
		c.hashes[subset.RevisionOf(o)] = o.UpdateHash
	}
	return c
}

// seen returns the child as the manager sees it. Most children do not change from one pass to the next.
func (c *child) seen() *world.Child {
	if c.view == nil {
		o := c.observed
		o.Pods = slices.Clone(c.pods)
		c.view = &world.Child{Object: c.object, Observed: &o}
	}
	return c.view
}

// carryOut does a write of a plan, and reports whether that changed anything.
func (f *future) carryOut(in *planner.Input, w *planner.Write) (result *planner.Result, changed bool) {
	c := f.children[w.Name]
	switch w.Step.Action {
	case subset.ActionHalt:
		return &planner.Result{Failure: w.Failure}, false
	case subset.ActionSeek, subset.ActionWait:
		return &planner.Result{WaitReason: w.Why}, false
	case subset.ActionRemove:
		delete(f.children, w.Name)
		return &planner.Result{Deleted: true}, true
	case subset.ActionRemind:
		changed = c.observed.CurrentHash != w.Step.Hash
		c.observed.CurrentHash, c.view = w.Step.Hash, nil
		return &planner.Result{Child: c.seen()}, changed
	case subset.ActionShrink:
		changed = c.observed.Replicas != w.Step.Child.Replicas
		c.observed.Replicas, c.view = w.Step.Child.Replicas, nil
		c.observed.SpecObserved = c.observed.SpecObserved && !changed
		return &planner.Result{WaitReason: w.Why, Child: c.seen()}, changed
	}
	return f.apply(in, w)
}

// apply writes a child, or, if it is as it should be, deletes the replicas of the plan.
func (f *future) apply(in *planner.Input, w *planner.Write) (result *planner.Result, changed bool) {
	c, to := f.children[w.Name], &w.Step.Child
	// As in package writer. What a plan does not change is not compared.
	same := c != nil && subset.Difference(to, &c.observed, in.Spec.Adapter.FieldPaths()) == nil
	if same && c.checked && f.opts.Refused[w.Name] == "" {
		return &planner.Result{WaitReason: w.Why}, c.delete(w.Deletes, f.world.Now)
	}
	built, err := adapters.Build(in.Spec.Adapter, to)
	if same && err == nil && f.opts.Refused[w.Name] == "" {
		// What does not make pods may differ all the same, and be refused.
		c.checked = true
		f.addWrite(w, built, false)
		return &planner.Result{WaitReason: w.Why}, c.delete(w.Deletes, f.world.Now)
	}
	switch {
	case err != nil:
		f.refuse(fmt.Sprintf("%s: %v", w.Workload, err))
	case f.opts.Refused[w.Name] != "":
		err = errors.New(f.opts.Refused[w.Name])
	default:
		err = f.write(in, w, built)
	}
	if err != nil {
		return &planner.Result{Failure: &subset.Failure{Reason: v1alpha1.ReasonApplyFailed, Message: err.Error(), Stalled: true}}, false
	}
	return &planner.Result{WaitReason: w.Why, Child: f.children[w.Name].seen()}, true
}

func (f *future) refuse(text string) {
	if !slices.Contains(f.refused, text) {
		f.refused = append(f.refused, text)
	}
}

// write replaces a child by a built one.
func (f *future) write(in *planner.Input, w *planner.Write, built *unstructured.Unstructured) error {
	c := f.children[w.Name]
	f.addWrite(w, built.DeepCopy(), c == nil)
	if c == nil {
		c = &child{subset: w.Name, hashes: map[string]string{}}
		built.SetUID(f.newUID())
		built.SetCreationTimestamp(metav1.NewTime(f.world.Now))
		f.children[w.Name] = c
		if !slices.Contains(f.known, w.Name) {
			f.known = append(f.known, w.Name)
		}
	} else {
		built.SetUID(c.object.GetUID())
		built.SetCreationTimestamp(c.object.GetCreationTimestamp())
	}
	o, err := in.Spec.Adapter.Observe(built, adapters.Dependents{})
	if err != nil {
		return err
	}
	o.CurrentHash, o.UpdateHash, o.ReplicaOwner = c.observed.CurrentHash, c.observed.UpdateHash, c.observed.ReplicaOwner
	o.SpecObserved, o.StatusOutdated, o.Unmade = false, false, false
	o.Partition = w.Step.Child.Partition
	c.object, c.observed, c.view = built, *o, nil
	f.learn(c, in, w)
	return nil
}

// addWrite keeps the first write of a child, and the first with the update revision.
func (f *future) addWrite(w *planner.Write, built *unstructured.Unstructured, creates bool) {
	i := slices.IndexFunc(f.writes, func(x Write) bool { return x.Subset == w.Name })
	switch {
	case i < 0:
		f.writes = append(f.writes, Write{w.Name, creates, built})
	case f.writes[i].Object.GetAnnotations()[v1alpha1.AnnotationRevision] != f.update.Name && w.Step.Child.Revision == f.update.Name:
		f.writes[i].Object = built
	}
}

// learn finds the child's own revision of the template that was written. Revisions of the parent that make the same pods are one.
func (f *future) learn(c *child, in *planner.Input, w *planner.Write) {
	name := w.Step.Child.Revision
	switch {
	case c.hashes[name] != "":
		return
	case f.opts.Unchanged[w.Name] && name == in.Update.Name && c.observed.UpdateHash != "":
		c.hashes[name] = c.observed.UpdateHash
		return
	}
	r, overlay := revision.ByName(in.Revisions, name), revision.Overlay{}
	if i := slices.IndexFunc(in.Spec.Subsets, func(s spec.Subset) bool { return s.Name == w.Name }); i >= 0 {
		overlay = in.Spec.Subsets[i].Overlay
	}
	for _, known := range slices.Sorted(maps.Keys(c.hashes)) {
		if other := revision.ByName(in.Revisions, known); r != nil && other != nil && revision.SamePods(r, other, w.Name, overlay) {
			c.hashes[name] = c.hashes[known]
			return
		}
	}
	c.hashes[name] = c.object.GetName() + "/" + name
}

// template is the child's own revision of its template.
func (c *child) template() string { return c.hashes[subset.RevisionOf(&c.observed)] }

// revisionOf returns the name of the parent's revision that a replica runs; "" if it is not known.
func (c *child) revisionOf(hash string) string {
	for _, name := range slices.Sorted(maps.Keys(c.hashes)) {
		if c.hashes[name] == hash {
			return name
		}
	}
	return ""
}

// delete begins to delete replicas, and reports whether there are any.
func (c *child) delete(deletes []planner.Deletion, now time.Time) (any bool) {
	for _, d := range deletes {
		for i := range c.pods {
			if c.pods[i].UID == d.UID && !c.pods[i].Terminating {
				c.terminate(i, now)
				any = true
			}
		}
	}
	return any
}

func (c *child) terminate(i int, now time.Time) {
	c.pods[i].Terminating, c.pods[i].Since, c.view = true, now, nil
}

// gone removes the replicas that are terminating, and reports whether there were any.
func (c *child) gone() bool {
	before := len(c.pods)
	c.pods = slices.DeleteFunc(c.pods, func(r adapters.Replica) bool { return r.Terminating })
	if len(c.pods) == before {
		return false
	}
	c.view = nil
	return true
}

// ready makes all replicas ready except those that are stuck, and reports whether there were any.
func (c *child) ready(now time.Time, stuck map[types.UID]bool) (any bool) {
	for i := range c.pods {
		r := &c.pods[i]
		if r.Ready || r.Terminating || stuck[r.UID] {
			continue
		}
		r.Ready, r.ReadySince, r.Since, r.NeverReady, r.Placed, any = true, now, now, false, true, true
		r.Failure, r.Crashed, r.Lacks, r.Unschedulable, r.Gated, r.Leaving = "", false, "", "", false, false
		c.view = nil
	}
	return any
}

// create adds a replica at a position.
func (c *child) create(f *future, position int32, hash string) {
	c.pods = append(c.pods, adapters.Replica{
		Name: c.podName(position), UID: f.newUID(), Position: position, Hash: hash, Created: f.world.Now, Since: f.world.Now, NeverReady: true,
	})
}

// podName returns the name of the replica at a position; "" if it has a random one.
func (c *child) podName(position int32) string {
	if c.observed.Traits.Partition != adapters.ByOrdinal {
		return ""
	}
	if reserved, _, _ := unstructured.NestedSlice(c.object.Object, "spec", "reserveOrdinals"); len(reserved) > 0 {
		return ""
	}
	start, _, _ := unstructured.NestedInt64(c.object.Object, "spec", "ordinals", "start")
	return fmt.Sprintf("%s-%d", c.object.GetName(), int64(position)+start)
}

// named returns replicas with their names, if all are known.
func named(names []string, count int) Replicas {
	if slices.ContainsFunc(names, func(n string) bool { return strings.TrimSpace(n) == "" }) {
		names = nil
	}
	return Replicas{Count: int32(count), Names: names}
}
