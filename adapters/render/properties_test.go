// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters/internal/tree"
	"github.com/unitedworkloads/united/adapters/render"
)

// jsonTree generates JSON whose keys are fields of workloads, directives and unknown words, so that merges go deep.
func jsonTree(keys []string) *rapid.Generator[map[string]any] {
	key := rapid.SampledFrom(keys)
	leaf := rapid.SampledFrom([]any{nil, true, int64(1), int64(2), 1.5, "a", "b", "replace", "delete"})
	var value func(depth int) *rapid.Generator[any]
	object := func(depth int) *rapid.Generator[map[string]any] {
		fields := rapid.MapOfN(key, rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 4)
		return rapid.Map(fields, plausible)
	}
	value = func(depth int) *rapid.Generator[any] {
		if depth <= 0 {
			return leaf
		}
		return rapid.Custom(func(t *rapid.T) any {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				return leaf.Draw(t, "leaf")
			case 1:
				return rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 3).Draw(t, "list")
			case 2:
				// The elements are objects with a merge key, because lists of other types rarely merge.
				var list []any
				for range rapid.IntRange(0, 3).Draw(t, "elements") {
					element := object(depth-1).Draw(t, "element")
					element["name"] = rapid.SampledFrom([]any{"a", "b", "c"}).Draw(t, "name")
					list = append(list, element)
				}
				return append([]any{}, list...)
			default:
				return object(depth).Draw(t, "object")
			}
		})
	}
	// If generated from the root, few trees would reach a pod.
	return rapid.Custom(func(t *rapid.T) map[string]any {
		return map[string]any{
			"metadata": object(2).Draw(t, "metadata"),
			"spec": map[string]any{"template": map[string]any{
				"metadata": object(2).Draw(t, "pod metadata"),
				"spec":     object(4).Draw(t, "pod spec"),
			}},
		}
	})
}

// plausible gives most directives a valid value: with random values, nearly all would be rejected for their syntax.
func plausible(m map[string]any) map[string]any {
	for i, key := range tree.Keys(m) {
		if !strings.HasPrefix(key, "$") || m[key] == nil {
			continue // a null stays, as an odd value
		}
		switch {
		case key == "$patch":
			m[key] = []any{"replace", "delete"}[i%2]
		case key == "$retainKeys":
			var all []any
			for _, k := range tree.Keys(m) {
				all = append(all, k)
			}
			m[key] = all
		case strings.HasSuffix(key, "/finalizers"):
			m[key] = []any{"a", "b"}
		case strings.HasPrefix(key, "$setElementOrder/"):
			m[key] = []any{map[string]any{"name": "c"}, map[string]any{"name": "a"}, map[string]any{"name": "b"}}
		}
	}
	return m
}

func fieldKeys() []string {
	return []string{
		"labels", "finalizers", "name", "future",
		"containers", "containers", "volumes", "env", "ports", "containerPort", "tolerations", "emptyDir", "securityContext",
	}
}

func directiveKeys() []string {
	return []string{
		"$patch", "$retainKeys", "$setElementOrder/containers", "$setElementOrder/finalizers",
		"$deleteFromPrimitiveList/finalizers", "$setElementOrder", "$setElementOrder/volumes",
	}
}

// Without directives, the result equals that of stock strategicpatch, if that returns one.
func TestMergeIsStrategicPatch(t *testing.T) {
	schema := statefulSetSchema(t)
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		base, patch := jsonTree(fieldKeys()).Draw(t, "base"), jsonTree(fieldKeys()).Draw(t, "patch")
		got, err := render.Merge(schema, base, patch)
		if err != nil {
			return
		}
		want, ok := stockMerge(schema, base, patch)
		if !ok {
			return
		}
		compared++
		tree.DropNulls(got)
		tree.DropNulls(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal("want -, have +\n", diff)
		}
	})
	t.Log("compared", compared)
	if compared == 0 {
		t.Error("no case was compared")
	}
}

// stockMerge is not ok if the stock merge returns an error or panics.
func stockMerge(schema strategicpatch.LookupPatchMeta, base, patch map[string]any) (out map[string]any, ok bool) {
	defer func() {
		if recover() != nil {
			out, ok = nil, false
		}
	}()
	out, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(patch), schema)
	return out, err == nil
}

// No patch, with any directives, makes Merge panic, return different results, change its input, or leave a directive of
// the patch in the result.
func TestMergeProperties(t *testing.T) {
	schema := statefulSetSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		base := jsonTree(fieldKeys()).Draw(t, "base")
		patch := jsonTree(append(fieldKeys(), directiveKeys()...)).Draw(t, "patch")
		baseBefore, patchBefore := runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(patch)
		first, firstErr := render.Merge(schema, base, patch)
		again, againErr := render.Merge(schema, base, patch)
		if diff := cmp.Diff(baseBefore, base) + cmp.Diff(patchBefore, patch); diff != "" {
			t.Fatal("the input was changed\n", diff)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatal("two runs differ\n", diff)
		}
		if (firstErr == nil) != (againErr == nil) || firstErr != nil && firstErr.Error() != againErr.Error() {
			t.Fatalf("two runs err differently: %v, %v", firstErr, againErr)
		}
		if left := directiveIn(first); left != "" {
			t.Fatalf("%s was left behind in %v", left, first)
		}
	})
}

func directiveIn(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			if strings.HasPrefix(key, "$") {
				return key
			}
			if found := directiveIn(child); found != "" {
				return found
			}
		}
	case []any:
		for _, child := range v {
			if found := directiveIn(child); found != "" {
				return found
			}
		}
	}
	return ""
}

// A node matches one of the product's terms exactly if it matches both the subset and the template.
func TestPlaceIsConjunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := nodeTerms().Draw(t, "template")
		subset := nodeTerms().Draw(t, "subset")
		template := map[string]any{}
		if err := render.Place(template, &corev1.NodeSelector{NodeSelectorTerms: own}, nil); err != nil {
			return // only empty terms
		}
		if err := render.Place(template, &corev1.NodeSelector{NodeSelectorTerms: subset}, nil); err != nil {
			return
		}
		var pod corev1.PodTemplateSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(template, &pod, true); err != nil {
			t.Fatal(err)
		}
		product := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for node := range 16 {
			if matches(product, node) != (matches(own, node) && matches(subset, node)) {
				t.Fatalf("node %04b: template %v, subset %v, together %v", node, own, subset, product)
			}
		}
		for _, term := range product {
			if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
				t.Fatal("an empty term")
			}
		}
	})
}

// nodeTerms generates terms that require that labels or fields "0".."3" exist.
func nodeTerms() *rapid.Generator[[]corev1.NodeSelectorTerm] {
	requirement := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: string(rune('0' + rapid.IntRange(0, 3).Draw(t, "key"))), Operator: corev1.NodeSelectorOpExists}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{
			MatchExpressions: rapid.SliceOfN(requirement, 0, 2).Draw(t, "expressions"),
			MatchFields:      rapid.SliceOfN(requirement, 0, 1).Draw(t, "fields"),
		}
	}), 1, 3)
}

// matches implements the rule of Kubernetes: terms are ORed, requirements are ANDed, and an empty term matches nothing.
// node has a bit for each label.
func matches(terms []corev1.NodeSelectorTerm, node int) bool {
	for _, term := range terms {
		all := append(append([]corev1.NodeSelectorRequirement{}, term.MatchExpressions...), term.MatchFields...)
		ok := len(all) > 0
		for _, r := range all {
			ok = ok && node>>(r.Key[0]-'0')&1 == 1
		}
		if ok {
			return true
		}
	}
	return false
}
