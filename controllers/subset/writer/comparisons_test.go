// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/memory"
)

// A child is compared again if somebody has written it, or its desired state has changed.
func TestComparisons(t *testing.T) {
	object := func(uid, version, fingerprint string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"namespace": "ns", "name": "web-a", "uid": uid, "resourceVersion": version,
			"labels":      map[string]any{"united.dev/name": "web"},
			"annotations": map[string]any{"united.dev/fingerprint": fingerprint},
		}}}
	}
	c := &adapters.Child{Namespace: "ns", Name: "web-a", Parent: "web", Subset: "a"}
	seen, web := object("u", "1", "f"), types.NamespacedName{Namespace: "ns", Name: "web"}
	for name, tc := range map[string]struct {
		current *unstructured.Unstructured
		after   func(*memory.Memory)
		want    bool
	}{
		"the same":           {seen, nil, true},
		"only its status is": {object("u", "2", "f"), nil, true},
		"another child":      {object("v", "1", "f"), nil, false},
		"is to be another":   {object("u", "1", "g"), nil, false},
		"the child is gone":  {seen, func(m *memory.Memory) { comparisonsOf(m.Of(web)).Delete(seen.GetName()) }, false},
		"the parent is gone": {seen, func(m *memory.Memory) { m.Forget(web) }, false},
		"another parent is":  {seen, func(m *memory.Memory) { m.Forget(types.NamespacedName{Namespace: "ns", Name: "other"}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory.Memory{}
			looks := comparisonsOf(m.Of(web))
			if looks.nothingLost(c, seen, seen) {
				t.Error("knows what it has not seen")
			}
			looks.recordComparison(c, seen, seen, "", "")
			if tc.after != nil {
				tc.after(m)
			}
			if have := looks.nothingLost(c, tc.current, tc.current); have != tc.want {
				t.Error("have", have)
			}
			if comparisonsOf(m.Of(types.NamespacedName{Namespace: "ns", Name: "we"})).nothingLost(c, tc.current, tc.current) {
				t.Error("another parent knows it")
			}
		})
	}
	var none comparisons
	none.recordComparison(c, seen, seen, "", "")
	if none.Delete(seen.GetName()); none.nothingLost(c, seen, seen) {
		t.Error("remembers without a memory")
	}
}

// TestContentKey: whatever somebody writes to a child makes another content, except its status.
func TestContentKey(t *testing.T) {
	entry := func(manager, subresource, at string) map[string]any {
		e := map[string]any{"manager": manager, "operation": "Apply", "time": at, "fieldsV1": map[string]any{"f:spec": map[string]any{}}}
		if subresource != "" {
			e["subresource"] = subresource
		}
		return e
	}
	child := func() map[string]any {
		return map[string]any{
			"resourceVersion": "1", "generation": int64(1), "labels": map[string]any{"a": "b"}, "annotations": map[string]any{"c": "d"},
			"ownerReferences": []any{map[string]any{"name": "web", "controller": true}},
			"managedFields":   []any{entry("united", "", "1"), entry("kube-controller-manager", "status", "1")},
		}
	}
	key := func(metadata map[string]any) string {
		return contentKeyOf(&unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "status": map[string]any{"replicas": int64(len(metadata))}}})
	}
	for name, tc := range map[string]struct {
		change func(map[string]any)
		same   bool
	}{
		"nothing": {func(map[string]any) {}, true},
		"its status": {func(m map[string]any) {
			m["resourceVersion"] = "2"
			m["managedFields"].([]any)[1] = entry("kube-controller-manager", "status", "2")
		}, true},
		"its spec":            {func(m map[string]any) { m["generation"] = int64(2) }, false},
		"a label":             {func(m map[string]any) { m["labels"] = map[string]any{} }, false},
		"an annotation":       {func(m map[string]any) { m["annotations"] = map[string]any{"c": "x"} }, false},
		"its owner":           {func(m map[string]any) { delete(m, "ownerReferences") }, false},
		"a finalizer":         {func(m map[string]any) { m["finalizers"] = []any{"x"} }, false},
		"it is being deleted": {func(m map[string]any) { m["deletionTimestamp"] = "now" }, false},
		"who owns a field":    {func(m map[string]any) { m["managedFields"].([]any)[0] = entry("united", "", "2") }, false},
		"somebody else does":  {func(m map[string]any) { m["managedFields"] = append(m["managedFields"].([]any), entry("x", "", "1")) }, false},
		"somebody has scaled it": {func(m map[string]any) {
			m["managedFields"] = append(m["managedFields"].([]any), entry("x", "scale", "1"))
		}, false},
	} {
		changed := child()
		if tc.change(changed); (key(child()) == key(changed)) != tc.same {
			t.Errorf("%s: the same content %t", name, !tc.same)
		}
	}
}

// TestIntact: a child in a later version is as it was written only if just its status has changed.
func TestIntact(t *testing.T) {
	child := func(version, annotation string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"namespace": "ns", "name": "web-a", "uid": "u", "resourceVersion": version, "annotations": map[string]any{"a": annotation},
		}}}
	}
	looks, c := comparisonsOf(newEntry()), &adapters.Child{Namespace: "ns", Name: "web-a", Parent: "web"}
	if looks.Intact(child("1", "x")) {
		t.Error("knows what it has not seen")
	}
	looks.recordComparison(c, child("1", "x"), child("1", "x"), "", "")
	for _, tc := range []struct {
		version, annotation string
		want                bool
	}{{"1", "x", true}, {"2", "x", true}, {"3", "y", false}, {"2", "x", true}, {"4", "x", true}, {"5", "y", false}, {"", "y", false}} {
		if looks.Intact(child(tc.version, tc.annotation)) != tc.want {
			t.Errorf("version %q with %q: intact is not %t", tc.version, tc.annotation, tc.want)
		}
	}
	looks.recordWrite(child("6", "x"), "")
	if looks.Intact(child("6", "x")) {
		t.Error("it was written, and not compared")
	}
}
