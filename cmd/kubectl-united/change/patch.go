// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package change makes the changes of a UnitedDeployment for which there is a command: what its spec is afterwards, and the JSON
// patch that makes it so. It is pure.
package change

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Operation is one operation of a JSON patch. A Value of nil is none.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Operations returns the patch that makes one spec the other: only what differs, in a fixed order.
func Operations(before, after *v1alpha1.UnitedDeployment) ([]Operation, error) {
	was, err := plain(before.Spec)
	if err != nil {
		return nil, err
	}
	is, err := plain(after.Spec)
	if err != nil {
		return nil, err
	}
	return differences("/spec", was, is), nil
}

// plain returns a value as maps and lists. Integers stay integers, which a float64 cannot hold beyond 53 bits.
func plain(v any) (out any, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the spec cannot be written as JSON: %w", err)
	}
	err = utiljson.Unmarshal(raw, &out)
	return out, err
}

func differences(at string, was, is any) (all []Operation) {
	switch was := was.(type) {
	case map[string]any:
		if is, ok := is.(map[string]any); ok {
			return fieldDifferences(at, was, is)
		}
	case []any:
		// Trap: with another length, the items may be others from the first one on. Then the list is replaced.
		if is, ok := is.([]any); ok && len(was) == len(is) {
			for i := range was {
				all = append(all, differences(fmt.Sprintf("%s/%d", at, i), was[i], is[i])...)
			}
			return all
		}
	}
	if reflect.DeepEqual(was, is) {
		return nil
	}
	return []Operation{{"replace", at, orNull(is)}}
}

func fieldDifferences(at string, was, is map[string]any) (all []Operation) {
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		here := at + "/" + Escaped(name)
		before, had := was[name]
		after, has := is[name]
		switch {
		case !has:
			all = append(all, Operation{Op: "remove", Path: here})
		case !had:
			all = append(all, Operation{"add", here, orNull(after)})
		default:
			all = append(all, differences(here, before, after)...)
		}
	}
	return all
}

// Escaped escapes the name of a field for a path.
func Escaped(name string) string { return pointer.Replace(name) }

// pointer escapes the name of a field in a path (RFC 6901).
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// orNull returns a null that is written, because nil is left out.
func orNull(v any) any {
	if v == nil {
		return json.RawMessage("null")
	}
	return v
}
