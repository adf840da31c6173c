// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/internal/tree"
)

// Decode decodes a template or a patch, with numbers as int64 or float64. If it is absent, empty or null, the result
// is an empty object; any other value that is not an object is an error that names at, and so is a quantity that
// takes seconds to parse.
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
		if err := checkQuantities(v, at, false); err != nil {
			return nil, err
		}
		return v, nil
	default:
		return nil, field.TypeInvalid(at, tree.Kind(v), "must be an object")
	}
}

// RevisionData returns the parts of a template or patch that make pods; nil if it has none. If the kind has one such
// path, this is what is at that path; if it has several, this is a workload with only those parts. The result shares
// data with workload. An error names the field in workload that is not an object.
func RevisionData(a Adapter, workload map[string]any) (map[string]any, error) {
	paths := a.RevisionPaths()
	if len(paths) == 1 {
		return tree.Lookup(workload, paths[0], nil)
	}
	var all map[string]any
	for _, steps := range paths {
		part, err := tree.Lookup(workload, steps, nil)
		if err != nil {
			return nil, err
		}
		if part == nil {
			continue
		}
		if all, err = withPart(all, steps, part, nil); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// PodTemplatesInRevision returns the paths of the pod templates in the result of RevisionData. If the kind has one
// revision path, they are relative to it.
func PodTemplatesInRevision(a Adapter) [][]string {
	templates := a.PodTemplates()
	paths := a.RevisionPaths()
	if len(paths) != 1 {
		return templates
	}
	below := make([][]string, 0, len(templates))
	for _, template := range templates {
		if rest := len(paths[0]); len(template) >= rest && slices.Equal(template[:rest], paths[0]) {
			below = append(below, template[rest:])
		}
	}
	return below
}

// WithRevisionData returns workload with part, a result of RevisionData, in place of what makes its pods, or without
// that if part is nil. The result shares data with workload and part. An error names the field, relative to at, that
// is not an object.
func WithRevisionData(a Adapter, workload, part map[string]any, at *field.Path) (map[string]any, error) {
	paths := a.RevisionPaths()
	if len(paths) == 1 {
		return withPart(workload, paths[0], part, at)
	}
	for _, steps := range paths {
		own, err := tree.Lookup(part, steps, nil)
		if err != nil {
			return nil, err
		}
		if workload, err = withPart(workload, steps, own, at); err != nil {
			return nil, err
		}
	}
	return workload, nil
}

// withPart returns workload with part at steps, or without anything there if part is nil. An error names a step that
// is not an object.
func withPart(workload map[string]any, steps []string, part map[string]any, at *field.Path) (map[string]any, error) {
	out := maps.Clone(workload)
	if out == nil {
		out = map[string]any{}
	}
	step := steps[0]
	if len(steps) == 1 {
		if delete(out, step); part != nil {
			out[step] = part
		}
		return out, nil
	}
	next, err := tree.Object(out, step, at)
	if err != nil || next == nil && part == nil {
		return out, err
	}
	out[step], err = withPart(next, steps[1:], part, at.Child(step))
	return out, err
}
