// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// change is a change of a UnitedDeployment by a kubectl command.
type change struct {
	// patch is what it does: a JSON merge patch, or a JSON patch.
	patch any
	json  bool
	// annotation is set if it sets an annotation, for which kubectl has a command of its own.
	annotation string
}

type object = map[string]any

// annotate sets an annotation.
func annotate(key, value string) change {
	return change{patch: object{"metadata": object{"annotations": object{key: value}}}, annotation: key + "=" + value}
}

// resume ends a pause.
func resume() change {
	return change{patch: object{"spec": object{"paused": false}}}
}

// release releases all of a subset, or under RollingUpdate everything. It ends a pause, too, which would hold it.
func release(parent *v1alpha1.UnitedDeployment, name string) change {
	strategy := object{"manualUpdate": object{"partitions": object{name: 0}}}
	if parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		strategy = object{"rollingUpdate": object{"partition": 0}}
	}
	what := object{"updateStrategy": strategy}
	if parent.Spec.Paused {
		what["paused"] = false
	}
	return change{patch: object{"spec": what}}
}

// rebind binds the partitions to another revision, and releases a subset. It replaces them all, so that zones left open by
// the last rollout do not come along.
func rebind(parent *v1alpha1.UnitedDeployment, name, update string) change {
	operations := []object{{"op": "add", "path": "/spec/updateStrategy/manualUpdate", "value": object{"revision": update, "partitions": object{name: 0}}}}
	if parent.Spec.Paused {
		operations = append(operations, object{"op": "add", "path": "/spec/paused", "value": false})
	}
	return change{patch: operations, json: true}
}

// command returns the kubectl command that makes the change.
func (c change) command(parent *v1alpha1.UnitedDeployment) (string, error) {
	if c.annotation != "" {
		return fmt.Sprintf("kubectl annotate --overwrite united %s -n %s %s", parent.Name, parent.Namespace, c.annotation), nil
	}
	patch, err := json.Marshal(c.patch)
	kind := "merge"
	if c.json {
		kind = "json"
	}
	return fmt.Sprintf("kubectl patch united %s -n %s --type=%s -p '%s'", parent.Name, parent.Namespace, kind, patch), err
}

// applied returns a parent after the change.
func (c change) applied(parent *v1alpha1.UnitedDeployment) (*v1alpha1.UnitedDeployment, error) {
	before, err := json.Marshal(parent)
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(c.patch)
	if err != nil {
		return nil, err
	}
	if c.json {
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, err
		}
		before, err = operations.Apply(before)
		if err != nil {
			return nil, err
		}
	} else if before, err = jsonpatch.MergePatch(before, patch); err != nil {
		return nil, err
	}
	after := &v1alpha1.UnitedDeployment{}
	return after, json.Unmarshal(before, after)
}

// outlook is what the planner would decide for a parent in the world as it is.
type outlook struct {
	*planner.Plan
	parent *v1alpha1.UnitedDeployment
}

// certain returns the command of a change, if the planner says that it ends what it should end; otherwise "".
func (q *inquiry) certain(c change, ends func(after *outlook) bool) string {
	if q.in == nil {
		return ""
	}
	parent, err := c.applied(q.parent)
	if err != nil {
		return ""
	}
	after := q.outlook(parent)
	if after == nil || !ends(after) {
		return ""
	}
	command, err := c.command(q.parent)
	if err != nil {
		return ""
	}
	return command
}

// outlook returns the plan for a changed parent; nil if there is none. A coordinated rollout acts only on what is on record, so
// it looks some passes ahead.
func (q *inquiry) outlook(parent *v1alpha1.UnitedDeployment) *outlook {
	const passes = 3
	var plan *planner.Plan
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
		plan = planner.Make(in)
		if plan.Rollout == nil || plan.Rollout.State == nil {
			break
		}
		parent = parent.DeepCopy()
		parent.Status.Rollout = plan.Rollout.State
	}
	return &outlook{plan, parent}
}

// releases reports whether an outlook releases more of a subset than that for the parent as it is: it protects less of it. In a
// coordinated rollout it is enough that the new template comes, which is the first step to that.
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
	stages := q.coordinates() && now.Step.Child.Revision != before.Step.Child.Revision &&
		coordination.Floor(after.parent.Spec.UpdateStrategy.RollingUpdate, now.Desired).Partition < now.Desired
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
