// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
)

// Merge applies a strategic merge patch to base: by merge key if schema has the list, and as a JSON merge patch below
// fields that schema does not have. It does not change its input. Both must be JSON with numbers as int64 or float64, as
// adapters.Decode returns it.
//
// The result is that of k8s.io/apimachinery, so order and directives work as with kubectl. Unlike theirs, Merge takes
// time linear in the size of the input (see apply.go), and where theirs panics (a null in a list, a merge key that is an
// object), it returns an error with the path in the patch.
func Merge(schema strategicpatch.LookupPatchMeta, base, patch map[string]any) (map[string]any, error) {
	if len(patch) == 0 {
		return copyObject(base), nil
	}
	base, patch = copyObject(base), copyObject(patch)
	if err := checkSyntax(patch, nil); err != nil {
		return nil, err
	}
	known := lenient{known: schema}
	if err := prepareObject(known, base, patch, nil); err != nil {
		return nil, err
	}
	return apply(known, base, patch), nil
}

func copyObject(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return runtime.DeepCopyJSON(m)
}

// prepareObject prepares patch for apply to base, or returns why it cannot be merged. It changes patch.
func prepareObject(schema lenient, base, patch map[string]any, at *field.Path) error {
	if directive := directiveOf(patch); directive != "" {
		flat := plainObject(patch)
		clear(patch)
		for key, value := range flat {
			patch[key] = value
		}
		patch[patchDirective] = directive
		return nil
	}
	for _, key := range tree.Keys(patch) {
		if err := prepareField(schema, base, patch, key, at); err != nil {
			return err
		}
	}
	return nil
}

func prepareField(schema lenient, base, patch map[string]any, key string, at *field.Path) error {
	if isDirective(key) {
		return prepareDirective(schema, base, patch, key, at)
	}
	at = at.Child(key)
	switch value := patch[key].(type) {
	case nil:
		return nil // deletes
	case map[string]any:
		if old, ok := base[key].(map[string]any); ok {
			sub, _ := schema.object(key)
			return prepareObject(sub, old, value, at)
		}
	case []any:
		if old, ok := base[key].([]any); ok {
			if sub, mergeKey, merges := schema.list(key); merges {
				return prepareList(sub, mergeKey, old, value, at)
			}
			if err := checkAtomic(value, at); err != nil {
				return err
			}
		}
	}
	if value, keep := plain(patch[key]); keep {
		patch[key] = value
	} else {
		patch[key] = nil
	}
	return nil
}

// checkAtomic rejects the deletion of one element of a list that is replaced as a whole, because that would delete all
// others.
func checkAtomic(patch []any, at *field.Path) error {
	for i, element := range patch {
		if directiveOf(element) == patchDelete {
			return field.Forbidden(at.Index(i).Child(patchDirective), "this list has no merge key and is replaced whole: list the elements to keep instead")
		}
	}
	return nil
}

// prepareList prepares a list that is merged by mergeKey, or if that is empty, as a set of scalars.
func prepareList(schema lenient, mergeKey string, base, patch []any, at *field.Path) error {
	if mergeKey == "" {
		return checkScalars(base, patch, at)
	}
	for i, element := range base {
		if directiveOf(element) != "" {
			return field.Forbidden(at.Index(i).Child(patchDirective), "must not be in the list of the template: patch directives are only for patches")
		}
	}
	if err := checkKeys(mergeKey, base, at, "the template's list"); err != nil {
		return err
	}
	if err := checkKeys(mergeKey, patch, at, "the patch"); err != nil {
		return err
	}
	replaced := slices.ContainsFunc(patch, func(v any) bool { return directiveOf(v) == patchReplace })
	found := findElements(mergeKey, base, patch)
	for i, element := range patch {
		if directiveOf(element) != "" {
			continue
		}
		element := element.(map[string]any)
		key := element[mergeKey]
		same, into := found[key], found[key].base
		if replaced || same.deleted {
			into = nil
		}
		if len(into) > 1 || (!replaced && same.patches > 1) {
			return field.Invalid(at.Index(i).Child(mergeKey), key, "must be unique in a list that a patch changes: the list is merged by "+mergeKey)
		}
		if len(into) == 0 {
			patch[i] = plainObject(element)
			continue
		}
		if err := prepareObject(schema, into[0], element, at.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// elements are the elements of two lists with the same merge key.
type elements struct {
	base []map[string]any
	// patches is how many elements of the patch are merged; deleted: one of them deletes.
	patches int
	deleted bool
}

// findElements returns the elements that a patch refers to, by merge key, in one pass over each list. checkKeys has
// checked both.
func findElements(mergeKey string, base, patch []any) map[any]*elements {
	found := make(map[any]*elements, len(patch))
	for _, element := range patch {
		m := element.(map[string]any)
		same := found[m[mergeKey]]
		if same == nil {
			same = &elements{}
			found[m[mergeKey]] = same
		}
		switch directiveOf(m) {
		case "":
			same.patches++
		case patchDelete:
			same.deleted = true
		}
	}
	for _, element := range base {
		m := element.(map[string]any)
		if same := found[m[mergeKey]]; same != nil {
			same.base = append(same.base, m)
		}
	}
	return found
}

// checkKeys checks that every element of a list is an object with a scalar merge key: keys are compared with ==, and used
// as map keys, which panics on other types.
func checkKeys(mergeKey string, list []any, at *field.Path, whose string) error {
	for i, element := range list {
		m, ok := element.(map[string]any)
		if !ok {
			return field.TypeInvalid(at.Index(i), tree.Kind(element), "must be an object in "+whose)
		}
		key, ok := m[mergeKey]
		if (!ok || key == nil) && directiveOf(element) == patchReplace {
			continue
		}
		if !tree.IsScalar(key) {
			return field.Required(at.Index(i).Child(mergeKey), "the list is merged by "+mergeKey+", and in "+whose+" it is "+tree.Kind(key))
		}
	}
	return nil
}

// maxRepeating bounds a set with duplicates: see union.
const maxRepeating = 1000

// checkScalars checks that a list is a set of scalars of one type.
func checkScalars(base, patch []any, at *field.Path) error {
	var kind reflect.Type
	for _, list := range [][]any{base, patch} {
		for i, element := range list {
			if !tree.IsScalar(element) {
				return field.TypeInvalid(at.Index(i), tree.Kind(element), "must be a string, a number or a boolean, in the template's list too")
			}
			if kind != nil && kind != reflect.TypeOf(element) {
				return field.TypeInvalid(at.Index(i), tree.Kind(element), "all elements, those of the template's list too, must be of one type")
			}
			kind = reflect.TypeOf(element)
		}
	}
	if len(patch) == 0 && len(base) > maxRepeating && len(setOf("", base)) < len(base) {
		return field.TooMany(at, len(base), maxRepeating)
	}
	return nil
}

// prepareDirective checks the directives that act on a list next to them.
func prepareDirective(schema lenient, base, patch map[string]any, key string, at *field.Path) error {
	name := listOf(key)
	if name == "" {
		return nil // checkSyntax has checked $patch and $retainKeys
	}
	_, mergeKey, merges := schema.list(name)
	if !merges {
		return field.Forbidden(at.Child(key), "the list "+name+" has no merge key and is replaced whole: list the elements to keep instead")
	}
	old, err := tree.List(base, name, at)
	if err != nil {
		return err
	}
	if old == nil {
		// There is nothing to order, or to delete from.
		delete(patch, key)
		return nil
	}
	list, _ := patch[key].([]any)
	if orderPrefix+"/"+name == key {
		return checkOrder(mergeKey, old, list, patch, name, at)
	}
	if mergeKey != "" {
		return field.Forbidden(at.Child(key), "the list "+name+" is not of scalars; use $patch: delete in an element")
	}
	if _, both := patch[name]; both && patch[orderPrefix+"/"+name] == nil {
		// kubectl's merge applies the two in random order.
		return field.Forbidden(at.Child(key), "cannot be combined with "+name+" unless "+orderPrefix+"/"+name+" says the order")
	}
	return checkScalars(old, list, at.Child(key))
}

// checkOrder checks a $setElementOrder directive.
func checkOrder(mergeKey string, base, order []any, patch map[string]any, name string, at *field.Path) error {
	list, err := tree.List(patch, name, at)
	if err != nil {
		return err
	}
	if _, present := patch[name]; present && list == nil {
		return field.TypeInvalid(at.Child(name), "null", "must be a list, because "+orderPrefix+"/"+name+" orders it")
	}
	if at = at.Child(orderPrefix + "/" + name); len(base)+len(list) == 0 {
		return field.Invalid(at, order, "there are no elements to order")
	}
	if mergeKey == "" {
		if err := checkScalars(slices.Concat(base, list), order, at); err != nil {
			return err
		}
		return checkSequence(mergeKey, list, order, at)
	}
	for _, l := range []struct {
		list  []any
		whose string
	}{{base, "the template's list"}, {list, "the patch"}, {order, "the directive"}} {
		if err := checkKeys(mergeKey, l.list, at, l.whose); err != nil {
			return err
		}
	}
	for i, element := range order {
		if element.(map[string]any)[mergeKey] == nil {
			return field.Required(at.Index(i).Child(mergeKey), "the list is ordered by it")
		}
	}
	return checkSequence(mergeKey, list, order, at)
}

// checkSequence checks that the patch lists its elements in the order that it requires. An instruction to replace the
// list must not come last: kubectl's merge rejects that.
func checkSequence(mergeKey string, list, order []any, at *field.Path) error {
	next := 0
	for _, v := range order {
		for next < len(list) && directiveOf(list[next]) != "" {
			next++
		}
		if next < len(list) && keyOf(mergeKey, list[next]) == keyOf(mergeKey, v) {
			next++
		}
	}
	for next < len(list) && directiveOf(list[next]) == patchDelete {
		next++
	}
	if next < len(list) && len(order) > 0 {
		return field.Invalid(at, keysOf(mergeKey, order), "must have the elements of the patch's list, in their order")
	}
	return nil
}

// keysOf returns the merge keys of the elements of a list, without instructions.
func keysOf(mergeKey string, list []any) []any {
	var out []any
	for _, element := range list {
		if directiveOf(element) == "" {
			out = append(out, keyOf(mergeKey, element))
		}
	}
	return out
}
