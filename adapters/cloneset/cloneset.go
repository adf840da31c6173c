// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloneset makes CloneSets of OpenKruise (apps.kruise.io/v1alpha1) the children of
// a UnitedDeployment.
//
// A CloneSet has a partition, and no ordinals: it is the number of pods that stay on
// another revision than that of its template. Which ones that are it chooses itself.
package cloneset

import (
	"math"

	kruisev1alpha1 "github.com/openkruise/kruise-api/apps/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// maxNameLength is what a CloneSet's name may be long: its pods carry "<name>-<hash of
// ten>" as the value of a label, which may have 63 characters.
const maxNameLength = 52

// New is the adapter for CloneSets.
func New() adapters.Adapter { return adapter{} }

type adapter struct{}

// GroupVersionKind is apps.kruise.io/v1alpha1 CloneSet.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return kruisev1alpha1.SchemeGroupVersion.WithKind("CloneSet")
}

// TemplateField is spec.template.cloneSetTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "cloneSetTemplate", t.CloneSetTemplate
}

// MaxNameLength is 52.
func (adapter) MaxNameLength() int { return maxNameLength }

// Traits are those of a kind that counts, and has the revision before in its status until
// all of its pods are updated.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.ByCount, Protection: adapters.Remembered, Hasty: true, Paced: true}
}

// FieldPaths are where a CloneSet has its replicas, its partition and its strategy.
func (adapter) FieldPaths() adapters.FieldPaths {
	return adapters.FieldPaths{
		Replicas: []string{"spec", "replicas"}, Partition: []string{"spec", "updateStrategy", "partition"},
		Strategy: []string{"spec", "updateStrategy", "type"},
	}
}

// RevisionPaths is the pod template: nothing else of a CloneSet restarts pods.
func (adapter) RevisionPaths() [][]string { return [][]string{{"spec", "template"}} }

// PodTemplates is the one pod template.
func (adapter) PodTemplates() [][]string { return [][]string{{"spec", "template"}} }

// PatchSchema is that of the Go type. Fields it does not know are for render.Merge to
// handle.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(kruisev1alpha1.CloneSet{})
}

// SetControllerFields sets replicas, selector, the partition; minReadySeconds and the strategy where the workload has none;
// and, where c has a pace, how many pods may be unavailable. Errors are *field.Error from
// the workload on.
func (adapter) SetControllerFields(workload map[string]any, c *adapters.Child) error {
	spec, err := tree.Ensure(workload, "spec", nil)
	if err != nil {
		return err
	}
	strategy, err := tree.Ensure(spec, "updateStrategy", field.NewPath("spec"))
	if err != nil {
		return err
	}
	strategy["partition"] = int64(c.Partition)
	switch {
	case c.Pace == nil:
	case c.Pace.MaxUnavailable == math.MaxInt32:
		strategy["maxUnavailable"] = "100%"
	default:
		strategy["maxUnavailable"] = int64(c.Pace.MaxUnavailable)
	}
	owned.SetDefaults(strategy, map[string]any{
		"type": string(kruisev1alpha1.RecreateCloneSetUpdateStrategyType), "maxUnavailable": kruisev1alpha1.DefaultCloneSetMaxUnavailable, "maxSurge": int64(0), "paused": false,
	})
	owned.SetDefaults(spec, map[string]any{"minReadySeconds": int64(c.MinReadySeconds)})
	return owned.SetCommon(spec, c)
}
