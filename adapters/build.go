// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Build returns the child that c describes, in the form in which it is applied: today's template and patch with the
// pod part of the revision, placed on the nodes of the subset, and then the fields that the controller owns. It has
// no null fields, because with server-side apply a null would claim a field that does not exist. The writer adds the
// fingerprint annotation.
//
// Build does not change c, and the result shares nothing with it. An error about user input is a *field.Error and
// names the field in the parent. Build passes on what is odd but harmless, such as a misspelled field, because the
// API server rejects it with a better message.
func Build(a Adapter, c *Child) (*unstructured.Unstructured, error) {
	where := pathsOf(a, c)
	workload, err := merged(a, c, where)
	if err != nil {
		return nil, err
	}
	tree.DropNulls(workload)
	if err := setMetadata(workload, c, where.template); err != nil {
		return nil, err
	}
	for _, steps := range a.PodTemplates() {
		if err := finishPodTemplate(workload, steps, c, where); err != nil {
			return nil, err
		}
	}
	if err := a.SetControllerFields(workload, c); err != nil {
		return nil, within(where.template, err)
	}
	u := &unstructured.Unstructured{Object: workload}
	u.SetGroupVersionKind(a.GroupVersionKind())
	return u, nil
}

// paths are the paths of the parts of a child in its parent.
type paths struct{ template, patch, nodeSelector *field.Path }

func pathsOf(a Adapter, c *Child) paths {
	member, _ := a.TemplateField(&v1alpha1.WorkloadTemplate{})
	subset := field.NewPath("spec", "topology", "subsets").Key(c.Subset)
	return paths{
		template:     field.NewPath("spec", "template", member),
		patch:        subset.Child("patch"),
		nodeSelector: subset.Child("nodeSelector"),
	}
}

// Renew updates replicas, partition and record of a child that Build returned for the same c with other values of
// those. It is cheaper than another Build.
func Renew(a Adapter, built *unstructured.Unstructured, c *Child) error {
	metadata, err := tree.Ensure(built.Object, "metadata", nil)
	if err != nil {
		return err
	}
	annotations, err := tree.Ensure(metadata, "annotations", field.NewPath("metadata"))
	if err != nil {
		return err
	}
	setRecord(annotations, c)
	return within(pathsOf(a, c).template, a.SetControllerFields(built.Object, c))
}

// merged merges template and patch, each with the pod part of the revision.
func merged(a Adapter, c *Child, where paths) (map[string]any, error) {
	if err := CheckTemplate(a, c.Template, where.template); err != nil {
		return nil, err
	}
	if err := CheckPatch(a, c.Patch, c.Selector, where.patch); err != nil {
		return nil, err
	}
	template, err := WithRevisionData(a, c.Template, c.RevisionTemplate, where.template)
	if err != nil {
		return nil, err
	}
	patch, err := WithRevisionData(a, c.Patch, c.RevisionPatch, where.patch)
	if err != nil {
		return nil, err
	}
	schema, err := a.PatchSchema()
	if err != nil {
		return nil, fmt.Errorf("patch schema of %s: %w", a.GroupVersionKind().Kind, err)
	}
	workload, err := render.Merge(schema, template, patch)
	if err != nil {
		return nil, within(where.patch, err)
	}
	return workload, nil
}

// finishPodTemplate labels and places one pod template. It does not add a missing one: that may be optional, and the
// API server knows if it is not.
func finishPodTemplate(workload map[string]any, steps []string, c *Child, where paths) error {
	pods, err := tree.Lookup(workload, steps, where.template)
	if err != nil || pods == nil {
		return err
	}
	at := where.template
	for _, step := range steps {
		at = at.Child(step)
	}
	metadata, err := tree.Ensure(pods, "metadata", at)
	if err != nil {
		return err
	}
	if err := setLabels(metadata, c, at.Child("metadata")); err != nil {
		return err
	}
	if c.VersionLabel != "" {
		labels, err := tree.Ensure(metadata, "labels", at.Child("metadata"))
		if err != nil {
			return err
		}
		labels[v1alpha1.LabelVersion] = c.VersionLabel
	}
	if err := checkNodeSelector(c.NodeSelector, where.nodeSelector); err != nil {
		return err
	}
	if err := within(at, place(pods, steps, c)); err != nil || c.Colocation == nil {
		return err
	}
	return within(at, render.Colocate(pods, c.Parent, c.Colocation))
}

// checkNodeSelector rejects a selector that can match no node, with a message that names its path; render.Place would
// reject it too. To treat it as no restriction would let the pods of the subset run anywhere.
func checkNodeSelector(selector *corev1.NodeSelector, at *field.Path) error {
	if selector == nil {
		return nil
	}
	says := func(t corev1.NodeSelectorTerm) bool { return len(t.MatchExpressions)+len(t.MatchFields) > 0 }
	if !slices.ContainsFunc(selector.NodeSelectorTerms, says) {
		return field.Required(at.Child("nodeSelectorTerms"), "must have a term with matchExpressions or matchFields; an empty one matches no node")
	}
	return nil
}

// setMetadata keeps the labels and annotations that users may set on the child (see CheckTemplate), and sets those of
// the controller.
func setMetadata(workload map[string]any, c *Child, at *field.Path) error {
	metadata, err := tree.Ensure(workload, "metadata", at)
	if err != nil {
		return err
	}
	at = at.Child("metadata")
	metadata["name"], metadata["namespace"] = c.Name, c.Namespace
	owner, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.Owner)
	if err != nil {
		return fmt.Errorf("owner reference: %w", err)
	}
	metadata["ownerReferences"] = []any{owner}
	if err := setLabels(metadata, c, at); err != nil {
		return err
	}
	annotations, err := tree.Ensure(metadata, "annotations", at)
	if err != nil {
		return err
	}
	// A template must not forge what the controller reads back.
	delete(annotations, v1alpha1.AnnotationFingerprint)
	setRecord(annotations, c)
	return nil
}

// setRecord adds the annotations of Record.
func setRecord(annotations map[string]any, c *Child) {
	for key, value := range Record(c) {
		annotations[key] = value
	}
}

// setLabels sets the controller's labels in metadata. Trap: if one value is not a string, the accessors of
// Unstructured return no labels at all.
func setLabels(metadata map[string]any, c *Child, at *field.Path) error {
	if _, err := tree.Strings(metadata, "labels", at); err != nil {
		return err
	}
	labels, err := tree.Ensure(metadata, "labels", at)
	if err != nil {
		return err
	}
	labels[v1alpha1.LabelName], labels[v1alpha1.LabelSubset] = c.Parent, c.Subset
	return nil
}
