// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCompact: a compact child says the same of who owns what, and what others write into its status is left out.
func TestCompact(t *testing.T) {
	const raw = `{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web-a", "managedFields": [
		{"manager": "united", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
			"fieldsV1": {"f:metadata": {"f:annotations": {"f:x": {}}}, "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}}}}}}}},
		{"manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-02T00:00:00Z", "fieldsType": "FieldsV1",
			"fieldsV1": {"f:spec": {"f:updateStrategy": {"f:rollingUpdate": {"f:partition": {}}}}}},
		{"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:replicas": {}}}},
		{"manager": "united", "operation": "Update", "subresource": "status", "apiVersion": "apps/v1", "time": "2026-01-03T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:currentRevision": {}}}}
	]}}`
	read := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(raw), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	whole, compact := read(), read()
	for range 2 { // again changes nothing
		if err := Compact(compact); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(compact.GetManagedFields()); got != 3 {
		t.Error(got, "entries")
	}
	before, err := OwnedIn(whole.GetManagedFields())
	if err != nil {
		t.Fatal(err)
	}
	after, err := OwnedIn(compact.GetManagedFields())
	if err != nil || after == nil || !before.Equals(after) || before.Empty() {
		t.Error("ours:", before, after, err)
	}
	for _, path := range [][]string{{"spec", "updateStrategy", "rollingUpdate", "partition"}, {"spec", "replicas"}} {
		was, err := OwnerOf(FieldAt(path...).Path, whole.GetManagedFields(), "")
		if err != nil {
			t.Fatal(err)
		}
		is, err := OwnerOf(FieldAt(path...).Path, compact.GetManagedFields(), "")
		if err != nil || was != is || (was == "kubectl") != (path[1] == "updateStrategy") {
			t.Errorf("%v: %q, %q, %v", path, was, is, err)
		}
	}
	if err := Compact(&unstructured.Unstructured{Object: map[string]any{}}); err != nil {
		t.Error("nothing to compact:", err)
	}
}
