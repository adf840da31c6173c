// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
)

func countOf(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += countOf(member)
		}
	case []any:
		for _, item := range v {
			n += countOf(item)
		}
	}
	return n
}

// TestValues: the values are those that decoding finds.
func TestValues(t *testing.T) {
	scalar := rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](1.5), rapid.Map(rapid.SampledFrom([]string{"", "a,b", `"`, `\`, `\"`, "{[", "]},", "x: y"}), func(s string) any { return s }))
	value := scalar
	for range 3 {
		inner := value
		value = rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(inner, 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b,", `c"`, "d{", `\`}), inner, 0, 4), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		compact, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		spaced, err := json.MarshalIndent(v, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range [][]byte{compact, spaced} {
			if got := values(raw); got != countOf(v) {
				t.Errorf("%s has %d values, not %d", raw, countOf(v), got)
			}
		}
	})
}

func TestCheckSize(t *testing.T) {
	at := field.NewPath("spec", "template", "statefulSetTemplate")
	list := func(n int) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: []byte(`{"x":[` + strings.TrimSuffix(strings.Repeat("0,", n), ",") + `]}`)}
	}
	if n, err := CheckSize(list(MaxValues-2), at); err != nil || n != MaxValues {
		t.Error(n, err)
	}
	const want = "spec.template.statefulSetTemplate: Invalid value: has 50001 values (objects, lists, and what is in them), and must have at most 50000"
	if _, err := CheckSize(list(MaxValues-1), at); err == nil || err.Error() != want {
		t.Error(err)
	}
	if n, err := CheckSize(nil, at); n != 0 || err != nil {
		t.Error(n, err)
	}
}
