// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// remedy is a command, what it does, and the parent after it; nil if there is none.
type remedy struct {
	command, does string
	after         *v1alpha1.UnitedDeployment
}

// plugin returns what a command of the plugin does.
func (q *inquiry) plugin(verb, does string, after *v1alpha1.UnitedDeployment) *remedy {
	return &remedy{fmt.Sprintf("kubectl united %s -n %s", verb, q.parent.Namespace), does, after}
}

func (q *inquiry) approval(key string) *remedy {
	after := q.parent.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[v1alpha1.AnnotationApproved] = key
	return q.plugin("approve "+q.parent.Name, "approves the step: "+Releases(q.parent), after)
}

// retry rolls out a rejected revision once more.
func (q *inquiry) retry(name string) *remedy {
	after := q.parent.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[v1alpha1.AnnotationRetry] = name + "/why"
	return q.plugin("retry "+q.parent.Name, "rolls it out once more", after)
}

func (q *inquiry) resumption() *remedy {
	after := q.parent.DeepCopy()
	after.Spec.Paused = false
	return q.plugin("resume "+q.parent.Name, "ends the pause", after)
}

// release releases all of a subset, or under RollingUpdate everything.
func (q *inquiry) release(name string) *remedy {
	after := q.parent.DeepCopy()
	if q.coordinates() {
		after.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt32(0))
		const patch = `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`
		return &remedy{fmt.Sprintf("kubectl patch united %s -n %s --type=merge -p '%s'", after.Name, after.Namespace, patch), "releases everything, step by step", after}
	}
	after.Spec.UpdateStrategy.ManualUpdate = change.Bound(q.parent, []change.Partition{{Subset: name, Value: intstr.FromInt32(0)}})
	r := q.plugin("release "+q.parent.Name+" "+name, "releases "+name, after)
	if after.Spec.Paused {
		after.Spec.Paused = false
		r.command, r.does = r.command+" && "+q.resumption().command, r.does+", and ends the pause"
	}
	return r
}

// undo goes back to the revision that all replicas ran before, from the one that failed.
func (q *inquiry) undo() *remedy {
	target, err := change.Back(q.parent, q.in.Revisions)
	if err != nil || target.Name == q.in.Update.Name && q.in.Rejected == nil {
		return nil
	}
	after, _, err := change.Undo(q.parent, target)
	if err != nil {
		return nil
	}
	return q.plugin("undo "+q.parent.Name, "goes back to "+known.Short(target.Name), after)
}

// outlook is what the planner would decide for a parent in the world as it is.
type outlook struct {
	*planner.Plan
	in     *planner.Input
	parent *v1alpha1.UnitedDeployment
}

// certain adds a command to a finding, if the planner says that it ends what was found.
func (q *inquiry) certain(f *Finding, r *remedy, ends func(after *outlook) bool) {
	if q.in == nil || r == nil {
		return
	}
	if after := q.outlook(r.after); after != nil && ends(after) {
		f.Command, f.Does = r.command, r.does
	}
}

// outlook returns the plan for a changed parent; nil if there is none. A coordinated rollout acts only on what is on record, so
// it looks some passes ahead.
func (q *inquiry) outlook(parent *v1alpha1.UnitedDeployment) *outlook {
	const passes = 3
	after := &outlook{}
	for range passes {
		read, err := spec.Read(parent, all.Registry())
		if err != nil {
			return nil
		}
		w := q.in.World
		w.Parent, w.Spec = parent, read
		in, err := planner.NewInput(&w)
		if err != nil {
			return nil
		}
		*after = outlook{planner.Make(in), in, parent}
		if after.Rollout == nil || after.Rollout.State == nil {
			break
		}
		parent = parent.DeepCopy()
		parent.Status.Rollout = after.Rollout.State
	}
	return after
}

// releases reports whether an outlook releases more of a subset than that for the parent as it is: it protects less of it, or the
// new template comes to what no partition protects.
func (q *inquiry) releases(after *outlook, name string) bool {
	if q.unchanged == nil {
		q.unchanged = q.outlook(q.parent)
	}
	if q.unchanged == nil {
		return false
	}
	before, now := subsetPlan(q.unchanged.Plan, name), subsetPlan(after.Plan, name)
	if before == nil || now == nil || now.Removed {
		return false
	}
	floor := now.Decision.Partition
	if q.coordinates() {
		floor = coordination.Floor(after.parent.Spec.UpdateStrategy.RollingUpdate, now.Desired).Partition
	}
	stages := now.Step.Child.Revision != before.Step.Child.Revision && floor < now.Desired
	return stages || min(now.Decision.Partition, now.Desired) < min(before.Decision.Partition, before.Desired) || now.Decision.Replicas < before.Decision.Replicas
}

func subsetPlan(p *planner.Plan, name string) *planner.SubsetPlan {
	for _, s := range p.Subsets {
		if s.Name == name {
			return s
		}
	}
	return nil
}
