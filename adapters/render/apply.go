// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"sort"
)

// apply is the strategic merge of k8s.io/apimachinery (strategicpatch, mergeMap and its callees), step by step, for a
// patch that prepareObject has prepared. The stock merge looks for each element of a list in the whole list, also to find
// the order of elements that the patch does not change: with thousands of environment variables, a patch of one takes
// seconds. Here, elements are found by key. A test compares the two.
//
// apply modifies base and patch.
func apply(schema lenient, base, patch map[string]any) map[string]any {
	switch directiveOf(patch) {
	case patchReplace:
		delete(patch, patchDirective)
		return patch
	case patchDelete:
		return map[string]any{}
	}
	retainKeys(base, patch)
	applyOrdered(schema, base, patch)
	for key, value := range patch {
		if name := listOf(key); name != "" {
			if list, ok := base[name].([]any); ok {
				base[name] = without(list, value.([]any))
			}
			continue
		}
		if value == nil {
			delete(base, key)
			continue
		}
		base[key] = applyValue(schema, key, base[key], value)
	}
	return base
}

// applyValue returns the new value of the field key, whose current value is old.
func applyValue(schema lenient, key string, old, value any) any {
	switch value := value.(type) {
	case map[string]any:
		if old, ok := old.(map[string]any); ok {
			if sub, replaced := schema.object(key); !replaced {
				return apply(sub, old, value)
			}
		}
	case []any:
		if old, ok := old.([]any); ok {
			if sub, mergeKey, merges := schema.list(key); merges {
				return applyList(sub, mergeKey, old, value)
			}
		}
	}
	return value
}

// retainKeys removes from base the fields that the patch's directive does not list.
func retainKeys(base, patch map[string]any) {
	list, ok := patch[retainDirective].([]any)
	if !ok {
		return
	}
	delete(patch, retainDirective)
	retained := setOf("", list)
	for key := range base {
		if !retained[key] {
			delete(base, key)
		}
	}
}

// applyOrdered merges the lists for which the patch has an order, and removes them from the patch.
func applyOrdered(schema lenient, base, patch map[string]any) {
	for key, value := range patch {
		name := listOf(key)
		if name == "" || key != orderPrefix+"/"+name {
			continue
		}
		delete(patch, key)
		old, ok := base[name].([]any)
		if !ok {
			continue // removed by $retainKeys; prepareDirective has checked it
		}
		sub, mergeKey, _ := schema.list(name)
		merged := old
		if list, ok := patch[name].([]any); ok {
			merged = applyList(sub, mergeKey, old, list)
		}
		base[name] = sortLike(mergeKey, merged, value.([]any), old)
		delete(patch, name)
	}
}

// applyList merges by mergeKey, or if that is empty, as sets of scalars.
func applyList(schema lenient, mergeKey string, base, patch []any) []any {
	if len(base)+len(patch) == 0 {
		return base
	}
	if mergeKey == "" {
		return sortLike(mergeKey, union(base, patch), patch, base)
	}
	base, patch = applyDirectives(mergeKey, base, patch)
	return sortLike(mergeKey, applyElements(schema, mergeKey, base, patch), patch, base)
}

// applyDirectives executes the directives among the elements of a patch, and removes them. Trap: it deletes in place, as
// the stock merge does. Elements that are appended later then overwrite deleted ones, and applyOrdered, which uses the
// previous list, finds them there.
func applyDirectives(mergeKey string, base, patch []any) (baseLeft, patchLeft []any) {
	deleted := map[any]bool{}
	replaced, rest := false, make([]any, 0, len(patch))
	for _, element := range patch {
		switch directiveOf(element) {
		case patchReplace:
			replaced = true
		case patchDelete:
			deleted[keyOf(mergeKey, element)] = true
		default:
			rest = append(rest, element)
		}
	}
	if len(deleted) > 0 {
		base = slices.DeleteFunc(base, func(v any) bool { return deleted[keyOf(mergeKey, v)] })
	}
	if replaced {
		return rest, nil
	}
	return base, rest
}

// applyElements merges the elements of a patch into those of base with the same key, and appends the others.
func applyElements(schema lenient, mergeKey string, base, patch []any) []any {
	if len(patch) == 0 {
		return base
	}
	at := indexOf(mergeKey, base)
	for _, element := range patch {
		key := keyOf(mergeKey, element)
		if i, ok := at[key]; ok {
			base[i] = apply(schema, base[i].(map[string]any), element.(map[string]any))
		} else {
			at[key] = len(base)
			base = append(base, element)
		}
	}
	return base
}

// without returns list without the elements of a set.
func without(list, set []any) []any {
	drop, left := setOf("", set), make([]any, 0, len(list))
	for _, v := range list {
		if !drop[v] {
			left = append(left, v)
		}
	}
	return left
}

// union has every element of both sets once. Trap: with an empty patch, the stock merge moves the last element to the
// place of a duplicate, and uses the result as the order of base. So this does the same, in place. It compares each pair,
// and checkScalars bounds the size.
func union(base, patch []any) []any {
	if len(patch) > 0 {
		seen, both := make(map[any]bool, len(base)+len(patch)), make([]any, 0, len(base)+len(patch))
		for _, v := range slices.Concat(base, patch) {
			if !seen[v] {
				seen[v], both = true, append(both, v)
			}
		}
		return both
	}
	if len(setOf("", base)) == len(base) {
		return base
	}
	for i := 0; i < len(base); i++ {
		for j := i + 1; j < len(base); {
			if base[i] != base[j] {
				j++
				continue
			}
			last := len(base) - 1
			base[j] = base[last]
			base = base[:last]
		}
	}
	return base
}

// sortLike sorts a merged list: elements of first in the order of first, the others in the order of base, and both
// relative to each other as in base.
func sortLike(mergeKey string, merged, first, base []any) []any {
	named := setOf(mergeKey, first)
	patched, rest := make([]any, 0, len(first)), make([]any, 0, len(merged))
	for _, element := range merged {
		if named[keyOf(mergeKey, element)] {
			patched = append(patched, element)
		} else {
			rest = append(rest, element)
		}
	}
	at := indexOf(mergeKey, base)
	sortBy(mergeKey, patched, indexOf(mergeKey, first))
	sortBy(mergeKey, rest, at)
	out := make([]any, 0, len(merged))
	for len(rest) > 0 && len(patched) > 0 {
		i, found := at[keyOf(mergeKey, rest[0])]
		j, foundBoth := at[keyOf(mergeKey, patched[0])]
		if found && foundBoth && i < j {
			out, rest = append(out, rest[0]), rest[1:]
		} else {
			out, patched = append(out, patched[0]), patched[1:]
		}
	}
	return append(append(out, rest...), patched...)
}

// sortBy sorts a list by the index of its keys. Trap: a missing key compares as less than everything, which is not a
// consistent order. The result depends on the sorting algorithm, so this must use the same one as the stock merge.
func sortBy(mergeKey string, list []any, at map[any]int) {
	sort.SliceStable(list, func(i, j int) bool {
		if a, ok := at[keyOf(mergeKey, list[i])]; ok {
			if b, ok := at[keyOf(mergeKey, list[j])]; ok {
				return a < b
			}
		}
		return true
	})
}

// keyOf returns what identifies an element of a list: its merge key, or the element itself.
func keyOf(mergeKey string, element any) any {
	if m, ok := element.(map[string]any); ok && mergeKey != "" {
		return m[mergeKey]
	}
	return element
}

// indexOf returns the index of the first element with each key.
func indexOf(mergeKey string, list []any) map[any]int {
	at := make(map[any]int, len(list))
	for i, element := range list {
		key := keyOf(mergeKey, element)
		if _, known := at[key]; !known {
			at[key] = i
		}
	}
	return at
}

func setOf(mergeKey string, list []any) map[any]bool {
	set := make(map[any]bool, len(list))
	for _, element := range list {
		set[keyOf(mergeKey, element)] = true
	}
	return set
}
