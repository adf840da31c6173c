// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns a template into that of one subset: it merges the subset's patch and assigns the pods to the
// subset's nodes. It works on JSON trees and not on typed objects, so fields that are newer than our types are kept.
//
// Errors about the input are *field.Error, with paths relative to the object that was passed in.
package render

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// lenient is a patch schema that accepts unknown fields: below a field that the types do not have, objects merge by
// field, lists are replaced as a whole, and null deletes, as in a JSON merge patch. The stock schemas fail there with
// "unable to find api field".
type lenient struct {
	known strategicpatch.LookupPatchMeta // nil below an unknown field
}

// object returns the schema of the object at key; replaced: the object is not merged.
func (l lenient) object(key string) (sub lenient, replaced bool) {
	if l.known == nil {
		return lenient{}, false
	}
	known, meta, err := l.known.LookupPatchMetadataForStruct(key)
	return orUnknown(known, err), err == nil && slices.Contains(meta.GetPatchStrategies(), "replace")
}

// list reports whether the list at key is merged: by mergeKey, or if that is empty, as a set of scalars.
func (l lenient) list(key string) (sub lenient, mergeKey string, merges bool) {
	if l.known == nil {
		return lenient{}, "", false
	}
	known, meta, err := l.known.LookupPatchMetadataForSlice(key)
	if sub = orUnknown(known, err); sub.known == nil {
		return sub, "", false
	}
	return sub, meta.GetPatchMergeKey(), slices.Contains(meta.GetPatchStrategies(), "merge")
}

// orUnknown treats every error as an unknown field: a schema of types has no other errors, and they have no type.
func orUnknown(known strategicpatch.LookupPatchMeta, err error) lenient {
	if err != nil {
		return lenient{}
	}
	return lenient{known: known}
}
