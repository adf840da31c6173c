// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
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
	seen := object("u", "1", "f")
	for name, tc := range map[string]struct {
		child   *adapters.Child
		current *unstructured.Unstructured
		after   func(*Comparisons)
		want    bool
	}{
		"the same":           {c, seen, nil, true},
		"only its status is": {c, object("u", "2", "f"), nil, true},
		"another child":      {c, object("v", "1", "f"), nil, false},
		"is to be another":   {c, object("u", "1", "g"), nil, false},
		"of another parent":  {&adapters.Child{Namespace: "ns", Name: "web-a", Parent: "we"}, seen, nil, false},
		"the child is gone":  {c, seen, func(l *Comparisons) { l.forgetChild(seen) }, false},
		"the parent is gone": {c, seen, func(l *Comparisons) { l.Forget(types.NamespacedName{Namespace: "ns", Name: "web"}) }, false},
		"another parent is":  {c, seen, func(l *Comparisons) { l.Forget(types.NamespacedName{Namespace: "ns", Name: "other"}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			looks := &Comparisons{}
			if looks.nothingLost(c, seen, seen) {
				t.Error("knows what it has not seen")
			}
			looks.recordComparison(c, seen, seen, "", "")
			if tc.after != nil {
				tc.after(looks)
			}
			if have := looks.nothingLost(tc.child, tc.current, tc.current); have != tc.want {
				t.Error("have", have)
			}
		})
	}
	var none *Comparisons
	none.recordComparison(c, seen, seen, "", "")
	if none.forgetChild(seen); none.nothingLost(c, seen, seen) {
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
	parent := types.NamespacedName{Namespace: "ns", Name: "web"}
	child := func(version, annotation string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"namespace": "ns", "name": "web-a", "uid": "u", "resourceVersion": version, "annotations": map[string]any{"a": annotation},
		}}}
	}
	looks, c := &Comparisons{}, &adapters.Child{Namespace: "ns", Name: "web-a", Parent: "web"}
	if looks.Intact(parent, child("1", "x")) {
		t.Error("knows what it has not seen")
	}
	looks.recordComparison(c, child("1", "x"), child("1", "x"), "", "")
	for _, tc := range []struct {
		version, annotation string
		want                bool
	}{{"1", "x", true}, {"2", "x", true}, {"3", "y", false}, {"2", "x", true}, {"4", "x", true}, {"5", "y", false}, {"", "y", false}} {
		if looks.Intact(parent, child(tc.version, tc.annotation)) != tc.want {
			t.Errorf("version %q with %q: intact is not %t", tc.version, tc.annotation, tc.want)
		}
	}
	looks.recordWrite(c, child("6", "x"), "")
	if looks.Intact(parent, child("6", "x")) {
		t.Error("it was written, and not compared")
	}
}
