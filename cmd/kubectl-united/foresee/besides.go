// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Setback is a field that is not in the pods, and that the API server does not let a child change.
type Setback struct {
	// Field is its path in the UnitedDeployment, and Value what it is in the child.
	Field, Value string
}

// Setbacks returns the fields outside pods for which the API server refuses the child of a subset; none if there is no such child.
// refusal is what it said.
func Setbacks(in *planner.Input, subset, refusal string) (all []Setback) {
	live := in.Children[subset]
	i := slices.IndexFunc(in.Spec.Subsets, func(s spec.Subset) bool { return s.Name == subset })
	if live == nil || i < 0 {
		return nil
	}
	wanted := built(&in.World, subset, in.Update)
	if wanted == nil {
		return nil
	}
	member, _ := in.Spec.Adapter.TemplateField(&in.Parent.Spec.Template)
	patched, _ := in.Spec.Subsets[i].DecodedPatch["spec"].(map[string]any)
	for _, d := range fixed(in.Spec.Adapter, wanted, live.Object, refusal) {
		at := "spec.template." + member
		if _, sets := patched[keyOf(d.at)]; sets {
			at = "spec.topology.subsets[" + subset + "].patch"
		}
		all = append(all, Setback{at + "." + d.at, brief(d.was)})
	}
	return all
}

// Fixed says in which fields outside pods a child would differ from the live one, for which the API server refuses it; "" if it
// refuses something else.
func Fixed(a adapters.Adapter, wanted, live *unstructured.Unstructured, refusal string) string {
	var texts []string
	for _, d := range fixed(a, wanted, live, refusal) {
		texts = append(texts, fmt.Sprintf("%s is %s and cannot become %s", d.at, brief(d.was), brief(d.is)))
	}
	return strings.Join(texts, "; ")
}

// fixed returns the fields of the spec outside pods that differ, as far as the refusal is about them. What the controller sets can
// be changed.
func fixed(a adapters.Adapter, wanted, live *unstructured.Unstructured, refusal string) (found []deviation) {
	is, _, _ := unstructured.NestedMap(wanted.Object, "spec")
	was, _, _ := unstructured.NestedMap(live.Object, "spec")
	fields := a.FieldPaths()
	pass := []string{"selector", "minReadySeconds"}
	for _, path := range append(a.RevisionPaths(), fields.Replicas, fields.Partition, fields.Strategy, fields.Paused) {
		if len(path) > 1 {
			pass = append(pass, path[1])
		}
	}
	keys := append(owned(live), union(is, nil)...)
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		// The API server of 1.36 names what can be changed, and later ones what cannot.
		if slices.Contains(pass, key) || strings.Contains(refusal, "'"+key+"'") {
			continue
		}
		walk(was[key], is[key], "spec."+key, func(d deviation) {
			// What only the live child has is a default, unless it is all of a field that we wrote, or an item of a list.
			if d.is != nil || d.at == "spec."+key || strings.HasSuffix(d.at, "]") {
				found = append(found, d)
			}
		})
	}
	named := slices.DeleteFunc(slices.Clone(found), func(d deviation) bool { return !strings.Contains(refusal, "spec."+keyOf(d.at)) })
	if len(named) > 0 {
		return named
	}
	return found
}

// keyOf returns the field of the spec in which a path ends.
func keyOf(at string) string {
	key := strings.TrimPrefix(at, "spec.")
	if end := strings.IndexAny(key, ".["); end >= 0 {
		key = key[:end]
	}
	return key
}

// owned returns the fields of the spec that United wrote: one that it no longer writes would be removed.
func owned(live *unstructured.Unstructured) (keys []string) {
	for _, m := range live.GetManagedFields() {
		if m.Manager != v1alpha1.FieldManager || m.Operation != "Apply" || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		of := struct {
			Spec map[string]any `json:"f:spec"`
		}{}
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &of) != nil {
			continue
		}
		for key := range of.Spec {
			if name, is := strings.CutPrefix(key, "f:"); is {
				keys = append(keys, name)
			}
		}
	}
	return keys
}
