// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// lost gives the path of a field that was applied and is not ours any more,
// because another manager changed or removed it; "" when all is still ours.
//
// The API server takes a field from its owner when somebody else gives it
// another value, so what is still ours still has the value we gave it, however
// the server writes that ("1Gi" for "1024Mi"). Comparing values cannot tell.
func lost(applied *unstructured.Unstructured, managed []metav1.ManagedFieldsEntry) (string, error) {
	for _, entry := range managed {
		if entry.Manager != v1alpha1.FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		owned := &fieldpath.Set{}
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return "", fmt.Errorf("managedFields of %s: %w", applied.GetName(), err)
		}
		return lostIn(withoutIdentity(applied.Object), owned, ""), nil
	}
	return "everything", nil
}

// withoutIdentity drops what managedFields never list.
func withoutIdentity(object map[string]any) map[string]any {
	rest := make(map[string]any, len(object))
	for key, v := range object {
		switch meta, isMap := v.(map[string]any); {
		case key == "apiVersion" || key == "kind":
		case key == "metadata" && isMap:
			kept := make(map[string]any, len(meta))
			for k, m := range meta {
				if k != "name" && k != "namespace" && k != "uid" && k != "resourceVersion" {
					kept[k] = m
				}
			}
			rest[key] = kept
		default:
			rest[key] = v
		}
	}
	return rest
}

func lostIn(v any, owned *fieldpath.Set, at string) string {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			if path := lostMember(member, owned, fieldpath.PathElement{FieldName: &key}, at+"."+key); path != "" {
				return path
			}
		}
	case []any:
		for i, item := range v {
			if path := lostItem(item, owned, fmt.Sprintf("%s[%d]", at, i)); path != "" {
				return path
			}
		}
	}
	return ""
}

// lostItem: an item is lost when no element that it can be is ours whole.
func lostItem(item any, owned *fieldpath.Set, at string) string {
	where := at
	for _, element := range elementsOf(item, owned) {
		if where = lostMember(item, owned, element, at); where == "" {
			break
		}
	}
	return where
}

func lostMember(v any, owned *fieldpath.Set, element fieldpath.PathElement, at string) string {
	if inside, ok := owned.Children.Get(element); ok {
		return lostIn(v, inside, at)
	}
	if owned.Members.Has(element) || empty(v) {
		return "" // owned whole, or nothing that could be owned
	}
	return at
}

// empty tells whether v is a list without items. Trap: when its items would have
// a merge key, the API server lists nothing of it.
func empty(v any) bool {
	list, isList := v.([]any)
	return isList && len(list) == 0
}

// elementsOf finds a list item among the owned elements: by its merge key, or by
// its value in a set. The server may have defaulted a part of the key, such as
// the protocol of a port, so what the item does not have counts as equal, and there
// may be several that it can be.
func elementsOf(item any, owned *fieldpath.Set) []fieldpath.PathElement {
	var found []fieldpath.PathElement
	match := func(pe fieldpath.PathElement) {
		switch {
		case pe.Key != nil:
			fields, isMap := item.(map[string]any)
			if isMap && keyMatches(*pe.Key, fields) {
				found = append(found, pe)
			}
		case pe.Value != nil:
			if value.Equals(*pe.Value, value.NewValueInterface(item)) {
				found = append(found, pe)
			}
		}
	}
	owned.Members.Iterate(match)
	owned.Children.Iterate(match)
	return found
}

func keyMatches(key value.FieldList, item map[string]any) bool {
	for _, f := range key {
		have, ok := item[f.Name]
		if ok && !value.Equals(f.Value, value.NewValueInterface(have)) {
			return false
		}
	}
	return true
}
