// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	kruisev1alpha1 "github.com/openkruise/kruise-api/apps/v1alpha1"
	kruisev1beta1 "github.com/openkruise/kruise-api/apps/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/unitedworkloads/united/adapters"
)

// strict decodes an object, and returns the fields that its type does not have, or that are there twice.
func strict(text []byte, into any, kind string) ([]Problem, error) {
	errs, err := json.UnmarshalStrict(text, into)
	if err != nil {
		return nil, err
	}
	var problems []Problem
	for _, err := range errs {
		p := Problem{Message: err.Error()}
		if at := json.FieldError(nil); errors.As(err, &at) {
			p.Field, p.Message = at.FieldPath(), "a "+kind+" has no such field"
			if strings.HasPrefix(err.Error(), "duplicate") {
				p.Message = "is there twice"
			}
		}
		problems = append(problems, p)
	}
	return problems, nil
}

// fatal is the problem of a value of a wrong type in a text.
func fatal(at string, err error, text []byte) Problem {
	wrong := (*stdjson.UnmarshalTypeError)(nil)
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return problemOf(at, trimmed(err))
	}
	return problemOf(strings.TrimPrefix(at+"."+indexed(text, wrong), "."), fmt.Sprintf("is a %s, and must be of type %s", wrong.Value, typeName(wrong.Type)))
}

// indexed returns the path of a value of a wrong type with the indexes of lists, which the decoder does not say: that of the first value
// of this type there.
func indexed(text []byte, wrong *stdjson.UnmarshalTypeError) string {
	object := any(nil)
	if stdjson.Unmarshal(text, &object) != nil {
		return wrong.Field
	}
	kind, _, _ := strings.Cut(wrong.Value, " ")
	if path, found := search(object, strings.Split(wrong.Field, "."), kind); found {
		return strings.TrimPrefix(path, ".")
	}
	return wrong.Field
}

// search finds a value of a kind at a path.
func search(v any, path []string, kind string) (at string, found bool) {
	if list, ok := v.([]any); ok && (len(path) > 0 || kind != "array") {
		for i := range list {
			if at, found = search(list[i], path, kind); found {
				return fmt.Sprintf("[%d]%s", i, at), true
			}
		}
		return "", false
	}
	if len(path) == 0 {
		return "", kindOf(v) == kind
	}
	object, _ := v.(map[string]any)
	next, there := object[path[0]]
	if at, found = search(next, path[1:], kind); !there || !found {
		return "", false
	}
	return "." + path[0] + at, true
}

// kindOf is what the decoder calls a value.
func kindOf(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// typeName is what the API server calls a type.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.Float32, reflect.Float64:
		return "number"
	}
	return "integer"
}

// workload returns the problems of a template, or of a patch, at a path. The directives of a strategic merge patch are no fields.
func workload(adapter adapters.Adapter, text []byte, at string) (problems []Problem) {
	into := typed(adapter.GroupVersionKind())
	if into == nil {
		return nil
	}
	if problems, text = quantities(text, at); text == nil {
		return problems
	}
	found, err := strict(text, into, adapter.GroupVersionKind().Kind)
	if err != nil {
		return append(problems, fatal(at, err, text))
	}
	for _, p := range found {
		if !strings.Contains("."+p.Field, ".$") {
			p.Field = at + "." + p.Field
			problems = append(problems, p)
		}
	}
	return problems
}

// quantities returns the requests and limits that are no quantities, and the text without them: an error of a decoder would name
// neither their field nor anything after them.
func quantities(text []byte, at string) ([]Problem, []byte) {
	var problems []Problem
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case []any:
			for i := range v {
				walk(v[i], fmt.Sprintf("%s[%d]", path, i))
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				value, isText := v[key].(string)
				if _, err := resource.ParseQuantity(value); isText && err != nil && (strings.HasSuffix(path, ".requests") || strings.HasSuffix(path, ".limits")) {
					problems = append(problems, problemOf(path+"."+key, fmt.Sprintf("%q is no quantity, such as 500m, 2 or 64Mi", value)))
					delete(v, key)
				}
				walk(v[key], path+"."+key)
			}
		}
	}
	object := any(nil)
	if err := stdjson.Unmarshal(text, &object); err != nil {
		return []Problem{fatal(at, err, text)}, nil
	}
	if walk(object, at); len(problems) == 0 {
		return nil, text
	}
	text, err := stdjson.Marshal(object)
	if err != nil {
		return append(problems, fatal(at, err, text)), nil
	}
	return problems, text
}

// typed returns an empty workload of a kind; nil if there is no type of it.
func typed(kind schema.GroupVersionKind) any {
	switch kind {
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		return &appsv1.StatefulSet{}
	case appsv1.SchemeGroupVersion.WithKind("Deployment"):
		return &appsv1.Deployment{}
	case kruisev1alpha1.SchemeGroupVersion.WithKind("CloneSet"):
		return &kruisev1alpha1.CloneSet{}
	case kruisev1beta1.SchemeGroupVersion.WithKind("StatefulSet"):
		return &kruisev1beta1.StatefulSet{}
	case lwsv1.GroupVersion.WithKind("LeaderWorkerSet"):
		return &lwsv1.LeaderWorkerSet{}
	}
	return nil
}
