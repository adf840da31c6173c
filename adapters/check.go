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

// CheckTemplate refuses what would otherwise be lost without a word, or make a
// merge senseless: another kind, a status, a metadata or a spec that is no
// object, metadata other than labels and annotations, a label or an annotation that is
// no string. What the adapter's own kind cannot do with a template is for
// Adapter.Validate. The error names the field; at is the path of the template.
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
	return checkVersionLabel(a, template, at)
}

// checkVersionLabel refuses the label united.dev/version on pods: a value that a user wrote would stay
// the same in the next revision. What is of a wrong type is for other checks to refuse.
func checkVersionLabel(a Adapter, template map[string]any, at *field.Path) error {
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
		if _, set := labels[v1alpha1.LabelVersion]; set && err == nil {
			here := at.Child(steps[0], steps[1:]...).Child("metadata", "labels").Key(v1alpha1.LabelVersion)
			return field.Forbidden(here, "must not be set; set spec.versionLabel to TemplateHash, and the controller sets it on every pod")
		}
	}
	return nil
}

// checkMetadata refuses all but labels and annotations. The names and the owner of a child are the
// controller's, most of the rest is the API server's; and with finalizers users would leave
// children behind that nobody can delete. A null says what an absent field does. Patch
// directives are for CheckPatch to refuse.
func checkMetadata(metadata map[string]any, at *field.Path) error {
	allowed := []string{"labels", "annotations"}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if metadata[key] != nil && !slices.Contains(allowed, key) && !strings.HasPrefix(key, "$") {
			return field.Forbidden(at.Child(key), "only labels and annotations may be set here")
		}
	}
	for _, key := range allowed {
		if _, err := tree.Strings(metadata, key, at); err != nil {
			return err
		}
	}
	return nil
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
