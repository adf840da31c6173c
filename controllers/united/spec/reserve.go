// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// checkReserve rejects reserveUnschedulablePods if replicas without a node would prevent others from being created
// or updated.
func (s *Spec) checkReserve(parent *v1alpha1.UnitedDeployment) error {
	at := field.NewPath("spec", "topology", "scheduleStrategy", "adaptive", "reserveUnschedulablePods")
	strategy := parent.Spec.Topology.ScheduleStrategy
	switch {
	case strategy == nil || strategy.Adaptive == nil || !strategy.Adaptive.ReserveUnschedulablePods:
		return nil
	case !s.Adapter.Traits().Reserves:
		return field.Forbidden(at, "is only for statefulSetTemplate, with podManagementPolicy Parallel")
	}
	policy := func(workload map[string]any) any {
		spec, _ := workload["spec"].(map[string]any)
		return spec["podManagementPolicy"]
	}
	parallel := policy(s.Template) == "Parallel"
	for i := range s.Subsets {
		if own := policy(s.Subsets[i].DecodedPatch); own != nil && own != "Parallel" {
			parallel = false
		}
	}
	if !parallel {
		return field.Forbidden(at, "requires podManagementPolicy Parallel: with OrderedReady, one replica without a node prevents all others")
	}
	return nil
}
