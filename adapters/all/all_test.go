// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package all_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
)

// TestEveryTemplateIsPacked: the pod templates of every kind are packed in the cache.
func TestEveryTemplateIsPacked(t *testing.T) {
	for _, adapter := range all.Registry() {
		for _, steps := range adapter.PodTemplates() {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetGroupVersionKind(adapter.GroupVersionKind())
			if err := unstructured.SetNestedMap(u.Object, map[string]any{"spec": map[string]any{"hostname": "a"}}, steps...); err != nil {
				t.Fatal(err)
			}
			if err := adapters.Pack(u); err != nil {
				t.Fatal(err)
			}
			if part, _, _ := unstructured.NestedFieldNoCopy(u.Object, steps...); part != any(`{"spec":{"hostname":"a"}}`) {
				t.Errorf("%s, %v: %v", adapter.GroupVersionKind().Kind, steps, part)
			}
		}
	}
}
