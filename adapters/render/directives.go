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

// CheckOutside rejects what acts in a patch on a part that makes pods from outside of that part: directives above or next
// to it, and a null in its place. A revision stores only those parts of a patch, so such a patch would change pods
// without a new revision.
func CheckOutside(patch map[string]any, revisionPaths [][]string) error {
	return checkOutside(patch, revisionPaths, nil)
}

// checkOutside walks v. revisionPaths are the remaining paths to those parts, nil if v is on none of them.
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

// pathsBelow returns the remaining paths of those that lead through key; ends: one of them ends there.
func pathsBelow(ways [][]string, key string) (rest [][]string, ends bool) {
	for _, way := range ways {
		if way[0] == key {
			rest = append(rest, way[1:])
			ends = ends || len(way) == 1
		}
	}
	return rest, ends
}

// checkSyntax rejects malformed directives anywhere in v. The stock merge ignores some of them, and panics on others.
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

// checkRetainKeys rejects elements that are not strings (some would panic as keys of a map), and fields that the patch sets
// but the list does not have.
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

// listOf returns the name of the list in a $setElementOrder or $deleteFromPrimitiveList directive; "" if it has none.
func listOf(key string) string {
	prefix, list, _ := strings.Cut(key, "/")
	if prefix != orderPrefix && prefix != deleteListPrefix {
		return ""
	}
	return list
}

// plain returns what a part v of a patch results in if there is nothing to merge it with: without directives and null
// fields. keep is false if v deletes the field.
//
// In this case, stock strategicpatch drops an object with `$patch: replace` and all its content, and keeps other
// directives, which the API server then rejects.
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

// plainList removes elements with $patch, which are instructions in a list.
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

// directiveOf returns the $patch directive of an object; "" if it has none.
func directiveOf(v any) string {
	m, _ := v.(map[string]any)
	directive, _ := m[patchDirective].(string)
	return directive
}
