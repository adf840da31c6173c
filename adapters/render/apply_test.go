// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"pgregory.net/rapid"
)

// stock lets the merge of k8s.io/apimachinery use lenient as its schema.
type stock struct{ lenient }

func (s stock) Name() string { return "stock" }

func (s stock) LookupPatchMetadataForStruct(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	sub, replaced := s.object(key)
	meta := strategicpatch.PatchMeta{}
	if replaced {
		meta.SetPatchStrategies([]string{"replace"})
	}
	return stock{sub}, meta, nil
}

func (s stock) LookupPatchMetadataForSlice(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	sub, mergeKey, merges := s.list(key)
	meta := strategicpatch.PatchMeta{}
	if merges {
		meta.SetPatchStrategies([]string{"merge"})
		meta.SetPatchMergeKey(mergeKey)
	}
	return stock{sub}, meta, nil
}

// tangled generates an object whose lists are merged by key, or as sets, nested in lists of the same kind. It has few
// keys, so that most occur in both objects, and more than once in the base.
func tangled(t *rapid.T, depth int, patch bool) map[string]any {
	out := map[string]any{}
	names := rapid.SampledFrom([]any{"a", "b", "c", "d", "e", "f", int64(1), 1.5, true})
	fields := []string{"containers", "volumes"}
	if depth < 2 {
		fields = []string{"env", "ports", "volumeMounts"}
	}
	keys := map[string]string{"containers": "name", "volumes": "name", "env": "name", "ports": "containerPort", "volumeMounts": "mountPath"}
	for _, name := range fields {
		if !rapid.Bool().Draw(t, name) {
			continue
		}
		var list []any
		for range rapid.IntRange(0, 6).Draw(t, "elements") {
			element := map[string]any{}
			if depth > 0 {
				element = tangled(t, depth-1, patch)
			}
			element[keys[name]] = names.Draw(t, "key")
			element["is"] = int64(rapid.IntRange(0, 99).Draw(t, "is"))
			if patch {
				switch rapid.IntRange(0, 9).Draw(t, "directive") {
				case 0, 1, 2:
					element["$patch"] = "delete"
				case 3:
					if rapid.Bool().Draw(t, "replace") {
						element["$patch"] = "replace"
					}
				}
			}
			list = append(list, element)
		}
		out[name] = append([]any{}, list...)
		if patch && rapid.Bool().Draw(t, "order") {
			out["$setElementOrder/"+name] = orderFor(t, keys[name], list, names)
		}
	}
	if patch && depth > 0 && rapid.IntRange(0, 5).Draw(t, "retain") == 0 {
		retain := []any{"is", "name", "containerPort", "mountPath", "containers", "volumes", "env"}
		out["$retainKeys"] = retain
	}
	return out
}

// orderFor generates an order that mostly has the patch's own elements, in their order, and others among them.
func orderFor(t *rapid.T, mergeKey string, list []any, names *rapid.Generator[any]) []any {
	order := []any{}
	for _, element := range list {
		for range rapid.IntRange(0, 2).Draw(t, "others") {
			order = append(order, map[string]any{mergeKey: names.Draw(t, "other")})
		}
		if m := element.(map[string]any); m["$patch"] == nil {
			order = append(order, map[string]any{mergeKey: m[mergeKey]})
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "no order") == 0 {
		return []any{}
	}
	return order
}

// sets generates metadata whose finalizers are merged as a set.
func sets(t *rapid.T, patch bool) map[string]any {
	values := rapid.SliceOfN(rapid.SampledFrom([]any{"a", "b", "c", "d", "e", "f"}), 0, 8)
	out := map[string]any{"finalizers": values.Draw(t, "finalizers")}
	if !patch {
		return out
	}
	if rapid.Bool().Draw(t, "order") {
		out["$setElementOrder/finalizers"] = append(values.Draw(t, "before"), out["finalizers"].([]any)...)
		if rapid.Bool().Draw(t, "delete") {
			out["$deleteFromPrimitiveList/finalizers"] = values.Draw(t, "deleted")
		}
	} else if rapid.Bool().Draw(t, "delete alone") {
		delete(out, "finalizers")
		out["$deleteFromPrimitiveList/finalizers"] = values.Draw(t, "deleted")
	}
	return out
}

// For all valid input, the result equals that of the stock merge, including the order of every list.
func TestApplyIsTheStockMerge(t *testing.T) {
	known, err := strategicpatch.NewPatchMetaFromStruct(appsv1.StatefulSet{})
	if err != nil {
		t.Fatal(err)
	}
	compared, refused := 0, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		object := func(patch bool) map[string]any {
			return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": sets(t, patch), "spec": tangled(t, 2, patch)}}}
		}
		base, patch := object(false), object(true)
		got, want, err := bothMerges(lenient{known: known}, base, patch)
		if err != nil {
			refused[err.Error()[max(0, len(err.Error())-60):]]++
			return
		}
		compared++
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal("want -, have +\n", diff)
		}
	})
	t.Log("compared", compared, "refused", len(refused))
	if compared == 0 {
		t.Error("no case was compared", refused)
	}
}

// A long list in which many elements are deleted and come back: the stock merge then uses what remains in memory after
// the end of the list.
func TestApplyOrdersAsTheStockMerge(t *testing.T) {
	known, err := strategicpatch.NewPatchMetaFromStruct(appsv1.StatefulSet{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		const most = 40
		names := rapid.SampledFrom(entries(most, ""))
		list := func(directives []any) []any {
			var out []any
			for range rapid.IntRange(1, most).Draw(t, "elements") {
				element := copyObject(names.Draw(t, "element").(map[string]any))
				if directive := rapid.SampledFrom(directives).Draw(t, "directive"); directive != nil {
					element["$patch"] = directive
				}
				out = append(out, element)
			}
			return out
		}
		base := list([]any{nil})
		patch := map[string]any{}
		var changes []any
		once := map[any]bool{}
		for _, element := range list([]any{nil, "delete", "delete"}) {
			m := element.(map[string]any)
			if key := [2]any{m["name"], m["$patch"]}; !once[key] {
				once[key], changes = true, append(changes, element)
			}
		}
		patch["env"] = changes
		if rapid.Bool().Draw(t, "order") {
			patch["$setElementOrder/env"] = orderFor(t, "name", changes, rapid.Map(names, func(v any) any { return v.(map[string]any)["name"] }))
		}
		within := func(container map[string]any) map[string]any {
			container["name"] = "app"
			return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{container}}}}}
		}
		got, want, err := bothMerges(lenient{known: known}, within(map[string]any{"env": base}), within(patch))
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal("want -, have +\n", diff)
		}
	})
}

// bothMerges returns the results of apply and of the stock merge for the same input; err means that the input cannot be
// merged.
func bothMerges(schema lenient, base, patch map[string]any) (got, want map[string]any, err error) {
	prepared := func() (map[string]any, map[string]any, error) {
		base, patch := copyObject(base), copyObject(patch)
		if err := checkSyntax(patch, nil); err != nil {
			return nil, nil, err
		}
		return base, patch, prepareObject(schema, base, patch, nil)
	}
	b, p, err := prepared()
	if err != nil {
		return nil, nil, err
	}
	got = apply(schema, b, p)
	b, p, err = prepared()
	if err != nil {
		return nil, nil, err
	}
	want, stockErr := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(b, p, stock{schema})
	if stockErr != nil {
		return got, map[string]any{"error": stockErr.Error()}, nil
	}
	return got, want, nil
}

// entries returns n elements of a list that is merged by name.
func entries(n int, value string) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = map[string]any{"name": fmt.Sprintf("E%07d", i), "value": value}
	}
	return out
}

// Each of these would take minutes if each element were compared with all others; here the number of elements makes no
// such difference.
func TestMergeIsLinear(t *testing.T) {
	known, err := strategicpatch.NewPatchMetaFromStruct(appsv1.StatefulSet{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	pods := func(spec map[string]any, metadata map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": metadata, "spec": spec}}}
	}
	container := func(fields map[string]any) map[string]any {
		fields["name"] = "app"
		return pods(map[string]any{"containers": []any{fields}}, map[string]any{})
	}
	many := func(n int) []any {
		var out []any
		for i := range n {
			out = append(out, fmt.Sprint("f", i))
		}
		return out
	}
	retained := map[string]any{}
	for _, name := range many(n) {
		retained[name.(string)] = true
	}
	retained["$retainKeys"] = many(n)
	deletes := entries(n, "new")
	for i := range deletes {
		deletes[i].(map[string]any)["$patch"] = "delete"
	}
	for name, c := range map[string]struct{ base, patch map[string]any }{
		"a few":    {container(map[string]any{"env": entries(n, "old")}), container(map[string]any{"env": entries(20, "new")})},
		"all":      {container(map[string]any{"env": entries(n, "old")}), container(map[string]any{"env": entries(n, "new")})},
		"others":   {container(map[string]any{"env": entries(n, "old")[n/2:]}), container(map[string]any{"env": entries(n/2, "new")})},
		"deleted":  {container(map[string]any{"env": entries(n, "old")}), container(map[string]any{"env": deletes})},
		"ordered":  {container(map[string]any{"env": entries(n, "old")}), container(map[string]any{"$setElementOrder/env": entries(n, "")})},
		"a set":    {pods(map[string]any{}, map[string]any{"finalizers": many(n)}), pods(map[string]any{}, map[string]any{"finalizers": many(n)})},
		"retained": {container(map[string]any{"future": map[string]any{"a": true}}), container(map[string]any{"future": retained})},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Merge(known, c.base, c.patch); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A set with duplicates is merged pair by pair, as the stock merge does.
func TestMergeBoundsRepeatedElements(t *testing.T) {
	known, err := strategicpatch.NewPatchMetaFromStruct(appsv1.StatefulSet{})
	if err != nil {
		t.Fatal(err)
	}
	finalizers := make([]any, maxRepeating+1)
	for i := range finalizers {
		finalizers[i] = fmt.Sprint("f", i/2)
	}
	base := map[string]any{"metadata": map[string]any{"finalizers": finalizers}}
	_, err = Merge(known, base, map[string]any{"metadata": map[string]any{"finalizers": []any{}}})
	if err == nil || err.Error() != "metadata.finalizers: Too many: 1001: must have at most 1000 items" {
		t.Error("have", err)
	}
}
