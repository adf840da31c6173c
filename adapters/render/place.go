// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
)

// The fields on the path to the required node affinity.
const (
	requiredKey    = "requiredDuringSchedulingIgnoredDuringExecution"
	termsKey       = "nodeSelectorTerms"
	expressionsKey = "matchExpressions"
	fieldsKey      = "matchFields"
)

// Place assigns the pods of a template to the nodes of a subset: it ANDs selector with the node affinity that the
// template requires, and appends tolerations, except those that the template already has verbatim. It changes podTemplate
// in place, and keeps fields that our types do not have.
//
// A nil selector restricts nothing. Terms are ORed and an empty term matches no node, so empty terms are left out. If
// that leaves none, on either side, this is an error, as is a list without terms: the API server rejects it, and to treat
// it as no restriction would put pods on nodes that nobody intended.
func Place(podTemplate map[string]any, selector *corev1.NodeSelector, tolerations []corev1.Toleration) error {
	if selector == nil && len(tolerations) == 0 {
		return nil
	}
	spec, err := tree.Ensure(podTemplate, "spec", nil)
	if err != nil {
		return err
	}
	at := field.NewPath("spec")
	if selector != nil {
		if err := requireNodes(spec, selector.NodeSelectorTerms, at); err != nil {
			return err
		}
	}
	return appendTolerations(spec, tolerations, at)
}

// RequiredNodes returns the required node affinity of a pod template; nil if it has none.
func RequiredNodes(podTemplate map[string]any) any {
	node, _, err := unstructured.NestedMap(podTemplate, "spec", "affinity", "nodeAffinity")
	if err != nil || node[requiredKey] == nil {
		return nil
	}
	return node[requiredKey]
}

// SetRequiredNodes sets the required node affinity of a pod template to one that RequiredNodes returned.
func SetRequiredNodes(podTemplate map[string]any, required any) error {
	if required == nil {
		unstructured.RemoveNestedField(podTemplate, "spec", "affinity", "nodeAffinity", requiredKey)
		return nil
	}
	node := podTemplate
	var at *field.Path
	for _, step := range []string{"spec", "affinity", "nodeAffinity"} {
		var err error
		if node, err = tree.Ensure(node, step, at); err != nil {
			return err
		}
		at = at.Child(step)
	}
	node[requiredKey] = runtime.DeepCopyJSONValue(required)
	return nil
}

// requireNodes replaces the terms of the required node affinity by their cross
// product with terms: (a or b) and (c or d) is ac or ad or bc or bd.
func requireNodes(spec map[string]any, terms []corev1.NodeSelectorTerm, at *field.Path) error {
	subset, err := subsetTerms(terms)
	if err != nil {
		return err
	}
	affinity, err := tree.Ensure(spec, "affinity", at)
	if err != nil {
		return err
	}
	at = at.Child("affinity")
	nodeAffinity, err := tree.Ensure(affinity, "nodeAffinity", at)
	if err != nil {
		return err
	}
	at = at.Child("nodeAffinity")
	required, err := tree.Object(nodeAffinity, requiredKey, at)
	if err != nil {
		return err
	}
	if required == nil {
		nodeAffinity[requiredKey] = map[string]any{termsKey: subset}
		return nil
	}
	own, err := templateTerms(required, at.Child(requiredKey))
	if err != nil {
		return err
	}
	if err := checkProduct(own, subset, at.Child(requiredKey, termsKey)); err != nil {
		return err
	}
	product := make([]any, 0, len(own)*len(subset))
	for _, a := range own {
		for _, b := range subset {
			product = append(product, intersectTerms(a, b.(map[string]any)))
		}
	}
	required[termsKey] = product
	return nil
}

// maxProduct bounds the JSON of the terms of a cross product: a larger child could not be stored. Its parent may be much
// smaller: a thousand terms on either side make a million, which would use up all memory.
const maxProduct = 1 << 20

// checkProduct rejects a product with too many, or too large terms, before it is computed. Each term of own is copied for
// each of subset, and vice versa.
func checkProduct(own []map[string]any, subset []any, at *field.Path) error {
	ours, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	theirs, err := json.Marshal(subset)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if size := len(ours)*len(subset) + len(theirs)*len(own); size > maxProduct {
		return field.Invalid(at, len(own), fmt.Sprintf("when these terms are ANDed with the %d terms of the subset's nodeSelector, the result has %d bytes, and at most %d are allowed: "+
			"use fewer terms, with more values in each", len(subset), size, maxProduct))
	}
	return nil
}

// subsetTerms returns the terms of a subset as JSON, without empty ones.
func subsetTerms(terms []corev1.NodeSelectorTerm) ([]any, error) {
	var out []any
	for i := range terms {
		term, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&terms[i])
		if err != nil {
			return nil, fmt.Errorf("node selector term: %w", err)
		}
		if !isEmptyTerm(term) {
			out = append(out, term)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the nodeSelector of the subset has no term that matches a node")
	}
	return out, nil
}

// templateTerms returns the terms of the template, without empty ones.
func templateTerms(required map[string]any, at *field.Path) ([]map[string]any, error) {
	list, err := tree.List(required, termsKey, at)
	if err != nil {
		return nil, err
	}
	at = at.Child(termsKey)
	if len(list) == 0 {
		return nil, field.Required(at, "must have at least one term")
	}
	var out []map[string]any
	for i, element := range list {
		term, ok := element.(map[string]any)
		if !ok && element != nil {
			return nil, field.TypeInvalid(at.Index(i), tree.Kind(element), "must be an object")
		}
		for _, key := range []string{expressionsKey, fieldsKey} {
			if _, err := tree.List(term, key, at.Index(i)); err != nil {
				return nil, err
			}
		}
		if !isEmptyTerm(term) {
			out = append(out, term)
		}
	}
	if len(out) == 0 {
		return nil, field.Invalid(at, list, "has only empty terms, which match no node")
	}
	return out, nil
}

// isEmptyTerm reports whether a term has no requirements. A term with fields that we do not know is not empty.
func isEmptyTerm(term map[string]any) bool {
	for _, value := range term {
		if list, isList := value.([]any); value != nil && (!isList || len(list) > 0) {
			return false
		}
	}
	return true
}

// intersectTerms returns a term that matches where a and b both match. It shares nothing with them, because each is part
// of several such terms.
func intersectTerms(a, b map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(a)
	for _, key := range []string{expressionsKey, fieldsKey} {
		mine, _ := out[key].([]any)
		theirs, _ := b[key].([]any)
		if all := slices.Concat(mine, runtime.DeepCopyJSONValue(theirs).([]any)); len(all) > 0 {
			out[key] = all
		}
	}
	return out
}

// appendTolerations appends the tolerations that the template does not have verbatim.
func appendTolerations(spec map[string]any, tolerations []corev1.Toleration, at *field.Path) error {
	if len(tolerations) == 0 {
		return nil
	}
	list, err := tree.List(spec, "tolerations", at)
	if err != nil {
		return err
	}
	known := make(map[toleration]bool, len(list)+len(tolerations))
	for _, element := range list {
		if t, ok := tolerationOf(element); ok {
			known[t] = true
		}
	}
	for i := range tolerations {
		added, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&tolerations[i])
		if err != nil {
			return fmt.Errorf("toleration: %w", err)
		}
		if t, _ := tolerationOf(added); !known[t] {
			known[t] = true
			list = append(list, added)
		}
	}
	spec["tolerations"] = list
	return nil
}

// toleration is a toleration as a map key, so that not each of thousands has to be compared with every other one. An
// absent field is nil.
type toleration struct{ key, operator, value, effect, seconds any }

// tolerationOf is not ok for a toleration with fields or values that our types do not have: it does not equal any of ours
// verbatim.
func tolerationOf(v any) (t toleration, ok bool) {
	m, _ := v.(map[string]any)
	fields := map[string]*any{"key": &t.key, "operator": &t.operator, "value": &t.value, "effect": &t.effect, "tolerationSeconds": &t.seconds}
	for name, value := range m {
		if fields[name] == nil || !tree.IsScalar(value) {
			return toleration{}, false
		}
		*fields[name] = value
	}
	return t, m != nil
}
