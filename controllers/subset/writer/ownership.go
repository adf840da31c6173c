// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
)

// fieldLocation is the location of a field: as text for users, and as a path in managedFields.
type fieldLocation struct {
	text string
	path fieldpath.Path
}

func (p fieldLocation) field(name string) fieldLocation {
	return fieldLocation{p.text + "." + name, append(p.path[:len(p.path):len(p.path)], fieldpath.PathElement{FieldName: &name})}
}

func (p fieldLocation) item(index int, element fieldpath.PathElement) fieldLocation {
	return fieldLocation{fmt.Sprintf("%s[%d]", p.text, index), append(p.path[:len(p.path):len(p.path)], element)}
}

// fieldAt returns the location of a field of the object.
func fieldAt(names ...string) fieldLocation {
	at := fieldLocation{}
	for _, name := range names {
		at = at.field(name)
	}
	at.text = strings.TrimPrefix(at.text, ".")
	return at
}

// annotationAt returns the location of an annotation of the object; none if key is empty.
func annotationAt(key string) fieldLocation {
	if key == "" {
		return fieldLocation{}
	}
	at := fieldAt("metadata", "annotations", key)
	at.text = fmt.Sprintf("metadata.annotations[%q]", key)
	return at
}

// labelAt returns the location of a label of the object.
func labelAt(key string) fieldLocation {
	at := fieldAt("metadata", "labels", key)
	at.text = fmt.Sprintf("metadata.labels[%q]", key)
	return at
}

// lost returns the location of a field that was applied and is no longer ours, because another manager changed or
// removed it; none if all fields are still ours.
//
// The API server removes the owner of a field when somebody else gives it another value, so a field that is still ours
// has the value that we gave it, in whatever form the server writes that ("1Gi" for "1024Mi"). A comparison of values
// cannot show that.
func lost(applied *unstructured.Unstructured, managed []metav1.ManagedFieldsEntry) (fieldLocation, error) {
	owned, err := ownedIn(managed)
	switch {
	case err != nil:
		return fieldLocation{}, fmt.Errorf("managedFields of %s: %w", applied.GetName(), err)
	case owned == nil:
		return fieldLocation{text: "everything"}, nil
	}
	at := lostIn(withoutIdentity(applied.Object), owned, fieldLocation{})
	at.text = strings.TrimPrefix(at.text, ".")
	return at, nil
}

// OwnerOf returns the field manager that owns a field, and the latest one if there are several; "" if only United owns
// it. subresource is "status" for a field of the status, "" for any other: replicas can also be set through the
// subresource scale.
func OwnerOf(at fieldpath.Path, managed []metav1.ManagedFieldsEntry, subresource string) (string, error) {
	var owner string
	var since metav1.Time
	for _, entry := range managed {
		ours := entry.Manager == v1alpha1.FieldManager
		if ours || (entry.Subresource == "status") != (subresource == "status") || entry.FieldsV1 == nil || len(at) == 0 {
			continue
		}
		owned := &fieldpath.Set{}
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return "", fmt.Errorf("managedFields of %s: %w", entry.Manager, err)
		}
		if ownsIn(owned, at) && (owner == "" || entry.Time != nil && !entry.Time.Before(&since)) {
			owner, since = entry.Manager, ptr.Deref(entry.Time, since)
		}
	}
	return owner, nil
}

// ownsIn reports whether a set has a field, or something inside of it. For an object that has only an atomic list, such
// as a node affinity, managedFields have only the list.
func ownsIn(owned *fieldpath.Set, at fieldpath.Path) bool {
	if owned.Has(at) {
		return true
	}
	for _, element := range at {
		inside, ok := owned.Children.Get(element)
		if !ok {
			return false
		}
		owned = inside
	}
	return !owned.Empty()
}

// ownedFields returns the fields of an object that are ours; nil if there are none.
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

// Taken returns the parts of a child that somebody else has changed or removed since United wrote it. partition is the
// path of its partition, nil if its kind has none.
func Taken(child metav1.Object, partition []string) (subset.Taken, error) {
	owned, err := ownedFields(child)
	if err != nil {
		return subset.Taken{}, err
	}
	annotations := takenAnnotations(child, owned)
	if len(annotations) == 0 || partition == nil {
		return subset.Taken{Annotations: annotations}, nil
	}
	ours := owned != nil && owned.Has(fieldAt(partition...).path)
	return subset.Taken{Annotations: annotations, Partition: !ours}, nil
}

// TakenAnnotations returns the annotations of the record that somebody else has removed or changed since United wrote
// the child, in a fixed order. It includes their checksum, unless that never existed: earlier versions did not write
// it.
func TakenAnnotations(meta metav1.Object) ([]string, error) {
	owned, err := ownedFields(meta)
	if err != nil {
		return nil, err
	}
	return takenAnnotations(meta, owned), nil
}

// takenAnnotations is TakenAnnotations for an object in which the owned fields are ours; nil if there are none.
func takenAnnotations(meta metav1.Object, owned *fieldpath.Set) []string {
	var taken []string
	for _, key := range adapters.RecordKeys() {
		if _, there := meta.GetAnnotations()[key]; !there || owned == nil || !owned.Has(fieldpath.MakePathOrDie("metadata", "annotations", key)) {
			taken = append(taken, key)
		}
	}
	sum := v1alpha1.AnnotationRecordChecksum
	_, there := meta.GetAnnotations()[sum]
	if ours := owned != nil && owned.Has(fieldpath.MakePathOrDie("metadata", "annotations", sum)); ours != there {
		taken = append(taken, sum)
	}
	return taken
}

// forged returns the location of an annotation that is not as it was written, if the checksum of the record does not
// match; none if it does. Admission changed the annotation when it was written: according to managedFields it is still
// ours.
func forged(u, current *unstructured.Unstructured) fieldLocation {
	if adapters.VerifyRecord(current.GetNamespace(), current.GetName(), current.GetAnnotations()) != adapters.Forged {
		return fieldLocation{}
	}
	wanted, has := u.GetAnnotations(), current.GetAnnotations()
	for _, key := range adapters.RecordKeys() {
		if wanted[key] != has[key] {
			return annotationAt(key)
		}
	}
	return annotationAt(v1alpha1.AnnotationRecordChecksum)
}

// withoutIdentity removes the fields that managedFields never list.
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

func lostIn(v any, owned *fieldpath.Set, at fieldLocation) fieldLocation {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) { // sorted, because the first difference is reported
			if found := lostMember(v[key], owned, fieldpath.PathElement{FieldName: &key}, at.field(key)); found.text != "" {
				return found
			}
		}
	case []any:
		items := newItems(owned)
		for i, item := range v {
			if found := lostItem(item, owned, items.like(item), at, i); found.text != "" {
				return found
			}
		}
	}
	return fieldLocation{}
}

// lostItem returns the location of an item that is lost: none of the elements that may be the item is completely ours.
func lostItem(item any, owned *fieldpath.Set, elements []fieldpath.PathElement, at fieldLocation, index int) fieldLocation {
	where := fieldLocation{fmt.Sprintf("%s[%d]", at.text, index), nil}
	for _, element := range elements {
		if where = lostMember(item, owned, element, at.item(index, element)); where.text == "" {
			break
		}
	}
	return where
}

func lostMember(v any, owned *fieldpath.Set, element fieldpath.PathElement, at fieldLocation) fieldLocation {
	if inside, ok := owned.Children.Get(element); ok {
		return lostIn(v, inside, at)
	}
	if owned.Members.Has(element) || empty(v) {
		return fieldLocation{} // it is ours as a whole, or has nothing that could be owned
	}
	return at
}

// empty reports whether v is a list without items. Trap: if its items would have a merge key, the API server does not
// list the field in managedFields at all.
func empty(v any) bool {
	list, isList := v.([]any)
	return isList && len(list) == 0
}
