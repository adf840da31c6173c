// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
)

// Decode reads a template or a patch, with numbers as int64 or float64. What is
// absent, empty or null is an empty object; anything else that is no object is
// an error that names at.
func Decode(raw *runtime.RawExtension, at *field.Path) (map[string]any, error) {
	if raw == nil || (len(raw.Raw) == 0 && raw.Object == nil) {
		return map[string]any{}, nil
	}
	data, err := raw.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	default:
		return nil, field.TypeInvalid(at, tree.Kind(v), "must be an object")
	}
}

// PodPart returns the part of a template, or of a patch, that makes pods; nil
// when it has none. What is returned is shared with workload. The error names
// the field, from workload on, that is not an object.
func PodPart(a Adapter, workload map[string]any) (map[string]any, error) {
	return tree.Lookup(workload, a.PodPart(), nil)
}
