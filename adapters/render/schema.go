// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns a template into what one subset gets: it merges the
// subset's patch and places the pods on the subset's nodes. It works on JSON
// trees and not on typed objects, so that fields newer than our types survive.
//
// Errors about the input are *field.Error; their paths start at the object that
// was passed in.
package render

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// lenient is a patch schema for which no field is unknown: below a field that
// the types do not know, objects merge by field, lists are replaced whole and
// null deletes, as in a JSON merge patch. The stock schemas fail there with
// "unable to find api field".
type lenient struct {
	known strategicpatch.LookupPatchMeta // nil below an unknown field
}

// object tells how the object at key is merged; replaced: not at all.
func (l lenient) object(key string) (sub lenient, replaced bool) {
	if l.known == nil {
		return lenient{}, false
	}
	known, meta, err := l.known.LookupPatchMetadataForStruct(key)
	return orUnknown(known, err), err == nil && slices.Contains(meta.GetPatchStrategies(), "replace")
}

// list reports whether the list at key is merged: by mergeKey, or, when that is empty, as
// a set of scalars.
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

// orUnknown takes every error for an unknown field: a schema of types has no
// other cause, and its errors cannot be told apart.
func orUnknown(known strategicpatch.LookupPatchMeta, err error) lenient {
	if err != nil {
		return lenient{}
	}
	return lenient{known: known}
}
