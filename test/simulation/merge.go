// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// disown removes a field from the ownership of the applied configuration.
func disown(u *unstructured.Unstructured, path ...any) error {
	entries := u.GetManagedFields()
	for i := range entries {
		owned := &fieldpath.Set{}
		if err := owned.FromJSON(entries[i].FieldsV1.GetRawReader()); err != nil {
			return err
		}
		raw, err := owned.Difference(fieldpath.NewSet(fieldpath.MakePathOrDie(path...))).ToJSON()
		if err != nil {
			return err
		}
		entries[i].FieldsV1 = metav1.NewFieldsV1(string(raw))
	}
	u.SetManagedFields(entries)
	return nil
}

// replacedStatus returns the status after a JSON patch that tests the UID and the whole status, just as our types encode
// it, and replaces the status: nearly all writes of the controller do. It reports false for any other patch. merge would
// do the same, but parse everything.
func replacedStatus(live *v1alpha1.UnitedDeployment, p client.Patch) (status v1alpha1.UnitedDeploymentStatus, ok bool, err error) {
	patch, err := p.Data(live)
	if err != nil {
		return status, false, err
	}
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		return status, false, err
	}
	uid, err := json.Marshal(live.UID)
	if err != nil {
		return status, false, err
	}
	before, err := json.Marshal(&live.Status)
	if err != nil {
		return status, false, err
	}
	is := func(i int, op, path string) bool { return operations[i].Op == op && operations[i].Path == path }
	if len(operations) != 3 || !is(0, "test", "/metadata/uid") || !is(1, "test", "/status") || !is(2, "add", "/status") ||
		!bytes.Equal(operations[0].Value, uid) || !bytes.Equal(operations[1].Value, before) {
		return status, false, nil
	}
	err = json.Unmarshal(operations[2].Value, &status)
	return status, true, err
}

// merge returns live, with fields that our types do not have, after a JSON patch or a JSON merge patch.
func merge(live client.Object, p client.Patch, foreign string, into any) error {
	before, err := json.Marshal(live)
	if err != nil {
		return err
	}
	if foreign != "" {
		if before, err = jsonpatch.MergePatch(before, []byte(foreign)); err != nil {
			return err
		}
	}
	patch, err := p.Data(live)
	if err != nil {
		return err
	}
	after, err := patched(before, patch, p.Type())
	if err != nil {
		return err
	}
	return json.Unmarshal(after, into)
}

func patched(before, patch []byte, kind types.PatchType) ([]byte, error) {
	if kind != types.JSONPatchType {
		return jsonpatch.MergePatch(before, patch)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(before)
}

// merged returns the object that the server stores after an apply.
func (a *API) merged(applied, live *unstructured.Unstructured) (stored *unstructured.Unstructured, changed bool, err error) {
	stored = applied.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion"} {
		unstructured.RemoveNestedField(stored.Object, "metadata", field)
	}
	metadata := maps.Clone(stored.Object["metadata"].(map[string]any))
	delete(metadata, "name")
	delete(metadata, "namespace")
	owned := &fieldpath.Set{}
	fieldpath.SetFromValue(value.NewValueInterface(map[string]any{"metadata": metadata, "spec": stored.Object["spec"]})).Iterate(func(path fieldpath.Path) {
		// A list whose items have no name is owned as a whole.
		if i := slices.IndexFunc(path, func(e fieldpath.PathElement) bool { return e.Index != nil }); i >= 0 {
			path = path[:i]
		}
		owned.Insert(path.Copy())
	})
	raw, err := owned.ToJSON()
	if err != nil {
		return nil, false, err
	}
	stored.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(string(raw)),
	}})
	if live == nil {
		stored.SetUID(types.UID(a.Next()))
		stored.SetGeneration(1)
		return stored, true, nil
	}
	stored.SetUID(live.GetUID())
	stored.SetGeneration(live.GetGeneration())
	if status, ok := live.Object["status"]; ok {
		stored.Object["status"] = status
	}
	if !equalJSON(stored.Object["spec"], live.Object["spec"]) {
		stored.SetGeneration(live.GetGeneration() + 1)
		return stored, true, nil
	}
	return stored, !equalJSON(stored.GetAnnotations(), live.GetAnnotations()) || !equalJSON(stored.GetLabels(), live.GetLabels()), nil
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func replicasIn(u *unstructured.Unstructured) int32 {
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	return int32(n)
}

func partitionIn(u *unstructured.Unstructured) int32 {
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	return int32(n)
}
