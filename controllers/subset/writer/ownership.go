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

// fieldLocation is where a field is: as text for people, and as managedFields have it.
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

// fieldAt is a field of the object.
func fieldAt(names ...string) fieldLocation {
	at := fieldLocation{}
	for _, name := range names {
		at = at.field(name)
	}
	at.text = strings.TrimPrefix(at.text, ".")
	return at
}

// annotationAt is an annotation of the object; nowhere without a name.
func annotationAt(key string) fieldLocation {
	if key == "" {
		return fieldLocation{}
	}
	at := fieldAt("metadata", "annotations", key)
	at.text = fmt.Sprintf("metadata.annotations[%q]", key)
	return at
}

// labelAt is a label of the object.
func labelAt(key string) fieldLocation {
	at := fieldAt("metadata", "labels", key)
	at.text = fmt.Sprintf("metadata.labels[%q]", key)
	return at
}

// lost gives the place of a field that was applied and is not ours any more,
// because another manager changed or removed it; none when all is still ours.
//
// The API server takes a field from its owner when somebody else gives it
// another value, so what is still ours still has the value we gave it, however
// the server writes that ("1Gi" for "1024Mi"). Comparing values cannot tell.
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

// OwnerOf is the field manager that has a field, and took it last when there are several;
// "" when none but United has it. subresource is "status" for a field of that, "" for any other:
// replicas are also set through the subresource scale.
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

// ownsIn reports whether a field is in a set, or something inside it. Of an object with nothing but an atomic list, such as
// a node affinity, managedFields name the list alone.
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

// Taken gives what of a child another has changed or removed since United wrote it. partition is the
// path of its partition, nil where its kind has none.
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

// TakenAnnotations gives those of the recorded annotations that another has removed or changed
// since United wrote the child, in a fixed order; and their checksum, unless it was never
// there: earlier versions wrote none.
func TakenAnnotations(meta metav1.Object) ([]string, error) {
	owned, err := ownedFields(meta)
	if err != nil {
		return nil, err
	}
	return takenAnnotations(meta, owned), nil
}

// takenAnnotations is TakenAnnotations of an object of which these fields are ours, nil if none.
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

// forged gives the place of an annotation that is not as it was written, where the
// checksum of the record does not match; none when it does. Admission has changed it as it
// was written: it is still ours by managedFields.
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

func lostIn(v any, owned *fieldpath.Set, at fieldLocation) fieldLocation {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) { // in order, since the first is told
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

// lostItem gives the place of an item that is lost, which it is when none of the elements
// that it can be is ours whole.
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
		return fieldLocation{} // owned whole, or nothing that could be owned
	}
	return at
}

// empty reports whether v is a list without items. Trap: when its items would have
// a merge key, the API server lists nothing of it.
func empty(v any) bool {
	list, isList := v.([]any)
	return isList && len(list) == 0
}
