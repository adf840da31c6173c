// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkerset

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/owned"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Validate rejects, in a template at the path at, the fields that the controller determines (replicas, the partition), a
// selector, which the kind does not have, maxSurge, and labels of leaders or workers that spec.selector does not match;
// in a coordinated rollout also maxUnavailable.
func (adapter) Validate(parent *v1alpha1.UnitedDeploymentSpec, template map[string]any, at *field.Path) field.ErrorList {
	check := validateOwn
	if parent.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		check = func(spec map[string]any, at *field.Path) field.ErrorList {
			return append(validateOwn(spec, at), refuse(spec, at, "maxUnavailable",
				"set spec.updateStrategy.rollingUpdate.maxUnavailable, which applies to all subsets together")...)
		}
	}
	pods := [][]string{{"leaderWorkerTemplate", "workerTemplate"}}
	if leader, err := tree.Lookup(template, []string{"spec", "leaderWorkerTemplate", "leaderTemplate"}, nil); err != nil || leader != nil {
		pods = append(pods, []string{"leaderWorkerTemplate", "leaderTemplate"})
	}
	return owned.ValidateTemplateWith(template, parent.Selector, at, check, pods...)
}

// ValidatePatch rejects what Validate rejects in a template under both strategies, except pod labels: those of template
// and patch are merged first.
func (adapter) ValidatePatch(patch map[string]any, selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return owned.ValidatePatch(patch, selector, at, validateOwn)
}

func validateOwn(spec map[string]any, at *field.Path) field.ErrorList {
	strategy, err := tree.Object(spec, strategyField, at)
	if err != nil {
		return field.ErrorList{owned.AsField(at, err)}
	}
	var errs field.ErrorList
	if kind := strategy["type"]; kind != nil && kind != any(owned.RollingUpdate) {
		errs = append(errs, field.NotSupported(at.Child(strategyField, "type"), kind, []string{owned.RollingUpdate}))
	}
	if _, err := tree.Object(strategy, rollingField, at.Child(strategyField)); err != nil {
		return append(errs, owned.AsField(at, err))
	}
	errs = append(errs, refuse(spec, at, "partition", "set the partitions in spec.updateStrategy")...)
	rolling, err := tree.Lookup(spec, []string{strategyField, rollingField}, at)
	if surge := rolling["maxSurge"]; err == nil && surge != nil && surge != any(int64(0)) && surge != any("0%") && surge != any(float64(0)) {
		errs = append(errs, field.Forbidden(at.Child(strategyField, rollingField, "maxSurge"),
			"it makes groups as soon as there is a new revision, before any is released"))
	}
	if spec["selector"] != nil {
		errs = append(errs, field.Forbidden(at.Child("selector"), "a LeaderWorkerSet has none"))
	}
	return errs
}

// refuse rejects a member of the rolling update. validateOwn rejects values of the wrong type.
func refuse(spec map[string]any, at *field.Path, member, instead string) field.ErrorList {
	rolling, err := tree.Lookup(spec, []string{strategyField, rollingField}, at)
	if err != nil || rolling[member] == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Child(strategyField, rollingField, member), instead)}
}
