// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Validate rejects, in a template at the path at, the fields that the controller determines (replicas, another
// selector, paused; in a coordinated rollout also maxUnavailable), and pod labels that spec.selector does not match.
// In the parent it rejects partitions that would divide a Deployment.
func (adapter) Validate(parent *v1alpha1.UnitedDeploymentSpec, template map[string]any, at *field.Path) field.ErrorList {
	check := validatePaused
	if parent.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		check = func(spec map[string]any, at *field.Path) field.ErrorList {
			return append(validatePaused(spec, at), validateStrategy(spec, at)...)
		}
	}
	errs := owned.ValidateTemplate(template, parent.Selector, at, check)
	return append(errs, validatePartitions(&parent.UpdateStrategy, field.NewPath("spec", "updateStrategy"))...)
}

// ValidatePatch rejects what Validate rejects in a template under both strategies, except pod labels: those of
// template and patch are merged first.
func (adapter) ValidatePatch(patch map[string]any, selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return owned.ValidatePatch(patch, selector, at, validatePaused)
}

func validatePaused(spec map[string]any, at *field.Path) field.ErrorList {
	if spec["paused"] != nil {
		return field.ErrorList{field.Forbidden(at.Child("paused"), "set spec.paused")}
	}
	return nil
}

// validateStrategy checks a template for a coordinated rollout, which has one maxUnavailable for all subsets.
func validateStrategy(spec map[string]any, at *field.Path) field.ErrorList {
	return owned.ValidateStrategy(spec, "strategy", "maxUnavailable",
		"set spec.updateStrategy.rollingUpdate.maxUnavailable, which applies to all subsets together", at)
}

// validatePartitions rejects partitions that would divide a Deployment.
func validatePartitions(strategy *v1alpha1.UpdateStrategy, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(value *intstr.IntOrString, at *field.Path) {
		if value != nil && !whole(*value) {
			errs = append(errs, field.NotSupported(at, value.String(), []string{"0", "0%", "100%"}))
		}
	}
	if m := strategy.ManualUpdate; m != nil {
		at := at.Child("manualUpdate")
		names := make([]string, 0, len(m.Partitions))
		for name := range m.Partitions {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			value := m.Partitions[name]
			check(&value, at.Child("partitions").Key(name))
		}
		check(m.DefaultPartition, at.Child("defaultPartition"))
	}
	if r := strategy.RollingUpdate; r != nil {
		at := at.Child("rollingUpdate")
		check(r.Partition, at.Child("partition"))
		if r.MaxSkew != "" {
			errs = append(errs, field.Forbidden(at.Child("maxSkew"), "a Deployment is released as a whole, so the subsets cannot be kept at the same share; use order Sequential, or steps"))
		}
		for i := range r.Steps {
			check(r.Steps[i].Partition, at.Child("steps").Index(i).Child("partition"))
		}
	}
	return errs
}

// whole reports whether the partition protects all replicas of a child, or none.
func whole(value intstr.IntOrString) bool {
	if value.Type == intstr.Int {
		return value.IntVal == 0
	}
	return slices.Contains([]string{"0%", "100%"}, value.StrVal)
}
