// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// A lookup finds the same elements as a comparison of the item with each owned element.
func TestItemsAreThoseThatMatch(t *testing.T) {
	scalar := rapid.SampledFrom([]any{"", "a", "1", "1:a", int64(0), int64(1), 1.0, 1.5, int64(1 << 60), float64(1 << 60), int64(1<<60 + 1), true, false, nil})
	names := rapid.SampledFrom([]string{"name", "port", "protocol"})
	rapid.Check(t, func(t *rapid.T) {
		owned := &fieldpath.Set{}
		for range rapid.IntRange(0, 12).Draw(t, "owned") {
			element := fieldpath.PathElement{}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				v := value.NewValueInterface(scalar.Draw(t, "value"))
				element.Value = &v
			case 1:
				name := names.Draw(t, "field")
				element.FieldName = &name
			default:
				key := value.FieldList{}
				for name, v := range rapid.MapOfN(names, scalar, 1, 3).Draw(t, "key") {
					key = append(key, value.Field{Name: name, Value: value.NewValueInterface(v)})
				}
				key.Sort()
				element.Key = &key
			}
			if rapid.Bool().Draw(t, "child") {
				owned.Children.Descend(element)
			} else {
				owned.Members.Insert(element)
			}
		}
		item := scalar.Draw(t, "scalar item")
		if rapid.Bool().Draw(t, "object") {
			object := map[string]any{}
			for name, v := range rapid.MapOfN(names, scalar, 0, 3).Draw(t, "item") {
				object[name] = v
			}
			item = object
		}
		var want []string
		compare := func(e fieldpath.PathElement) {
			object, isMap := item.(map[string]any)
			if e.Key != nil && isMap && KeyMatches(*e.Key, object) || e.Value != nil && value.Equals(*e.Value, value.NewValueInterface(item)) {
				want = append(want, e.String())
			}
		}
		owned.Members.Iterate(compare)
		owned.Children.Iterate(compare)
		var have []string
		for _, e := range NewItems(owned).Like(item) {
			have = append(have, e.String())
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(want, have) {
			t.Fatalf("item %v: want %v, have %v", item, want, have)
		}
	})
}

// withVariables returns a child with n environment variables, and its managedFields if everything is as it was applied.
func withVariables(n int) (*unstructured.Unstructured, metav1.ManagedFieldsEntry) {
	env, fields := make([]any, n), map[string]any{}
	for i := range env {
		name := fmt.Sprintf("E%07d", i)
		env[i] = map[string]any{"name": name, "value": "v"}
		fields[fmt.Sprintf(`k:{"name":%q}`, name)] = map[string]any{".": map[string]any{}, "f:name": map[string]any{}, "f:value": map[string]any{}}
	}
	raw, err := json.Marshal(map[string]any{"f:spec": map[string]any{"f:env": fields}})
	if err != nil {
		panic(err)
	}
	entry := metav1.ManagedFieldsEntry{Manager: "united", Operation: "Apply", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))}
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"env": env}}}, entry
}

// This takes minutes if each item is compared with each owned element. It does not matter that an object cannot hold
// that many items.
func TestLostIsLinear(t *testing.T) {
	child, entry := withVariables(100_000)
	if at, err := Lost(child, []metav1.ManagedFieldsEntry{entry}); at.Text != "" || err != nil {
		t.Error("lost", at.Text, err)
	}
	env := child.Object["spec"].(map[string]any)["env"].([]any)
	env[99_999].(map[string]any)["valueFrom"] = "x"
	if at, err := Lost(child, []metav1.ManagedFieldsEntry{entry}); at.Text != "spec.env[99999].valueFrom" || err != nil {
		t.Error("lost", at.Text, err)
	}
}

func BenchmarkLost(b *testing.B) {
	for _, n := range []int{1000, 2000, 4000} {
		child, entry := withVariables(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Lost(child, []metav1.ManagedFieldsEntry{entry})
			}
		})
	}
}
