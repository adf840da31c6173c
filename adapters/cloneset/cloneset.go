// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloneset makes CloneSets of OpenKruise (apps.kruise.io/v1alpha1) the children of a UnitedDeployment.
//
// A CloneSet has a partition, but no ordinals: the partition is the number of pods that keep another revision than
// that of the template. The CloneSet chooses which pods those are.
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

// maxNameLength bounds the name of a CloneSet: its pods have a label with the value "<name>-<hash of ten>", which may
// have 63 characters.
const maxNameLength = 52

// New returns the adapter for CloneSets.
func New() adapters.Adapter { return adapter{} }

type adapter struct{}

// GroupVersionKind returns apps.kruise.io/v1alpha1 CloneSet.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return kruisev1alpha1.SchemeGroupVersion.WithKind("CloneSet")
}

// TemplateField returns spec.template.cloneSetTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "cloneSetTemplate", t.CloneSetTemplate
}

// MaxNameLength returns 52.
func (adapter) MaxNameLength() int { return maxNameLength }

// Traits returns those of a kind that counts replicas, and whose status has the previous revision until all pods are
// updated.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.ByCount, Protection: adapters.Remembered, Hasty: true, Paced: true}
}

// FieldPaths returns the paths of replicas, partition and strategy.
func (adapter) FieldPaths() adapters.FieldPaths {
	return adapters.FieldPaths{
		Replicas: []string{"spec", "replicas"}, Partition: []string{"spec", "updateStrategy", "partition"},
		Strategy: []string{"spec", "updateStrategy", "type"},
	}
}

// RevisionPaths returns the path of the pod template: no other change restarts pods.
func (adapter) RevisionPaths() [][]string { return [][]string{{"spec", "template"}} }

// PodTemplates returns the path of the only pod template.
func (adapter) PodTemplates() [][]string { return [][]string{{"spec", "template"}} }

// PatchSchema returns that of the Go type. render.Merge handles fields that the type does not have.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(kruisev1alpha1.CloneSet{})
}

// SetControllerFields sets replicas, selector and the partition; minReadySeconds and the strategy if the workload has
// none; and, if c has a pace, maxUnavailable. Errors are *field.Error relative to the workload.
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
