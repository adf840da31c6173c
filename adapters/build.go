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

// Build makes the child that c describes, as it is to be applied: template and
// patch of today with the pod part of the revision, placed on the subset's
// nodes, and the fields that the controller owns over all of it. It has no null
// fields, since under server-side apply one would claim a field that is not
// there. The fingerprint annotation is left to the writer.
//
// c is not changed, and the result shares nothing with it. Errors about what a
// user wrote are *field.Error and name the field in the parent. What is odd but
// harmless, such as a misspelt field, is passed through: the API server refuses
// it in better words.
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

// paths are where the parts of a child are written in its parent.
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

// Renew gives a child that Build made the replicas, the partition and the record of c,
// which is the same but for those. It spares a second Build.
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

// merged is template and patch, each with the pod part of the revision, in one.
func merged(a Adapter, c *Child, where paths) (map[string]any, error) {
	if err := CheckTemplate(a, c.Template, where.template); err != nil {
		return nil, err
	}
	if err := CheckPatch(a, c.Patch, c.Selector, where.patch); err != nil {
		return nil, err
	}
	template, err := withRevisionData(a, c.Template, c.RevisionTemplate, where.template)
	if err != nil {
		return nil, err
	}
	patch, err := withRevisionData(a, c.Patch, c.RevisionPatch, where.patch)
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

// finishPodTemplate labels and places one pod template. One that is absent stays
// absent: it may be optional, and the API server knows when it is not.
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
	return within(at, render.Place(pods, c.NodeSelector, c.Tolerations))
}

// checkNodeSelector refuses a selector that can match no node, in words that say
// where it is; render.Place would refuse it too. Taken as no restriction it
// would let the subset roam.
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

// setMetadata keeps what users may say of the child (labels and annotations, see
// CheckTemplate) and sets what the controller owns.
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

// setRecord notes what is to be known of the child later.
func setRecord(annotations map[string]any, c *Child) {
	for key, value := range Record(c) {
		annotations[key] = value
	}
}

// setLabels puts the controller's labels on metadata. Trap: a value that is not
// a string makes the accessors of Unstructured see no labels at all.
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
