// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"reflect"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
)

// TestMetadataIsRefusedAlike checks that, of all metadata that an object can have, a template and a
// patch may have only labels and annotations, and that the policy and the controller refuse the same
// fields, with their paths.
func TestMetadataIsRefusedAlike(t *testing.T) {
	values := map[string]any{
		"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"a": "b"},
		"finalizers": []any{"example.com/keep"}, "generation": int64(1), "deletionGracePeriodSeconds": int64(0),
		"ownerReferences": []any{map[string]any{"uid": "u-1"}}, "managedFields": []any{map[string]any{"manager": "x"}},
	}
	fields := []string{"future", "clusterName"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[metav1.ObjectMeta]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, name)
	}
	NewWithT(t).Expect(fields).To(ContainElements("name", "labels", "annotations", "finalizers", "managedFields", "deletionTimestamp"))
	for _, name := range fields {
		for path, in := range map[string]func(...any) []any{templatePath: inTemplate, patchPath: inPatch} {
			t.Run(path+".metadata."+name, func(t *testing.T) {
				g := NewWithT(t)
				var value any = "2026-01-01T00:00:00Z"
				if v, ok := values[name]; ok {
					value = v
				}
				object := with(t, "metadata", set(value, in("metadata", name)...))
				_, admission := deployments().Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
				controller := checkedByTheController(g, object, path)
				if name == "labels" || name == "annotations" {
					g.Expect([]error{admission, controller}).To(HaveEach(Not(HaveOccurred())))
					return
				}
				g.Expect(admission).To(MatchError(ContainSubstring(" denied request: " + path + ".metadata." + name + ": must be absent: only labels and annotations")))
				g.Expect(controller).To(MatchError(HavePrefix(path + ".metadata." + name + ": Forbidden: only labels and annotations")))
			})
		}
	}
}

// checkedByTheController returns the controller's error for the template, or for the patch of zone-b.
func checkedByTheController(g Gomega, object *unstructured.Unstructured, path string) error {
	if path == templatePath {
		template, _, err := unstructured.NestedMap(object.Object, "spec", "template", "statefulSetTemplate")
		g.Expect(err).NotTo(HaveOccurred())
		return adapters.CheckTemplate(statefulset.New(), template, field.NewPath("spec", "template", "statefulSetTemplate"))
	}
	list, _, err := unstructured.NestedSlice(object.Object, "spec", "topology", "subsets")
	g.Expect(err).NotTo(HaveOccurred())
	patch, _, err := unstructured.NestedMap(list[1].(map[string]any), "patch")
	g.Expect(err).NotTo(HaveOccurred())
	return adapters.CheckPatch(statefulset.New(), patch, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		field.NewPath("spec", "topology", "subsets").Key("zone-b").Child("patch"))
}
