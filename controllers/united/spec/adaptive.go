// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
)

// The defaults of the CRD, in seconds.
const (
	defaultRescheduleAfter = int32(30)
	defaultRetryAfter      = int32(300)
)

// Adaptive reports whether replicas that fit on no node of their subset are created in other subsets.
func Adaptive(parent *v1alpha1.UnitedDeployment) bool {
	s := parent.Spec.Topology.ScheduleStrategy
	return s != nil && s.Type == v1alpha1.AdaptiveScheduleStrategy
}

// checkScheduling rejects an invalid schedule strategy. at is the path of the topology.
func checkScheduling(topology *v1alpha1.Topology, at *field.Path) error {
	s, at := topology.ScheduleStrategy, at.Child("scheduleStrategy")
	if s == nil {
		return nil
	}
	switch s.Type {
	case "", v1alpha1.FixedScheduleStrategy:
		if s.Adaptive != nil {
			return field.Forbidden(at.Child("adaptive"), "is only for type Adaptive")
		}
		return nil
	case v1alpha1.AdaptiveScheduleStrategy:
	default:
		return field.NotSupported(at.Child("type"), s.Type, []v1alpha1.ScheduleStrategyType{v1alpha1.FixedScheduleStrategy, v1alpha1.AdaptiveScheduleStrategy})
	}
	for i := range topology.Subsets {
		if sub := &topology.Subsets[i]; sub.Replicas != nil {
			return field.Forbidden(field.NewPath("spec", "topology", "subsets").Key(sub.Name).Child("replicas"),
				"cannot be used with scheduleStrategy Adaptive, which fills the subsets in list order: use minReplicas and maxReplicas")
		}
	}
	return nil
}

// SchedulingRules returns the rules of the schedule strategy.
func SchedulingRules(parent *v1alpha1.UnitedDeployment) allocation.Rules {
	a := ptr.Deref(parent.Spec.Topology.ScheduleStrategy.Adaptive, v1alpha1.AdaptiveScheduling{})
	seconds := func(value *int32, standard int32) time.Duration {
		return time.Duration(max(0, ptr.Deref(value, standard))) * time.Second
	}
	return allocation.Rules{
		Reschedule: seconds(a.RescheduleAfterSeconds, defaultRescheduleAfter),
		Retry:      seconds(a.RetryAfterSeconds, defaultRetryAfter),
		Reserve:    a.ReserveUnschedulablePods,
	}
}
