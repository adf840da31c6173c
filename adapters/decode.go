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

// Decode reads a template or a patch, with numbers as int64 or float64. What is
// absent, empty or null is an empty object; anything else that is no object is
// an error that names at, and so is a quantity that takes seconds to read.
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

// RevisionData returns what of a template, or of a patch, makes pods; nil when it has none of
// that. It is what lies at the one path of the kind; of a kind that has several it is a
// workload with nothing but what lies at those. What is returned is shared with workload.
// The error names the field, from workload on, that is not an object.
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

// PodTemplatesInRevision are the paths of the pod templates in what RevisionData gives: of a kind
// with one revision path, that is what is below it.
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

// withRevisionData is workload with part, as RevisionData gave it, in place of what makes its pods;
// with nothing there when part is nil. It shares all else with workload and part. An error
// names the field, from at on, that is not an object.
func withRevisionData(a Adapter, workload, part map[string]any, at *field.Path) (map[string]any, error) {
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

// withPart is workload with part at steps, or with nothing there when part is nil. An
// error names a step that is not an object.
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
