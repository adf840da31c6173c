// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	statefulsets "github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// labelled returns the version label of each subset, and the revision, of a parent with an image and with a patch for its
// second subset.
func labelled(t *testing.T, image, patch string, label v1alpha1.VersionLabel) (values []string, revision string) {
	t.Helper()
	p := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web", Generation: 1}}
	p.Spec = v1alpha1.UnitedDeploymentSpec{
		Replicas: ptr.To(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, VersionLabel: label,
		Template: v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":%q}]}}}}`, image)}},
		Topology: v1alpha1.Topology{Subsets: []v1alpha1.Subset{{Name: "a"}, {Name: "b"}, {Name: "c"}}},
	}
	if patch != "" {
		p.Spec.Topology.Subsets[1].Patch = &runtime.RawExtension{Raw: []byte(patch)}
	}
	adapter := statefulsets.New()
	spec, err := spec.Read(p, adapters.Registry{adapter})
	if err != nil {
		t.Fatal(err)
	}
	in, err := (&planner.Input{World: world.World{Parent: p, Spec: spec, Now: placement.Now}}).WithUpdateRevision()
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range planner.Make(in).Subsets {
		u, err := adapters.Build(adapter, &sub.Step.Child)
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := unstructured.NestedString(u.Object, "spec", "template", "metadata", "labels", v1alpha1.LabelVersion)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	return values, in.Update.Name
}

// The version label has one value over all subsets, whatever they patch. It changes with the template, and is the same
// again after going back. Turning it on is another revision.
func TestVersionLabel(t *testing.T) {
	const patch = `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"ROLE","value":"b"}]}]}}}}`
	one, revision := labelled(t, "v1", "", v1alpha1.TemplateHashLabel)
	two, _ := labelled(t, "v2", "", v1alpha1.TemplateHashLabel)
	back, backRevision := labelled(t, "v1", "", v1alpha1.TemplateHashLabel)
	patched, patchedRevision := labelled(t, "v1", patch, v1alpha1.TemplateHashLabel)
	without, withoutRevision := labelled(t, "v1", "", v1alpha1.NoVersionLabel)
	for name, values := range map[string][]string{"v1": one, "v2": two, "v1 again": back, "patched": patched} {
		if len(values) != 3 || values[0] == "" || len(slices.Compact(slices.Clone(values))) != 1 {
			t.Errorf("%s: %q", name, values)
		}
	}
	switch {
	case one[0] == two[0]:
		t.Error("another template has the same value", one, two)
	case !slices.Equal(one, back), revision != backRevision:
		t.Error("after going back it is another", one, back)
	case !slices.Equal(one, patched), revision == patchedRevision:
		t.Error("the patch of one subset changes it for all, or is no new revision", one, patched)
	case without[0] != "", revision == withoutRevision:
		t.Error("without the label", without, withoutRevision)
	}
}
