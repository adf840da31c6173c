// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statefulset makes apps/v1 StatefulSets the children of a UnitedDeployment.
package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// maxNameLength bounds the name of a StatefulSet: its pods have a label with the value "<name>-<hash of ten>", which
// may have 63 characters.
const maxNameLength = 52

// New returns the adapter for StatefulSets.
func New() adapters.Adopting { return adapter{} }

type adapter struct{}

// GroupVersionKind returns apps/v1 StatefulSet.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("StatefulSet")
}

// TemplateField returns spec.template.statefulSetTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "statefulSetTemplate", t.StatefulSetTemplate
}

// MaxNameLength returns 52.
func (adapter) MaxNameLength() int { return maxNameLength }

// FieldPaths returns the paths of replicas, partition and strategy.
func (adapter) FieldPaths() adapters.FieldPaths {
	return adapters.FieldPaths{
		Replicas: []string{"spec", "replicas"}, Partition: []string{"spec", "updateStrategy", "rollingUpdate", "partition"},
		Strategy: []string{"spec", "updateStrategy", "type"},
	}
}

// Traits returns those of a kind with a partition by ordinal, and with the previous revision in its status.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.ByOrdinal, Protection: adapters.Remembered, Reserves: true}
}

// RevisionPaths returns the path of the pod template: no other change restarts pods.
func (adapter) RevisionPaths() [][]string { return [][]string{{"spec", "template"}} }

// PodTemplates returns the path of the only pod template.
func (adapter) PodTemplates() [][]string { return [][]string{{"spec", "template"}} }

// PatchSchema returns that of the Go type. render.Merge handles fields that the type does not have.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(appsv1.StatefulSet{})
}

// Bounds returns minReadySeconds and maxUnavailable. What cannot be read, the API server refuses.
func (adapter) Bounds(workloads ...map[string]any) (b adapters.Bounds) {
	for _, workload := range workloads {
		set := &appsv1.StatefulSet{}
		spec, err := tree.Object(workload, "spec", nil)
		if err != nil {
			continue
		}
		bounding := map[string]any{"minReadySeconds": spec["minReadySeconds"], "updateStrategy": spec["updateStrategy"]}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": bounding}, set) != nil {
			continue
		}
		if b.MinReadySeconds == nil && spec["minReadySeconds"] != nil {
			b.MinReadySeconds = &set.Spec.MinReadySeconds
		}
		if rolling := set.Spec.UpdateStrategy.RollingUpdate; b.MaxUnavailable == nil && rolling != nil {
			b.MaxUnavailable = rolling.MaxUnavailable
		}
	}
	return b
}

// SetControllerFields sets replicas, selector and the partition of the rolling update; and, if the workload has none,
// minReadySeconds, maxUnavailable of the rolling update and the first ordinal. Errors are *field.Error relative to the
// workload.
func (adapter) SetControllerFields(workload map[string]any, c *adapters.Child) error {
	spec, err := tree.Ensure(workload, "spec", nil)
	if err != nil {
		return err
	}
	rolling, err := owned.EnsureRolling(spec, "updateStrategy")
	if err != nil {
		return err
	}
	rolling["partition"] = int64(c.Partition)
	owned.SetDefaults(rolling, map[string]any{"maxUnavailable": int64(1)})
	owned.SetDefaults(spec, map[string]any{"minReadySeconds": int64(c.MinReadySeconds), "ordinals": map[string]any{"start": int64(0)}})
	return owned.SetCommon(spec, c)
}
