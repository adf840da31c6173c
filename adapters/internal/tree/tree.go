// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tree walks JSON as encoding/json decodes it into any, and reports values of the wrong type. A null equals
// an absent field.
//
// Every at is the path of the object that is passed, and not that of the field. If it is nil, paths start at that
// object.
package tree

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object returns the object m[key]; nil if it is absent or null.
func Object(m map[string]any, key string, at *field.Path) (map[string]any, error) {
	v, ok := m[key]
	if !ok || v == nil {
		return nil, nil
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, field.TypeInvalid(at.Child(key), Kind(v), "must be an object")
	}
	return o, nil
}

// Ensure returns the object m[key], and creates an empty one if it is absent or null.
func Ensure(m map[string]any, key string, at *field.Path) (map[string]any, error) {
	o, err := Object(m, key, at)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = map[string]any{}
		m[key] = o
	}
	return o, nil
}

// List returns the list m[key]; nil if it is absent or null.
func List(m map[string]any, key string, at *field.Path) ([]any, error) {
	v, ok := m[key]
	if !ok || v == nil {
		return nil, nil
	}
	l, ok := v.([]any)
	if !ok {
		return nil, field.TypeInvalid(at.Child(key), Kind(v), "must be a list")
	}
	return l, nil
}

// Strings returns the object m[key], whose values must be strings, as a new map without values that are null.
func Strings(m map[string]any, key string, at *field.Path) (map[string]string, error) {
	o, err := Object(m, key, at)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(o))
	for _, k := range Keys(o) {
		switch v := o[k].(type) {
		case nil:
		case string:
			out[k] = v
		default:
			return nil, field.TypeInvalid(at.Child(key).Key(k), Kind(v), "must be a string")
		}
	}
	return out, nil
}

// Lookup follows steps through objects. It returns nil if one of them is absent or null.
func Lookup(m map[string]any, steps []string, at *field.Path) (map[string]any, error) {
	for _, step := range steps {
		next, err := Object(m, step, at)
		if err != nil || next == nil {
			return nil, err
		}
		m, at = next, at.Child(step)
	}
	return m, nil
}

// DropNulls removes null fields from every object in v. It keeps nulls in lists, because removing them would move
// other elements.
func DropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if child == nil {
				delete(v, k)
				continue
			}
			DropNulls(child)
		}
	case []any:
		for _, child := range v {
			DropNulls(child)
		}
	}
}

// Keys returns the keys of m sorted, so that the same one of several errors is always found first: its text is copied
// to a status.
func Keys(m map[string]any) []string {
	return slices.Sorted(maps.Keys(m))
}

// Kind names the JSON type of v.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case int64, float64:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return fmt.Sprintf("%T", v)
	}
}

// IsScalar reports whether v is a string, a number or a boolean.
func IsScalar(v any) bool {
	switch v.(type) {
	case nil, []any, map[string]any:
		return false
	default:
		return true
	}
}
