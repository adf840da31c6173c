// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownership reads managedFields: which fields of an object are ours, and which somebody else has taken.
package ownership

import (
	"bytes"
	"encoding/json"
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

// Location is the location of a field: as text for users, and as a path in managedFields.
type Location struct {
	Text string
	Path fieldpath.Path
}

func (p Location) field(name string) Location {
	return Location{p.Text + "." + name, append(p.Path[:len(p.Path):len(p.Path)], fieldpath.PathElement{FieldName: &name})}
}

func (p Location) item(index int, element fieldpath.PathElement) Location {
	return Location{fmt.Sprintf("%s[%d]", p.Text, index), append(p.Path[:len(p.Path):len(p.Path)], element)}
}

// FieldAt returns the location of a field, label or annotation of the object.
func FieldAt(names ...string) Location {
	at := Location{}
	for _, name := range names {
		at = at.field(name)
	}
	at.Text = strings.TrimPrefix(at.Text, ".")
	if len(names) == 3 && names[0] == "metadata" { // the keys have dots
		at.Text = fmt.Sprintf("metadata.%s[%q]", names[1], names[2])
	}
	return at
}

// AnnotationAt returns the location of an annotation of the object; none if key is empty.
func AnnotationAt(key string) Location {
	if key == "" {
		return Location{}
	}
	return FieldAt("metadata", "annotations", key)
}

// LabelAt returns the location of a label of the object.
func LabelAt(key string) Location { return FieldAt("metadata", "labels", key) }

// Lost returns the location of a field that was applied and is no longer ours, because another manager changed or
// removed it; none if all fields are still ours.
//
// The API server removes the owner of a field when somebody else gives it another value, so a field that is still ours
// has the value that we gave it, in whatever form the server writes that ("1Gi" for "1024Mi"). A comparison of values
// cannot show that.
func Lost(applied *unstructured.Unstructured, managed []metav1.ManagedFieldsEntry) (Location, error) {
	owned, err := OwnedIn(managed)
	switch {
	case err != nil:
		return Location{}, fmt.Errorf("managedFields of %s: %w", applied.GetName(), err)
	case owned == nil:
		return Location{Text: "everything"}, nil
	}
	at := lostIn(WithoutIdentity(applied.Object), owned, Location{})
	at.Text = strings.TrimPrefix(at.Text, ".")
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
		owned, err := fieldsOf(&entry)
		if err != nil {
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
	owned, err := OwnedIn(object.GetManagedFields())
	if err != nil {
		return nil, fmt.Errorf("managedFields of %s: %w", object.GetName(), err)
	}
	return owned, nil
}

// OwnedIn returns the fields that are ours according to managedFields; nil if there are none.
func OwnedIn(managed []metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	for _, entry := range managed {
		if entry.Manager != v1alpha1.FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		return fieldsOf(&entry)
	}
	return nil, nil //nolint:nilnil // nothing is ours
}

// fieldsOf returns the fields of an entry, which may be compact (Compact).
func fieldsOf(entry *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	raw := entry.FieldsV1.GetRawBytes()
	if bytes.HasPrefix(raw, []byte{'"'}) {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		raw = []byte(text)
	}
	owned := &fieldpath.Set{}
	err := owned.FromJSON(bytes.NewReader(raw))
	return owned, err
}

// Compact makes the managedFields of a child small, which are most of it in memory: a field takes hundreds of bytes as a map,
// and a few as text. The fields of the status that others write are left out. fieldsOf reads both forms.
func Compact(child *unstructured.Unstructured) error {
	metadata, _ := child.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	var kept []any
	for _, entry := range entries {
		e, ok := entry.(map[string]any)
		if !ok || e["subresource"] == "status" && e["manager"] != v1alpha1.FieldManager {
			continue
		}
		if fields, isMap := e["fieldsV1"].(map[string]any); isMap {
			text, err := json.Marshal(fields)
			if err != nil {
				return fmt.Errorf("managedFields of %s: %w", child.GetName(), err)
			}
			e["fieldsV1"] = string(text)
		}
		kept = append(kept, e)
	}
	if len(entries) > 0 {
		metadata["managedFields"] = kept
	}
	return nil
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
	ours := owned != nil && owned.Has(FieldAt(partition...).Path)
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

// Forged returns the location of an annotation that is not as it was written, if the checksum of the record does not
// match; none if it does. Admission changed the annotation when it was written: according to managedFields it is still
// ours.
func Forged(u, current *unstructured.Unstructured) Location {
	if adapters.VerifyRecord(current.GetNamespace(), current.GetName(), current.GetAnnotations()) != adapters.Forged {
		return Location{}
	}
	wanted, has := u.GetAnnotations(), current.GetAnnotations()
	for _, key := range adapters.RecordKeys() {
		if wanted[key] != has[key] {
			return AnnotationAt(key)
		}
	}
	return AnnotationAt(v1alpha1.AnnotationRecordChecksum)
}

// WithoutIdentity removes the fields that managedFields never list.
func WithoutIdentity(object map[string]any) map[string]any {
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

func lostIn(v any, owned *fieldpath.Set, at Location) Location {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) { // sorted, because the first difference is reported
			if found := lostMember(v[key], owned, fieldpath.PathElement{FieldName: &key}, at.field(key)); found.Text != "" {
				return found
			}
		}
	case []any:
		items := NewItems(owned)
		for i, item := range v {
			if found := lostItem(item, owned, items.Like(item), at, i); found.Text != "" {
				return found
			}
		}
	}
	return Location{}
}

// lostItem returns the location of an item that is lost: none of the elements that may be the item is completely ours.
func lostItem(item any, owned *fieldpath.Set, elements []fieldpath.PathElement, at Location, index int) Location {
	where := Location{fmt.Sprintf("%s[%d]", at.Text, index), nil}
	for _, element := range elements {
		if where = lostMember(item, owned, element, at.item(index, element)); where.Text == "" {
			break
		}
	}
	return where
}

func lostMember(v any, owned *fieldpath.Set, element fieldpath.PathElement, at Location) Location {
	if inside, ok := owned.Children.Get(element); ok {
		return lostIn(v, inside, at)
	}
	if owned.Members.Has(element) || empty(v) {
		return Location{} // it is ours as a whole, or has nothing that could be owned
	}
	return at
}

// empty reports whether v is a list without items. Trap: if its items would have a merge key, the API server does not
// list the field in managedFields at all.
func empty(v any) bool {
	list, isList := v.([]any)
	return isList && len(list) == 0
}

// FieldName returns the path of a field as text, such as "spec.replicas"; "" for the object itself.
func FieldName(path fieldpath.Path) string { return strings.TrimPrefix(path.String(), ".") }
