// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Validate rejects, in a template at the path at, the fields that the controller determines (replicas, the partition,
// another selector, paused), names of pods to delete, a strategy without a partition, and pod labels that
// spec.selector does not match. In a coordinated rollout it rejects everything that determines, independently of the
// ledger, how many pods are updated, or in which order.
func (adapter) Validate(parent *v1alpha1.UnitedDeploymentSpec, template map[string]any, at *field.Path) field.ErrorList {
	check := validateOwn
	if parent.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		check = func(spec map[string]any, at *field.Path) field.ErrorList {
			return append(validateOwn(spec, at), validateCoordinated(spec, at)...)
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
	var errs field.ErrorList
	scale, err := tree.Object(spec, "scaleStrategy", at)
	switch {
	case err != nil:
		errs = append(errs, owned.AsField(at, err))
	case scale["podsToDelete"] != nil:
		errs = append(errs, field.Forbidden(at.Child("scaleStrategy", "podsToDelete"), "delete the pods themselves"))
	}
	strategy, err := tree.Object(spec, "updateStrategy", at)
	if err != nil {
		return append(errs, owned.AsField(at, err))
	}
	at = at.Child("updateStrategy")
	known := []string{"ReCreate", "InPlaceIfPossible", "InPlaceOnly"}
	if kind := strategy["type"]; kind != nil && kind != any(known[0]) && kind != any(known[1]) && kind != any(known[2]) {
		errs = append(errs, field.NotSupported(at.Child("type"), kind, known))
	}
	if strategy["partition"] != nil {
		errs = append(errs, field.Forbidden(at.Child("partition"), "set the partitions in spec.updateStrategy"))
	}
	if strategy["paused"] != nil {
		errs = append(errs, field.Forbidden(at.Child("paused"), "set spec.paused"))
	}
	return errs
}

// validateCoordinated checks a template for a coordinated rollout, which has one maxUnavailable for all subsets, and
// updates unavailable pods first.
func validateCoordinated(spec map[string]any, at *field.Path) field.ErrorList {
	strategy, err := tree.Object(spec, "updateStrategy", at)
	if err != nil {
		return nil // validateOwn has reported it
	}
	at = at.Child("updateStrategy")
	var errs field.ErrorList
	if strategy["maxUnavailable"] != nil {
		errs = append(errs, field.Forbidden(at.Child("maxUnavailable"),
			"set spec.updateStrategy.rollingUpdate.maxUnavailable, which applies to all subsets together"))
	}
	for _, order := range []string{"priorityStrategy", "scatterStrategy"} {
		if strategy[order] != nil {
			errs = append(errs, field.Forbidden(at.Child(order), "a coordinated rollout always updates unavailable replicas first"))
		}
	}
	return errs
}
