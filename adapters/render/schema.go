// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns a template into what one subset gets: it merges the
// subset's patch and places the pods on the subset's nodes. It works on JSON
// trees and not on typed objects, so that fields newer than our types survive.
//
// Errors about the input are *field.Error; their paths start at the object that
// was passed in.
package render

import "k8s.io/apimachinery/pkg/util/strategicpatch"

// lenient is a patch schema for which no field is unknown: below a field that
// the types do not know, objects merge by field, lists are replaced whole and
// null deletes, as in a JSON merge patch. The stock schemas fail there with
// "unable to find api field".
type lenient struct {
	known strategicpatch.LookupPatchMeta // nil below an unknown field
}

var _ strategicpatch.LookupPatchMeta = lenient{}

// LookupPatchMetadataForStruct tells how the object at key is merged.
func (l lenient) LookupPatchMetadataForStruct(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if l.known == nil {
		return l, strategicpatch.PatchMeta{}, nil
	}
	return orUnknown(l.known.LookupPatchMetadataForStruct(key))
}

// LookupPatchMetadataForSlice tells how the list at key is merged.
func (l lenient) LookupPatchMetadataForSlice(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if l.known == nil {
		return l, strategicpatch.PatchMeta{}, nil
	}
	return orUnknown(l.known.LookupPatchMetadataForSlice(key))
}

// Name names the schema in errors of strategicpatch.
func (l lenient) Name() string {
	if l.known == nil {
		return "unknown"
	}
	return l.known.Name()
}

// orUnknown takes every error for an unknown field: a schema of types has no
// other cause, and its errors cannot be told apart.
func orUnknown(sub strategicpatch.LookupPatchMeta, meta strategicpatch.PatchMeta, err error) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if err != nil || sub == nil {
		return lenient{}, strategicpatch.PatchMeta{}, nil
	}
	return lenient{known: sub}, meta, nil
}
