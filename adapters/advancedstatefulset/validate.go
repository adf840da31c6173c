// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package advancedstatefulset

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

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
	if start, err := tree.Lookup(spec, []string{"ordinals"}, at); err == nil && start["start"] != nil && fmt.Sprint(start["start"]) != "0" {
		errs = append(errs, field.Forbidden(at.Child("ordinals", "start"), "OpenKruise ignores it, unless its feature gate StatefulSetStartOrdinal is on, which is not supported"))
	}
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

// CheckChange rejects another reserveOrdinals, if replicas would have other ordinals because of it: the controller of the
// kind deletes all pods with an ordinal that is reserved now at once, available or not.
func (a adapter) CheckChange(built, live *unstructured.Unstructured) error {
	want, err := a.typed(built)
	if err != nil {
		return err
	}
	has, err := a.typed(live)
	if err != nil {
		return err
	}
	if slices.Equal(want.Spec.ReserveOrdinals, has.Spec.ReserveOrdinals) {
		return nil
	}
	replicas := ptr.Deref(has.Spec.Replicas, 1)
	if to := ptr.Deref(want.Spec.Replicas, 1); to == 0 {
		return nil
	}
	for position := range replicas {
		if is, was := numbered(want).PodName(position), numbered(has).PodName(position); is != was {
			return field.Forbidden(field.NewPath("spec", "reserveOrdinals"), fmt.Sprintf(
				"cannot be changed from %s while there are replicas: OpenKruise would delete all pods at once whose ordinals are reserved, and %s would become %s; "+
					"set it back, scale the subset to 0 first, or add a subset with it and remove this one", shown(has.Spec.ReserveOrdinals), was, is))
		}
	}
	return nil
}

func shown(reserved []intstr.IntOrString) string {
	if len(reserved) == 0 {
		return "nothing"
	}
	texts := make([]string, 0, len(reserved))
	for i := range reserved {
		texts = append(texts, reserved[i].String())
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
