// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package advancedstatefulset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Validate rejects, in a template at the path at, the fields that the controller determines (replicas, the partition,
// another selector, paused), a strategy without a partition or with an order other than that of the ordinals, and pod
// labels that spec.selector does not match; in a coordinated rollout also maxUnavailable.
func (adapter) Validate(parent *v1alpha1.UnitedDeploymentSpec, template map[string]any, at *field.Path) field.ErrorList {
	check := validateOwn
	if parent.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		check = func(spec map[string]any, at *field.Path) field.ErrorList {
			return append(validateOwn(spec, at), refuse(spec, at, "maxUnavailable",
				"set spec.updateStrategy.rollingUpdate.maxUnavailable, which applies to all subsets together")...)
		}
	}
	return owned.ValidateTemplate(template, parent.Selector, at, check)
}

// ValidatePatch rejects what Validate rejects in a template under both strategies, except pod labels: those of
// template and patch are merged first.
func (adapter) ValidatePatch(patch map[string]any, selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return owned.ValidatePatch(patch, selector, at, validateOwn)
}

func validateOwn(spec map[string]any, at *field.Path) field.ErrorList {
	errs := owned.ValidateStrategy(spec, "updateStrategy", "partition", "set the partitions in spec.updateStrategy", at)
	errs = append(errs, refuse(spec, at, "paused", "set spec.paused")...)
	return append(errs, refuse(spec, at, "unorderedUpdate", "with it, a partition would not determine which replicas stay")...)
}

// refuse rejects a member of the rolling update. ValidateStrategy rejects values of the wrong type.
func refuse(spec map[string]any, at *field.Path, member, instead string) field.ErrorList {
	rolling, err := tree.Lookup(spec, []string{"updateStrategy", "rollingUpdate"}, at)
	if err != nil || rolling[member] == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Child("updateStrategy", "rollingUpdate", member), instead)}
}
