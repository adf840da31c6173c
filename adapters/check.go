// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"errors"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// CheckTemplate rejects what would otherwise be lost silently, or make a merge meaningless: another kind, a status, a
// metadata or spec that is not an object, metadata other than labels and annotations, and labels or annotations that
// are not strings. Adapter.Validate rejects what a particular kind cannot do. The error names the field; at is the
// path of the template.
func CheckTemplate(a Adapter, template map[string]any, at *field.Path) error {
	version, kind := a.GroupVersionKind().ToAPIVersionAndKind()
	for _, must := range []struct{ key, value string }{{"apiVersion", version}, {"kind", kind}} {
		if v := template[must.key]; v != nil && v != any(must.value) {
			return field.Invalid(at.Child(must.key), v, "must be "+must.value+", or absent")
		}
	}
	if template["status"] != nil {
		return field.Forbidden(at.Child("status"), "the status belongs to the workload's own controller")
	}
	metadata, err := tree.Object(template, "metadata", at)
	if err != nil {
		return err
	}
	if err := checkMetadata(metadata, at.Child("metadata")); err != nil {
		return err
	}
	if _, err = tree.Object(template, "spec", at); err != nil {
		return err
	}
	return checkReservedLabels(a, template, at)
}

// reservedLabels returns the labels that templates must not set on pods, with what sets them instead.
func reservedLabels() map[string]string {
	return map[string]string{
		v1alpha1.LabelVersion:         "must not be set; set spec.versionLabel to TemplateHash, and the controller sets it on every pod",
		v1alpha1.LabelColocation:      "must not be set; set spec.topology.colocation",
		v1alpha1.LabelColocationGroup: "must not be set; it is the group of a pod in spec.topology.colocation",
		v1alpha1.LabelColocationRatio: "must not be set; set spec.topology.colocation.ratios",
	}
}

// checkReservedLabels refuses labels on pods that differ between pods or revisions: a value that a user wrote would
// stay the same. What is of a wrong type is for other checks to refuse.
func checkReservedLabels(a Adapter, template map[string]any, at *field.Path) error {
	for _, steps := range a.PodTemplates() {
		pods, err := tree.Lookup(template, steps, at)
		if err != nil {
			continue
		}
		metadata, err := tree.Object(pods, "metadata", at)
		if err != nil {
			continue
		}
		labels, err := tree.Object(metadata, "labels", at)
		if err != nil {
			continue
		}
		reserved := reservedLabels()
		for _, label := range slices.Sorted(maps.Keys(reserved)) {
			if _, set := labels[label]; set {
				return field.Forbidden(at.Child(steps[0], steps[1:]...).Child("metadata", "labels").Key(label), reserved[label])
			}
		}
	}
	return nil
}

// checkMetadata rejects everything but labels and annotations. The controller determines the names and the owner of a
// child, the API server most of the rest; and a finalizer would leave children that nobody can delete. A null equals
// an absent field. CheckPatch rejects patch directives.
func checkMetadata(metadata map[string]any, at *field.Path) error {
	allowed := []string{"labels", "annotations"}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if metadata[key] != nil && !slices.Contains(allowed, key) && !strings.HasPrefix(key, "$") {
			return field.Forbidden(at.Child(key), "only labels and annotations may be set here")
		}
	}
	for _, key := range allowed {
		texts, err := tree.Strings(metadata, key, at)
		if err != nil {
			return err
		}
		if _, set := texts[rollbackTo]; set && key == "annotations" {
			return field.Forbidden(at.Child(key).Key(rollbackTo), "the controller of Deployments would put another pod template in place of this one")
		}
	}
	return nil
}

// rollbackTo makes the controller of Deployments replace the pod template by that of any ReplicaSet that matches, also in a zone
// that is held.
const rollbackTo = "deprecated.deployment.rollback.to"

// CheckPatch rejects in a subset's patch what CheckTemplate rejects in a template; patch directives outside of the
// pod part, which could change pods although a revision stores only the pod part; and fields that the controller
// determines. selector is that of the parent.
func CheckPatch(a Adapter, patch map[string]any, selector *metav1.LabelSelector, at *field.Path) error {
	if err := CheckTemplate(a, patch, at); err != nil {
		return err
	}
	if err := within(at, render.CheckOutside(patch, a.RevisionPaths())); err != nil {
		return err
	}
	if errs := a.ValidatePatch(patch, selector, at); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// within makes the path in a *field.Error relative to a field of the parent.
func within(at *field.Path, err error) error {
	var fe *field.Error
	if !errors.As(err, &fe) {
		return err
	}
	moved := *fe
	moved.Field = at.String() + "." + fe.Field
	return &moved
}
