// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Validate rejects, in a template at the path at, the fields that the controller determines (replicas, the partition,
// another selector), a strategy without a partition, and pod labels that spec.selector does not match.
func (adapter) Validate(parent *v1alpha1.UnitedDeploymentSpec, template map[string]any, at *field.Path) field.ErrorList {
	return owned.ValidateTemplate(template, parent.Selector, at, validateStrategy)
}

// ValidatePatch rejects what Validate rejects in a template, except pod labels: those of template and patch are
// merged first.
func (adapter) ValidatePatch(patch map[string]any, selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return owned.ValidatePatch(patch, selector, at, validateStrategy)
}

func validateStrategy(spec map[string]any, at *field.Path) field.ErrorList {
	return owned.ValidateStrategy(spec, "updateStrategy", "partition",
		"set the partitions in spec.updateStrategy", at)
}
