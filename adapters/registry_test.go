// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// renamed is the StatefulSet adapter with another member, which is always set.
type renamed struct{ adapters.Adapter }

func (renamed) TemplateField(*v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "otherTemplate", &runtime.RawExtension{}
}

func TestRegistry(t *testing.T) {
	set := &v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{}}
	one := adapters.Registry{statefulset.New()}
	two := adapters.Registry{statefulset.New(), renamed{statefulset.New()}}

	a, err := one.For(set)
	if err != nil {
		t.Fatal(err)
	}
	if want := (schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}); a.GroupVersionKind() != want {
		t.Error(a.GroupVersionKind())
	}
	for _, tc := range []struct {
		registry adapters.Registry
		template *v1alpha1.WorkloadTemplate
		want     string
	}{
		{one, &v1alpha1.WorkloadTemplate{}, "spec.template: Required value: exactly one template must be set: statefulSetTemplate"},
		{two, set, "spec.template: Forbidden: exactly one template may be set, not statefulSetTemplate and otherTemplate"},
		{nil, set, "spec.template: Required value"},
	} {
		if _, err := tc.registry.For(tc.template); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("want %s\nhave %v", tc.want, err)
		}
	}
}

func TestChildName(t *testing.T) {
	if got := adapters.ChildName("web", "zone-a"); got != "web-zone-a" {
		t.Error(got)
	}
}

func TestDecode(t *testing.T) {
	at := field.NewPath("spec", "template", "statefulSetTemplate")
	for _, tc := range []struct {
		name string
		raw  *runtime.RawExtension
		want map[string]any
	}{
		{"nil", nil, map[string]any{}},
		{"empty", &runtime.RawExtension{}, map[string]any{}},
		{"null", &runtime.RawExtension{Raw: []byte("null")}, map[string]any{}},
		{"numbers", &runtime.RawExtension{Raw: []byte(`{"a":1,"b":1.5,"c":9007199254740993}`)}, map[string]any{"a": int64(1), "b": 1.5, "c": int64(9007199254740993)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := adapters.Decode(tc.raw, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, raw := range []string{"[]", "5", `"x"`, "{", "{} {}"} {
		if _, err := adapters.Decode(&runtime.RawExtension{Raw: []byte(raw)}, at); err == nil || !strings.HasPrefix(err.Error(), at.String()+": ") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestRevisionData(t *testing.T) {
	a := statefulset.New()
	for text, want := range map[string]map[string]any{
		"{}":                       nil,
		"spec: null":               nil,
		"spec: {template: null}":   nil,
		"spec: {template: {}}":     {},
		"spec: {template: {a: b}}": {"a": "b"},
	} {
		got, err := adapters.RevisionData(a, object(t, text))
		if err != nil {
			t.Fatal(text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(text, diff)
		}
	}
	for text, want := range map[string]string{
		"spec: []":              "spec: Invalid value: \"array\": must be an object",
		"spec: {template: [x]}": "spec.template: Invalid value: \"array\": must be an object",
	} {
		if _, err := adapters.RevisionData(a, object(t, text)); err == nil || err.Error() != want {
			t.Errorf("want %s\nhave %v", want, err)
		}
	}
	if _, err := adapters.RevisionData(a, nil); err != nil {
		t.Error(err)
	}
}
