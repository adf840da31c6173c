// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/adapters/render"
)

// CheckTemplate refuses what would otherwise be lost without a word, or make a
// merge senseless: another kind, a status, a metadata or a spec that is no
// object, a label or an annotation that is no string. What the adapter's own
// kind cannot do with a template is for Adapter.Validate. The error names the
// field; at is the path of the template.
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
	for _, key := range []string{"labels", "annotations"} {
		if _, err := tree.Strings(metadata, key, at.Child("metadata")); err != nil {
			return err
		}
	}
	_, err = tree.Object(template, "spec", at)
	return err
}

// CheckPatch refuses in a subset's patch what CheckTemplate refuses in a
// template; patch directives outside of the pod part, which could change pods, of
// which a revision holds only the pod part; and what the controller decides itself.
// selector is that of the parent.
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

// within makes the path in a *field.Error start at a field of the parent.
func within(at *field.Path, err error) error {
	var fe *field.Error
	if !errors.As(err, &fe) {
		return err
	}
	moved := *fe
	moved.Field = at.String() + "." + fe.Field
	return &moved
}
