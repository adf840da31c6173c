// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package advancedstatefulset makes Advanced StatefulSets of OpenKruise (StatefulSet of apps.kruise.io/v1beta1) the
// children of a UnitedDeployment.
//
// Unlike StatefulSets, they have reserved ordinals, maxUnavailable on every version of Kubernetes, and updates in
// place.
package advancedstatefulset

import (
	"math"

	kruisev1beta1 "github.com/openkruise/kruise-api/apps/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// maxNameLength is that of a StatefulSet, for the same reason: its pods have a label with the value "<name>-<hash of
// ten>", which may have 63 characters.
const maxNameLength = 52

// New returns the adapter for Advanced StatefulSets.
func New() adapters.Adopting { return adapter{} }

type adapter struct{}

// GroupVersionKind returns apps.kruise.io/v1beta1 StatefulSet.
func (adapter) GroupVersionKind() schema.GroupVersionKind {
	return kruisev1beta1.SchemeGroupVersion.WithKind("StatefulSet")
}

// TemplateField returns spec.template.advancedStatefulSetTemplate.
func (adapter) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "advancedStatefulSetTemplate", t.AdvancedStatefulSetTemplate
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

// Traits returns those of a StatefulSet with maxUnavailable.
func (adapter) Traits() adapters.Traits {
	return adapters.Traits{Partition: adapters.ByOrdinal, Protection: adapters.Remembered, Paced: true}
}

// RevisionPaths returns the path of the pod template: no other change restarts pods.
func (adapter) RevisionPaths() [][]string { return [][]string{{"spec", "template"}} }

// PodTemplates returns the path of the only pod template.
func (adapter) PodTemplates() [][]string { return [][]string{{"spec", "template"}} }

// PatchSchema returns that of the Go type. render.Merge handles fields that the type does not have.
func (adapter) PatchSchema() (strategicpatch.LookupPatchMeta, error) {
	return strategicpatch.NewPatchMetaFromStruct(kruisev1beta1.StatefulSet{})
}

// SetControllerFields sets replicas, selector and the partition of the rolling update; if the workload has none, the
// fields of the rolling update that decide how pods are replaced, and the first ordinal; and, if c has a pace and the
// pods need not be updated in order, maxUnavailable. Errors are *field.Error relative to the workload.
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
	// Trap: with OrderedReady, the webhook of the kind rejects all values but 1.
	if c.Pace != nil && spec["podManagementPolicy"] == any(string(appsv1.ParallelPodManagement)) {
		rolling["maxUnavailable"] = "100%"
		if c.Pace.MaxUnavailable != math.MaxInt32 {
			rolling["maxUnavailable"] = int64(c.Pace.MaxUnavailable)
		}
	}
	owned.SetDefaults(rolling, map[string]any{
		"minReadySeconds": int64(c.MinReadySeconds), "maxUnavailable": int64(1), "podUpdatePolicy": string(kruisev1beta1.RecreatePodUpdateStrategyType), "paused": false,
	})
	owned.SetDefaults(spec, map[string]any{"ordinals": map[string]any{"start": int64(0)}})
	return owned.SetCommon(spec, c)
}
