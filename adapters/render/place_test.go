// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters/render"
)

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func label(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

func onNode(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: requirements}
}

func nodes(terms ...corev1.NodeSelectorTerm) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: terms}
}

// requires returns a pod template that requires terms (YAML flow) of nodes.
func requires(terms string) string {
	return "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " + terms + "}}}}"
}

func TestPlace(t *testing.T) {
	zone := nodes(label(in("zone", "a")))
	for _, tc := range []struct {
		name, template string
		selector       *corev1.NodeSelector
		tolerations    []corev1.Toleration
		want           string
	}{
		{"nothing to do", "{}", nil, nil, "{}"},
		{"nothing to do, and nothing touched", "spec: {tolerations: x}", nil, nil, "spec: {tolerations: x}"},
		{
			"the subset's terms alone", "spec: {containers: []}", zone, nil,
			"spec: {containers: [], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}",
		},
		{
			"other affinity stays",
			"spec: {affinity: {podAntiAffinity: {x: 1}, nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}], requiredDuringSchedulingIgnoredDuringExecution: null}}}", zone, nil,
			"spec: {affinity: {podAntiAffinity: {x: 1}, nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}], requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}",
		},
		{
			"cross product with matchFields on both sides",
			requires("[{matchExpressions: [{key: x, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]"),
			nodes(label(in("zone", "a")), onNode(in("metadata.name", "n2"))), nil,
			requires(`[
				{matchExpressions: [{key: x, operator: Exists}, {key: zone, operator: In, values: [a]}]},
				{matchExpressions: [{key: x, operator: Exists}], matchFields: [{key: metadata.name, operator: In, values: [n2]}]},
				{matchFields: [{key: metadata.name, operator: In, values: [n1]}], matchExpressions: [{key: zone, operator: In, values: [a]}]},
				{matchFields: [{key: metadata.name, operator: In, values: [n1]}, {key: metadata.name, operator: In, values: [n2]}]}]`),
		},
		{
			"empty terms match nothing and add nothing",
			requires("[{}, {matchExpressions: [], matchFields: null}, null, {matchExpressions: [{key: x, operator: Exists}]}]"),
			nodes(corev1.NodeSelectorTerm{}, label(in("zone", "a"))), nil,
			requires("[{matchExpressions: [{key: x, operator: Exists}, {key: zone, operator: In, values: [a]}]}]"),
		},
		{
			"what our types do not know stays, in every copy",
			requires("[{matchFuture: [1], matchExpressions: [{key: x, operator: Exists, future: true}]}]"),
			nodes(label(in("zone", "a")), label(in("zone", "b"))), nil,
			requires(`[
				{matchFuture: [1], matchExpressions: [{key: x, operator: Exists, future: true}, {key: zone, operator: In, values: [a]}]},
				{matchFuture: [1], matchExpressions: [{key: x, operator: Exists, future: true}, {key: zone, operator: In, values: [b]}]}]`),
		},
		{
			"a term of unknown fields only is not empty", requires("[{matchFuture: [1]}]"), zone, nil,
			requires("[{matchFuture: [1], matchExpressions: [{key: zone, operator: In, values: [a]}]}]"),
		},
		{
			"tolerations are appended, less exact duplicates",
			"spec: {tolerations: [{key: a, operator: Exists}, {key: b, future: 1}, {key: c, tolerationSeconds: 5}]}", nil,
			[]corev1.Toleration{
				{Key: "a", Operator: corev1.TolerationOpExists}, {Key: "b"},
				{Key: "c", TolerationSeconds: ptr.To[int64](5)}, {Key: "b"},
			},
			"spec: {tolerations: [{key: a, operator: Exists}, {key: b, future: 1}, {key: c, tolerationSeconds: 5}, {key: b}]}",
		},
		{
			"tolerations where there are none", "spec: {tolerations: null}", nil,
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			"spec: {tolerations: [{operator: Exists}]}",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := object(t, tc.template)
			selector := tc.selector.DeepCopy()
			if err := render.Place(got, tc.selector, tc.tolerations); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, strings.ReplaceAll(tc.want, "\t", "")), got); diff != "" {
				t.Error("want -, have +\n", diff)
			}
			if diff := cmp.Diff(selector, tc.selector); diff != "" {
				t.Error("the selector was changed\n", diff)
			}
			if diff := cmp.Diff(runtime.DeepCopyJSON(got), got); diff != "" {
				t.Error("not JSON", diff)
			}
		})
	}
}

func TestPlaceRefuses(t *testing.T) {
	zone := nodes(label(in("zone", "a")))
	required := "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
	for _, tc := range []struct {
		name, template string
		selector       *corev1.NodeSelector
		want           string
	}{
		{"no terms in the selector", "{}", nodes(), "the nodeSelector of the subset has no term"},
		{"only empty terms in the selector", "{}", nodes(corev1.NodeSelectorTerm{}), "the nodeSelector of the subset has no term"},
		{"no terms in the template", requires("[]"), zone, required + ".nodeSelectorTerms: Required"},
		{"null terms in the template", requires("null"), zone, required + ".nodeSelectorTerms: Required"},
		{"only empty terms in the template", requires("[{}, null]"), zone, required + ".nodeSelectorTerms: Invalid"},
		{"terms are no list", requires("x"), zone, required + ".nodeSelectorTerms: Invalid value: \"string\": must be a list"},
		{"term is no object", requires("[x]"), zone, required + ".nodeSelectorTerms[0]: Invalid value: \"string\": must be an object"},
		{"expressions are no list", requires("[{matchExpressions: {a: b}}]"), zone, required + ".nodeSelectorTerms[0].matchExpressions: Invalid"},
		{"spec is no object", "spec: []", zone, "spec: Invalid value: \"array\": must be an object"},
		{"affinity is no object", "spec: {affinity: 5}", zone, "spec.affinity: Invalid value: \"number\""},
		{"nodeAffinity is no object", "spec: {affinity: {nodeAffinity: true}}", zone, "spec.affinity.nodeAffinity: Invalid value: \"boolean\""},
		{"tolerations are no list", "spec: {tolerations: {}}", zone, "spec.tolerations: Invalid value: \"object\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := render.Place(object(t, tc.template), tc.selector, []corev1.Toleration{{Key: "a"}})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("want %s\nhave %v", tc.want, err)
			}
		})
	}
}

// TestPlaceBoundsTheProduct: a million terms would use up all memory, and so would a thousand copies of a large one.
func TestPlaceBoundsTheProduct(t *testing.T) {
	many := func(n int) []corev1.NodeSelectorTerm {
		terms := make([]corev1.NodeSelectorTerm, n)
		for i := range terms {
			terms[i] = label(in("zone", fmt.Sprint(i)))
		}
		return terms
	}
	large := label(in("zone", strings.Repeat("x", 100_000)))
	at := "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
	for _, tc := range []struct {
		name           string
		template, zone []corev1.NodeSelectorTerm
		want           string
	}{
		{"a hundred of both", many(50), many(100), ""},
		{"a thousand for one", many(1), many(1000), ""},
		{"a thousand of one", many(1000), many(1), ""},
		{"a large one", []corev1.NodeSelectorTerm{large}, many(5), ""},
		{"a million", many(1000), many(1000), at + "Invalid value: 1000: when these terms are ANDed with the 1000 terms of the subset's nodeSelector, the result has "},
		{"a thousand of a large one", []corev1.NodeSelectorTerm{large}, many(1000), at + "Invalid value: 1: "},
		{"a large one of a thousand", many(1000), []corev1.NodeSelectorTerm{large}, at + "Invalid value: 1000: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw, err := json.Marshal(tc.template)
			if err != nil {
				t.Fatal(err)
			}
			template := object(t, requires(string(raw)))
			err = render.Place(template, nodes(tc.zone...), nil)
			var invalid *field.Error
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!errors.As(err, &invalid) || !strings.HasPrefix(err.Error(), tc.want)):
				t.Errorf("want %s\nhave %v", tc.want, err)
			}
		})
	}
}
