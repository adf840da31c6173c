// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Colocation is how the pods of one subset are placed in groups.
type Colocation struct {
	// TopologyKey and Exclusive are those of spec.topology.colocation.
	TopologyKey string
	Exclusive   bool
	// ID is the value of the label united.dev/colocation.
	ID string
	// Ratio is how many replicas of the subset are in a group, Start the first ordinal.
	Ratio, Start int32
}

// Colocate makes the pods of a template members of groups of the named parent. It changes podTemplate in place.
//
// The label of the group is not in the template, because it differs between pods: the MutatingAdmissionPolicy sets it
// when a pod is created, computes it from the label and the annotation that Colocate sets, and removes the scheduling
// gate. Then the API server copies its value from matchLabelKeys into the affinity of the pod.
//
// The terms match only pods of the same colocation. Otherwise, after a change of the topology key or of exclusive, the
// old pods of a group would determine where its new ones have to run, which may be several domains, or one that
// another group uses. The anti-affinity would also match pods that have no group.
func Colocate(podTemplate map[string]any, parent string, c *Colocation) error {
	if err := markMember(podTemplate, c); err != nil {
		return err
	}
	spec, err := tree.Ensure(podTemplate, "spec", nil)
	if err != nil {
		return err
	}
	at := field.NewPath("spec")
	gates, err := tree.List(spec, "schedulingGates", at)
	if err != nil {
		return err
	}
	spec["schedulingGates"] = append(gates, map[string]any{"name": v1alpha1.GateColocation})
	affinity, err := tree.Ensure(spec, "affinity", at)
	if err != nil {
		return err
	}
	at = at.Child("affinity")
	if err := requireTerm(affinity, "podAffinity", groupTerm(parent, c, "matchLabelKeys"), at); err != nil {
		return err
	}
	if !c.Exclusive {
		return nil
	}
	return requireTerm(affinity, "podAntiAffinity", groupTerm(parent, c, "mismatchLabelKeys"), at)
}

// markMember sets what the MutatingAdmissionPolicy reads.
func markMember(podTemplate map[string]any, c *Colocation) error {
	metadata, err := tree.Ensure(podTemplate, "metadata", nil)
	if err != nil {
		return err
	}
	labels, err := tree.Ensure(metadata, "labels", field.NewPath("metadata"))
	if err != nil {
		return err
	}
	annotations, err := tree.Ensure(metadata, "annotations", field.NewPath("metadata"))
	if err != nil {
		return err
	}
	labels[v1alpha1.LabelColocation] = c.ID
	labels[v1alpha1.LabelColocationRatio] = strconv.Itoa(int(c.Ratio))
	annotations[v1alpha1.AnnotationColocationStart] = strconv.Itoa(int(c.Start))
	return nil
}

// groupTerm returns a term for the pods of the same group, or of other groups, of the parent.
func groupTerm(parent string, c *Colocation, keys string) map[string]any {
	return map[string]any{
		"topologyKey": c.TopologyKey,
		"labelSelector": map[string]any{
			"matchLabels": map[string]any{v1alpha1.LabelName: parent, v1alpha1.LabelColocation: c.ID},
		},
		keys: []any{v1alpha1.LabelColocationGroup},
	}
}

// requireTerm appends a term to the required ones of an affinity.
func requireTerm(affinity map[string]any, kind string, term map[string]any, at *field.Path) error {
	of, err := tree.Ensure(affinity, kind, at)
	if err != nil {
		return err
	}
	terms, err := tree.List(of, requiredKey, at.Child(kind))
	if err != nil {
		return err
	}
	of[requiredKey] = append(terms, term)
	return nil
}
