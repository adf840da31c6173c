// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// items finds a list item among the owned elements of its list: by its merge key, or by its value in a set. The server
// may have defaulted a part of the key, such as the protocol of a port, so fields that the item does not have count as
// equal, and several elements may match.
//
// A list can have thousands of items, so they are not compared with every element: elements are looked up by those
// fields of the key that the item has.
type items struct {
	kinds []*keyKind
}

// keyKind has the elements whose keys have the same fields; normally these are all elements of a list.
type keyKind struct {
	fields   []string // nil for the elements of a set
	elements []fieldpath.PathElement
	// by the names of the fields that an item has, and then by their values.
	index map[string]map[string][]fieldpath.PathElement
}

// NewItems returns the items of a list of which fields are owned.
func NewItems(owned *fieldpath.Set) *items {
	all, byFields := &items{}, map[string]*keyKind{}
	add := func(element fieldpath.PathElement) {
		var fields []string
		switch {
		case element.Key != nil:
			for _, f := range *element.Key {
				fields = append(fields, f.Name)
			}
		case element.Value == nil:
			return
		}
		kind := byFields[strings.Join(fields, "\n")]
		if kind == nil {
			kind = &keyKind{fields: fields, index: map[string]map[string][]fieldpath.PathElement{}}
			byFields[strings.Join(fields, "\n")] = kind
			all.kinds = append(all.kinds, kind)
		}
		kind.elements = append(kind.elements, element)
	}
	owned.Members.Iterate(add)
	owned.Children.Iterate(add)
	return all
}

// Like returns the elements that may be the item.
func (i *items) Like(item any) []fieldpath.PathElement {
	var found []fieldpath.PathElement
	for _, kind := range i.kinds {
		found = append(found, kind.like(item)...)
	}
	return found
}

func (k *keyKind) like(item any) []fieldpath.PathElement {
	if k.fields == nil {
		return matching(k.lookUp(nil)[textOf(value.NewValueInterface(item))], func(e fieldpath.PathElement) bool {
			return value.Equals(*e.Value, value.NewValueInterface(item))
		})
	}
	object, isMap := item.(map[string]any)
	if !isMap {
		return nil
	}
	var has []string
	var text strings.Builder
	for _, name := range k.fields {
		if v, ok := object[name]; ok {
			has = append(has, name)
			text.WriteString(textOf(value.NewValueInterface(v)))
		}
	}
	return matching(k.lookUp(has)[text.String()], func(e fieldpath.PathElement) bool { return KeyMatches(*e.Key, object) })
}

// lookUp returns the elements by the values of the given fields of their key. The index is created once for each
// selection of fields that items have; a key has one or two fields.
func (k *keyKind) lookUp(has []string) map[string][]fieldpath.PathElement {
	selection := strings.Join(has, "\n")
	if made, ok := k.index[selection]; ok {
		return made
	}
	index := make(map[string][]fieldpath.PathElement, len(k.elements))
	for _, element := range k.elements {
		text := ""
		if element.Key == nil {
			text = textOf(*element.Value)
		} else {
			text = keyText(*element.Key, has)
		}
		index[text] = append(index[text], element)
	}
	k.index[selection] = index
	return index
}

// keyText returns the values of the given fields of a key; has is in the order of the key.
func keyText(key value.FieldList, has []string) string {
	var text strings.Builder
	for _, f := range key {
		if len(has) > 0 && f.Name == has[0] {
			text.WriteString(textOf(f.Value))
			has = has[1:]
		}
	}
	return text.String()
}

// textOf returns the same text for equal values. Different values may share it, so elements that are found by it must
// be compared.
func textOf(v value.Value) string {
	switch {
	case v.IsString():
		return strconv.Itoa(len(v.AsString())) + ":" + v.AsString()
	case v.IsInt():
		return "n" + strconv.FormatFloat(float64(v.AsInt()), 'g', -1, 64) + ";"
	case v.IsFloat():
		return "n" + strconv.FormatFloat(v.AsFloat()+0, 'g', -1, 64) + ";" // -0 equals 0
	case v.IsBool():
		return strconv.FormatBool(v.AsBool()) + ";"
	}
	return "?;" // keys and sets consist of scalars
}

func matching(elements []fieldpath.PathElement, same func(fieldpath.PathElement) bool) []fieldpath.PathElement {
	var found []fieldpath.PathElement
	for _, element := range elements {
		if same(element) {
			found = append(found, element)
		}
	}
	return found
}

// KeyMatches reports whether an item of a list has a key.
func KeyMatches(key value.FieldList, item map[string]any) bool {
	for _, f := range key {
		have, ok := item[f.Name]
		if ok && !value.Equals(f.Value, value.NewValueInterface(have)) {
			return false
		}
	}
	return true
}
