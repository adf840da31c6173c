// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package owned handles the fields that the controller owns, for all kinds with a selector and a pod template at
// spec.template.
package owned

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Check has the checks of one kind on the spec of a workload, in addition to those for all kinds. A null is allowed,
// because it equals an absent field.
type Check func(spec map[string]any, at *field.Path) field.ErrorList

// ValidateTemplate rejects, in a template at the path at, the fields that the controller determines (replicas,
// another selector, and what own rejects), and pod labels that do not match the selector of the parent.
func ValidateTemplate(template map[string]any, selector *metav1.LabelSelector, at *field.Path, own Check) field.ErrorList {
	return ValidateTemplateWith(template, selector, at, own, []string{"template"})
}

// ValidateTemplateWith is ValidateTemplate for a kind whose spec has its pod templates at other paths.
func ValidateTemplateWith(template map[string]any, selector *metav1.LabelSelector, at *field.Path, own Check, pods ...[]string) field.ErrorList {
	required, errs := parentSelector(selector)
	spec, err := tree.Object(template, "spec", at)
	if err != nil {
		return append(errs, AsField(at, err))
	}
	at = at.Child("spec")
	errs = append(errs, validate(spec, required, at, own)...)
	for _, steps := range pods {
		if required != nil {
			errs = append(errs, validatePodLabels(spec, steps, required, at)...)
		}
	}
	return errs
}

// ValidatePatch rejects what ValidateTemplate rejects, except pod labels: those of template and patch are merged
// first.
func ValidatePatch(patch map[string]any, selector *metav1.LabelSelector, at *field.Path, own Check) field.ErrorList {
	required, _ := parentSelector(selector) // ValidateTemplate reports an error in it
	spec, err := tree.Object(patch, "spec", at)
	if err != nil {
		return field.ErrorList{AsField(at, err)}
	}
	return validate(spec, required, at.Child("spec"), own)
}

// validate rejects fields that the controller sets. Without required, it does not check the selector.
func validate(spec map[string]any, required labels.Requirements, at *field.Path, own Check) field.ErrorList {
	var errs field.ErrorList
	if spec["replicas"] != nil {
		errs = append(errs, field.Forbidden(at.Child("replicas"), "set spec.replicas, or spec.topology.subsets[].replicas for one subset"))
	}
	errs = append(errs, own(spec, at)...)
	if required != nil {
		errs = append(errs, validateSelector(spec, required, at)...)
	}
	return errs
}

// parentSelector returns the requirements of spec.selector; nil with an error.
func parentSelector(selector *metav1.LabelSelector) (labels.Requirements, field.ErrorList) {
	at := field.NewPath("spec", "selector")
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(selector), err.Error())}
	}
	requirements, selectable := parsed.Requirements()
	if !selectable || len(requirements) == 0 {
		return nil, field.ErrorList{field.Required(at, "must not be empty: it would select every pod in the namespace, or none")}
	}
	return requirements, nil
}

// validateSelector allows a selector that is equivalent to the parent's, because a workload that is copied into a
// template has one.
func validateSelector(spec map[string]any, required labels.Requirements, at *field.Path) field.ErrorList {
	raw, err := tree.Object(spec, "selector", at)
	if err != nil {
		return field.ErrorList{AsField(at, err)}
	}
	if raw == nil {
		return nil
	}
	at = at.Child("selector")
	var typed metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(raw, &typed, true); err != nil {
		return field.ErrorList{field.Invalid(at, raw, err.Error())}
	}
	own, err := metav1.LabelSelectorAsSelector(&typed)
	if err != nil {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(&typed), err.Error())}
	}
	if requirements, _ := own.Requirements(); !slices.Equal(texts(requirements), texts(required)) {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(&typed), "must be absent or equal to spec.selector")}
	}
	return nil
}

// texts returns requirements in a form that does not depend on the order of requirements and values.
func texts(requirements labels.Requirements) []string {
	var out []string
	for i := range requirements {
		out = append(out, requirements[i].String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// validatePodLabels checks the labels of the pod template at a path. A selector may require the labels that the
// controller adds. Their values differ between children, so the API server has to check those.
func validatePodLabels(spec map[string]any, steps []string, required labels.Requirements, at *field.Path) field.ErrorList {
	pods, err := tree.Lookup(spec, steps, at)
	if err != nil {
		return field.ErrorList{AsField(at, err)}
	}
	at = at.Child(steps[0], steps[1:]...)
	metadata, err := tree.Object(pods, "metadata", at)
	if err != nil {
		return field.ErrorList{AsField(at, err)}
	}
	at = at.Child("metadata")
	set, err := tree.Strings(metadata, "labels", at)
	if err != nil {
		return field.ErrorList{AsField(at, err)}
	}
	for i := range required {
		key := required[i].Key()
		if key == v1alpha1.LabelName || key == v1alpha1.LabelSubset {
			continue
		}
		if !required[i].Matches(labels.Set(set)) {
			return field.ErrorList{field.Invalid(at.Child("labels"), labels.FormatLabels(set), "must match spec.selector, which asks for "+required[i].String())}
		}
	}
	return nil
}

// AsField returns the *field.Error in err. Package tree returns no others.
func AsField(at *field.Path, err error) *field.Error {
	var fe *field.Error
	if errors.As(err, &fe) {
		return fe
	}
	return field.InternalError(at, err)
}

// childSelector returns the parent's selector with the two labels added. Without them, the children of one parent
// would select each other's pods.
func childSelector(c *adapters.Child) (map[string]any, error) {
	selector := c.Selector.DeepCopy()
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	metav1.AddLabelToSelector(selector, v1alpha1.LabelName, c.Parent)
	metav1.AddLabelToSelector(selector, v1alpha1.LabelSubset, c.Subset)
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(selector)
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	return out, nil
}

// SetCommon sets the fields that every kind with a selector has: replicas and selector.
func SetCommon(spec map[string]any, c *adapters.Child) error {
	selector, err := childSelector(c)
	if err != nil {
		return err
	}
	spec["replicas"] = int64(c.Replicas)
	spec["selector"] = selector
	return nil
}

// SetDefaults sets fields that the user does not set to the defaults of the API server. They are those that decide how a
// child replaces its replicas. If United did not write them, a value that somebody else sets would stay, such as a
// strategy that takes down a whole zone at the next release.
func SetDefaults(object, defaults map[string]any) {
	for key, value := range defaults {
		if object[key] == nil || object[key] == any("") {
			object[key] = value
		}
	}
}

// Read converts a child to its type, without some fields of its spec and without managedFields: nothing needs those
// as types, converting them would be most of the work, and a field of an unexpected type in a template must not make
// an existing child unreadable.
func Read(child *unstructured.Unstructured, gvk schema.GroupVersionKind, into metav1.Object, without ...string) error {
	if child == nil || child.GroupVersionKind() != gvk {
		return fmt.Errorf("not a %s of %s", gvk.Kind, gvk.GroupVersion())
	}
	object := maps.Clone(child.Object)
	if spec, ok := object["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		for _, field := range without {
			delete(spec, field)
		}
		object["spec"] = spec
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, field := range []string{"managedFields", "annotations", "labels"} {
			delete(metadata, field)
		}
		object["metadata"] = metadata
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, into); err != nil {
		return fmt.Errorf("%s %s/%s: %w", gvk.Kind, child.GetNamespace(), child.GetName(), err)
	}
	into.SetAnnotations(child.GetAnnotations()) // the converter would take ten times as long for them
	into.SetLabels(child.GetLabels())
	return nil
}

// RollingUpdate is the type of an update strategy that replaces pods a few at a time, with the name that StatefulSets
// and Deployments use.
const RollingUpdate = "RollingUpdate"

// ValidateStrategy rejects, in the named strategy in the spec of a workload at the path at, a type other than
// RollingUpdate, and the member of rollingUpdate that the controller determines; instead says what to set.
func ValidateStrategy(spec map[string]any, name, member, instead string, at *field.Path) field.ErrorList {
	strategy, err := tree.Object(spec, name, at)
	if err != nil {
		return field.ErrorList{AsField(at, err)}
	}
	at = at.Child(name)
	var errs field.ErrorList
	if kind := strategy["type"]; kind != nil && kind != any(RollingUpdate) {
		errs = append(errs, field.NotSupported(at.Child("type"), kind, []string{RollingUpdate}))
	}
	rolling, err := tree.Object(strategy, "rollingUpdate", at)
	if err != nil {
		return append(errs, AsField(at, err))
	}
	if rolling[member] != nil {
		errs = append(errs, field.Forbidden(at.Child("rollingUpdate", member), instead))
	}
	return errs
}

// EnsureRolling makes the named strategy in spec a rolling update, and returns its rollingUpdate. Errors are
// *field.Error relative to the workload.
func EnsureRolling(spec map[string]any, name string) (map[string]any, error) {
	at := field.NewPath("spec")
	strategy, err := tree.Ensure(spec, name, at)
	if err != nil {
		return nil, err
	}
	rolling, err := tree.Ensure(strategy, "rollingUpdate", at.Child(name))
	if err != nil {
		return nil, err
	}
	strategy["type"] = RollingUpdate
	return rolling, nil
}
