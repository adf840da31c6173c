// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// lost gives the path of a field that was applied and is not ours any more,
// because another manager changed or removed it; "" when all is still ours.
//
// The API server takes a field from its owner when somebody else gives it
// another value, so what is still ours still has the value we gave it, however
// the server writes that ("1Gi" for "1024Mi"). Comparing values cannot tell.
func lost(applied *unstructured.Unstructured, managed []metav1.ManagedFieldsEntry) (string, error) {
	owned, err := ownedIn(managed)
	switch {
	case err != nil:
		return "", fmt.Errorf("managedFields of %s: %w", applied.GetName(), err)
	case owned == nil:
		return "everything", nil
	}
	return lostIn(withoutIdentity(applied.Object), owned, ""), nil
}

// ownedFields are the fields of an object that are ours; nil when nothing is.
func ownedFields(object metav1.Object) (*fieldpath.Set, error) {
	owned, err := ownedIn(object.GetManagedFields())
	if err != nil {
		return nil, fmt.Errorf("managedFields of %s: %w", object.GetName(), err)
	}
	return owned, nil
}

func ownedIn(managed []metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	for _, entry := range managed {
		if entry.Manager != v1alpha1.FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		owned := &fieldpath.Set{}
		err := owned.FromJSON(entry.FieldsV1.GetRawReader())
		return owned, err
	}
	return nil, nil //nolint:nilnil // nothing is ours
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
		items := newItems(owned)
		for i, item := range v {
			if path := lostItem(item, owned, items.like(item), fmt.Sprintf("%s[%d]", at, i)); path != "" {
				return path
			}
		}
	}
	return ""
}

// lostItem: an item is lost when none of the elements that it can be is ours whole.
func lostItem(item any, owned *fieldpath.Set, elements []fieldpath.PathElement, at string) string {
	where := at
	for _, element := range elements {
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
