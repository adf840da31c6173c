// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// disturbed is what has happened since a pass has read the world: which children have changed,
// whether the status has, and after how many writes the pass dies. read is what it had read.
type disturbed struct {
	children [maxChildren]bool
	status   bool
	dies     int
	read     *state
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
			*c = child{Incarnation: c.Incarnation, Protects: c.Protects}
			r.Deleted = true
			continue
		}
		if wr.remind != 0 {
			c.Current = wr.remind
			continue
		}
		w.carry(x, s, wr)
		r.Child = w.observe(s, wr.child, w.dependents(s, wr.child))
	}
	for n, del := range x.deletes {
		if d.dies > 0 && n+len(x.writes) == d.dies {
			return nil
		}
		w.deletePod(s, del, d.read)
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

// deletePod deletes a pod if it is still the one that was read: its UID says so.
func (w *world) deletePod(s *state, del deletion, read *state) {
	p := &s.Children[del.child].Pods[del.pod]
	if read != nil && p.Version != read.Children[del.child].Pods[del.pod].Version {
		return
	}
	if p.live() {
		w.end(p)
	}
}

// carry writes one child.
func (w *world) carry(x *pass, s *state, wr write) {
	c := &s.Children[wr.child]
	if !c.Exists {
		*c = child{Exists: true, Incarnation: (c.Incarnation + 1) % 4, Protects: c.Protects, Released: c.Released, Pods: c.Pods}
		if c.Protects == 0 && w.initialized(s) {
			c.Protects = bit(w.versionOf[x.plan.CurrentRevision])
		}
	}
	was := c.generation()
	c.Template, c.Replicas, c.Partition, c.MaxUnavailable = wr.template, wr.replicas, wr.partition, wr.maxUnavailable
	c.Record, c.ParentGeneration = wr.record, wr.generation
	if c.generation() != was {
		c.Observed = false
	}
}

func (w *world) initialized(s *state) bool {
	return meta.IsStatusConditionTrue(w.status(s).Conditions, v1alpha1.ConditionInitialized)
}

// publish writes the status, less what no pass decides by.
func (w *world) publish(s *state, status *v1alpha1.UnitedDeploymentStatus) {
	for _, sub := range status.Subsets {
		c := &s.Children[sub.Name[0]-'a']
		v := bit(w.versionOf[sub.CurrentRevision])
		if c.Protects&v == 0 {
			continue
		}
		if c.Protects != v && c.count() > 0 && c.count(in(v)) == c.count() {
			c.Released = 0
		}
		c.Protects = v // of those that it may protect, this it does
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
	x, after := w.decide(s, s), *s
	status := w.execute(x, &after, disturbed{})
	if len(x.writes)+len(x.deletes) == 0 && after.Race {
		after.Race = !w.settled(&after)
	}
	w.tidy(&after)
	return after, x, status
}

// settled reports whether all controllers have done what they were told.
func (w *world) settled(s *state) bool {
	for k := range s.Children {
		after := *s
		if w.sync(&after, k); after != *s {
			return false
		}
	}
	return true
}
