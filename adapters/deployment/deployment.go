// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deployment makes apps/v1 Deployments the children of a UnitedDeployment.
//
// A Deployment has one template and no partition, so a child is protected as a whole or not at all: it gets the next
// template when it is released.
package deployment

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// maxNameLength is that of a DNS label. The API server would accept more, but it truncates the names of pods there,
// and then they do not show to which Deployment they belong.
const maxNameLength = 63

// New returns the adapter for Deployments.
func New() adapters.Adapter { return adapter{} }

type adapter struct{}

// GroupVersionKind returns apps/v1 Deployment.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("Deployment")
}

// Related returns the kind ReplicaSet. ReplicaSets own the pods.
func (adapter) Related() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ReplicaSet")}
}

// TemplateField returns spec.template.deploymentTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "deploymentTemplate", t.DeploymentTemplate
}

// MaxNameLength returns 63.
func (adapter) MaxNameLength() int { return maxNameLength }

// Traits returns those of a kind that is protected as a whole.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.AllOrNothing, Protection: adapters.Withheld}
}

// FieldPaths returns the paths of replicas and strategy.
func (adapter) FieldPaths() adapters.FieldPaths {
	return adapters.FieldPaths{Replicas: []string{"spec", "replicas"}, Strategy: []string{"spec", "strategy"}, Paused: []string{"spec", "paused"}}
}

// RevisionPaths returns the path of the pod template: no other change restarts pods.
func (adapter) RevisionPaths() [][]string { return [][]string{{"spec", "template"}} }

// PodTemplates returns the path of the only pod template.
func (adapter) PodTemplates() [][]string { return [][]string{{"spec", "template"}} }

// PatchSchema returns that of the Go type. render.Merge handles fields that the type does not have.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(appsv1.Deployment{})
}

// SetControllerFields sets replicas, selector and paused; minReadySeconds and the strategy if the workload has none; and
// the strategy in any case if c has a pace. Errors are *field.Error relative to the workload.
func (adapter) SetControllerFields(workload map[string]any, c *adapters.Child) error {
	spec, err := tree.Ensure(workload, "spec", nil)
	if err != nil {
		return err
	}
	spec["paused"] = c.Paused
	if c.Pace != nil {
		rolling, err := owned.EnsureRolling(spec, "strategy")
		if err != nil {
			return err
		}
		rolling["maxUnavailable"] = int64(c.Pace.MaxUnavailable)
		if rolling["maxSurge"] == nil {
			rolling["maxSurge"] = int64(0)
		}
		if c.Pace.MaxUnavailable == 0 {
			// One of the two must be above 0. A surplus pod makes no other pod unavailable.
			rolling["maxSurge"] = int64(1)
		}
	}
	if err := setDefaults(spec, c); err != nil {
		return err
	}
	if c.Paused {
		if err := keepSurplus(spec, c.Surplus); err != nil {
			return err
		}
	}
	return owned.SetCommon(spec, c)
}

// keepSurplus makes a paused Deployment keep the replicas that it has.
//
// Trap: a Deployment that is paused does not update, but it does scale, to replicas and maxSurge, and distributes what
// it adds or deletes among its ReplicaSets. With more surge than it uses it would create replicas of the new
// version, and with less it would delete available ones of the old.
func keepSurplus(spec map[string]any, surplus int32) error {
	if kind, _, _ := unstructured.NestedString(spec, "strategy", "type"); kind == string(appsv1.RecreateDeploymentStrategyType) {
		return nil // it has no surplus replicas, and may not say how many
	}
	rolling, err := owned.EnsureRolling(spec, "strategy")
	if err != nil {
		return err
	}
	rolling["maxSurge"] = int64(surplus)
	if unavailable := fmt.Sprint(rolling["maxUnavailable"]); surplus == 0 && (unavailable == "0" || unavailable == "0%") {
		rolling["maxUnavailable"] = int64(1) // the API server refuses both 0; it does not matter while paused
	}
	return nil
}

func setDefaults(spec map[string]any, c *adapters.Child) error {
	owned.SetDefaults(spec, map[string]any{"minReadySeconds": int64(c.MinReadySeconds)})
	at := field.NewPath("spec")
	strategy, err := tree.Ensure(spec, "strategy", at)
	if err != nil {
		return err
	}
	owned.SetDefaults(strategy, map[string]any{"type": owned.RollingUpdate})
	if strategy["type"] != any(owned.RollingUpdate) {
		return nil
	}
	rolling, err := tree.Ensure(strategy, "rollingUpdate", at.Child("strategy"))
	if err != nil {
		return err
	}
	owned.SetDefaults(rolling, map[string]any{"maxUnavailable": "25%", "maxSurge": "25%"})
	return nil
}
