// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deployment makes apps/v1 Deployments the children of a UnitedDeployment.
//
// A Deployment has one template and no partition, so a child is protected whole or not at
// all: it is given the next template when it is released.
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

// maxNameLength is what a DNS label may be long. The API server would take more, but names
// of pods are cut off there, and then do not tell whose they are.
const maxNameLength = 63

// New is the adapter for Deployments.
func New() adapters.Adapter { return adapter{} }

type adapter struct{}

// GroupVersionKind is apps/v1 Deployment.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("Deployment")
}

// Related are the ReplicaSets, which own the pods.
func (adapter) Related() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ReplicaSet")}
}

// TemplateField is spec.template.deploymentTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "deploymentTemplate", t.DeploymentTemplate
}

// MaxNameLength is 63.
func (adapter) MaxNameLength() int { return maxNameLength }

// Traits are those of a kind that moves whole.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.AllOrNothing, Protection: adapters.Withheld}
}

// FieldPaths are where a Deployment has its replicas and its strategy.
func (adapter) FieldPaths() adapters.FieldPaths {
	return adapters.FieldPaths{Replicas: []string{"spec", "replicas"}, Strategy: []string{"spec", "strategy"}, Paused: []string{"spec", "paused"}}
}

// RevisionPaths is the pod template: nothing else of a Deployment restarts pods.
func (adapter) RevisionPaths() [][]string { return [][]string{{"spec", "template"}} }

// PodTemplates is the one pod template.
func (adapter) PodTemplates() [][]string { return [][]string{{"spec", "template"}} }

// PatchSchema is that of the Go type. Fields it does not know are for
// render.Merge to handle.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(appsv1.Deployment{})
}

// SetControllerFields sets replicas, selector and whether it is paused; minReadySeconds and the strategy where the workload
// has none; and, where c has a pace, the strategy in any case. Errors are *field.Error from the workload on.
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
			// One of the two must be above 0. What is surplus takes nobody down.
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
