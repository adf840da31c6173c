// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
)

// The directives of strategic merge patch.
const (
	patchDirective   = "$patch"
	retainDirective  = "$retainKeys"
	deleteListPrefix = "$deleteFromPrimitiveList"
	orderPrefix      = "$setElementOrder"

	patchReplace = "replace"
	patchDelete  = "delete"
)

func isDirective(key string) bool {
	return key == patchDirective || key == retainDirective ||
		strings.HasPrefix(key, deleteListPrefix) || strings.HasPrefix(key, orderPrefix)
}

// CheckOutside refuses, in a patch, what acts on a part that makes pods from outside of
// it: directives above or beside it, and a null in place of it. A revision
// stores only those parts of a patch, so such a patch would change pods
// without making a revision.
func CheckOutside(patch map[string]any, revisionPaths [][]string) error {
	return checkOutside(patch, revisionPaths, nil)
}

// checkOutside walks v; revisionPaths are what is left of the ways to those parts, nil
// when v is on none.
func checkOutside(v any, revisionPaths [][]string, at *field.Path) error {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range tree.Keys(v) {
			if isDirective(key) {
				return field.Forbidden(at.Child(key), "patch directives are supported only inside the pod template")
			}
			rest, ends := pathsBelow(revisionPaths, key)
			if len(rest) > 0 && v[key] == nil {
				return field.Forbidden(at.Child(key), "a patch must not delete the pod template")
			}
			if ends {
				if _, ok := v[key].(map[string]any); !ok {
					return field.TypeInvalid(at.Child(key), tree.Kind(v[key]), "must be an object")
				}
				continue
			}
			if err := checkOutside(v[key], rest, at.Child(key)); err != nil {
				return err
			}
		}
	case []any:
		for i, element := range v {
			if err := checkOutside(element, nil, at.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathsBelow is what is left of those paths that lead by key; ends: one of them ends there.
func pathsBelow(ways [][]string, key string) (rest [][]string, ends bool) {
	for _, way := range ways {
		if way[0] == key {
			rest = append(rest, way[1:])
			ends = ends || len(way) == 1
		}
	}
	return rest, ends
}

// checkSyntax refuses directives that are malformed, wherever they are in v.
// The stock merge ignores some of them, and panics on others.
func checkSyntax(v any, at *field.Path) error {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range tree.Keys(v) {
			err := checkSyntax(v[key], at.Child(key))
			if isDirective(key) {
				err = checkDirective(v, key, at.Child(key))
			}
			if err != nil {
				return err
			}
		}
	case []any:
		for i, element := range v {
			if err := checkSyntax(element, at.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkDirective(patch map[string]any, key string, at *field.Path) error {
	if key == patchDirective {
		if v := patch[key]; v != any(patchReplace) && v != any(patchDelete) {
			return field.NotSupported(at, v, []string{patchReplace, patchDelete})
		}
		return nil
	}
	list, ok := patch[key].([]any)
	if !ok {
		return field.TypeInvalid(at, tree.Kind(patch[key]), "must be a list")
	}
	if key == retainDirective {
		return checkRetainKeys(patch, list, at)
	}
	if of := listOf(key); of == "" {
		return field.Invalid(at, key, "must name a list, as in "+key+"/finalizers")
	}
	return nil
}

// checkRetainKeys refuses elements that are no strings (as keys of a map, some
// would panic) and fields that the patch sets but the list leaves out.
func checkRetainKeys(patch map[string]any, list []any, at *field.Path) error {
	for i, element := range list {
		if _, ok := element.(string); !ok {
			return field.TypeInvalid(at.Index(i), tree.Kind(element), "must be a string")
		}
	}
	retained := setOf("", list)
	for _, key := range tree.Keys(patch) {
		if patch[key] != nil && !isDirective(key) && !retained[key] {
			return field.Invalid(at, list, "must hold every field that the patch sets here; "+key+" is missing")
		}
	}
	return nil
}

// listOf is the name of the list that a $setElementOrder or
// $deleteFromPrimitiveList directive speaks of; "" when it names none.
func listOf(key string) string {
	prefix, list, _ := strings.Cut(key, "/")
	if prefix != orderPrefix && prefix != deleteListPrefix {
		return ""
	}
	return list
}

// plain is what v, a part of a patch, amounts to where there is nothing to merge
// it with: without directives and null fields. keep is false when v says that
// there shall be nothing.
//
// Stock strategicpatch drops an object with `$patch: replace` there, content and
// all, and leaves the other directives in for the API server to stumble over.
func plain(v any) (out any, keep bool) {
	switch v := v.(type) {
	case map[string]any:
		return plainObject(v), v[patchDirective] != any(patchDelete)
	case []any:
		return plainList(v), true
	default:
		return v, true
	}
}

func plainObject(v map[string]any) map[string]any {
	out := make(map[string]any, len(v))
	for key, child := range v {
		if child == nil || isDirective(key) {
			continue
		}
		if child, keep := plain(child); keep {
			out[key] = child
		}
	}
	return out
}

// plainList leaves out elements with $patch: in a list they are instructions.
func plainList(v []any) []any {
	out := make([]any, 0, len(v))
	for _, element := range v {
		if directiveOf(element) != "" {
			continue
		}
		element, _ := plain(element)
		out = append(out, element)
	}
	return out
}

// directiveOf is the $patch directive of an object; "" when there is none.
func directiveOf(v any) string {
	m, _ := v.(map[string]any)
	directive, _ := m[patchDirective].(string)
	return directive
}
