// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statefulset makes apps/v1 StatefulSets the children of a
// UnitedDeployment.
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

// maxNameLength is what a StatefulSet's name may be long: its pods carry
// "<name>-<hash of ten>" as the value of a label, which may have 63 characters.
const maxNameLength = 52

// New is the adapter for StatefulSets.
func New() adapters.Adopting { return adapter{} }

type adapter struct{}

// GroupVersionKind is apps/v1 StatefulSet.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("StatefulSet")
}

// TemplateField is spec.template.statefulSetTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "statefulSetTemplate", t.StatefulSetTemplate
}

// MaxNameLength is 52.
func (adapter) MaxNameLength() int { return maxNameLength }

// FieldPaths are where a StatefulSet has its replicas, its partition and its strategy.
func (adapter) FieldPaths() adapters.FieldPaths {
	return adapters.FieldPaths{
		Replicas: []string{"spec", "replicas"}, Partition: []string{"spec", "updateStrategy", "rollingUpdate", "partition"},
		Strategy: []string{"spec", "updateStrategy", "type"},
	}
}

// Traits are those of a kind that has a partition, and the revision before in its status.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.ByOrdinal, Protection: adapters.Remembered}
}

// RevisionPaths is the pod template: nothing else of a StatefulSet restarts pods.
func (adapter) RevisionPaths() [][]string { return [][]string{{"spec", "template"}} }

// PodTemplates is the one pod template.
func (adapter) PodTemplates() [][]string { return [][]string{{"spec", "template"}} }

// PatchSchema is that of the Go type. Fields it does not know are for
// render.Merge to handle.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(appsv1.StatefulSet{})
}

// SetControllerFields sets replicas, selector and the rolling update's partition; and, where the workload has none,
// minReadySeconds, the rolling update's maxUnavailable and the first ordinal. Errors are *field.Error from the workload on.
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
