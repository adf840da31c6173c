// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// ContentIn returns the content of a revision by subset; "" if the revision does not exist.
func (o *Oracle) ContentIn(from Objects, name string) func(subset string) string {
	return o.contentFor(o.parent(o.Before), from, name)
}

// contentFor uses the given parent for what the revision does not know of a subset.
func (o *Oracle) contentFor(parent *v1alpha1.UnitedDeployment, from Objects, name string) func(subset string) string {
	return func(subset string) string {
		cr := from.Revisions[name]
		if cr == nil {
			return ""
		}
		var today *v1alpha1.Subset
		for i := range parent.Spec.Topology.Subsets {
			if s := &parent.Spec.Topology.Subsets[i]; s.Name == subset {
				today = s
			}
		}
		key := contentKey{cr: cr, subset: subset}
		if today != nil && today.Patch != nil {
			key.today = string(today.Patch.Raw)
		}
		content, known := o.contents[key]
		if !known {
			content = o.readContent(cr, subset, today)
			o.contents[key] = content
		}
		return content
	}
}

type contentKey struct {
	cr            *appsv1.ControllerRevision
	subset, today string
}

func (o *Oracle) readContent(cr *appsv1.ControllerRevision, subset string, today *v1alpha1.Subset) string {
	r, err := revision.Parse(cr)
	if err != nil {
		o.fail("revision %s: %v", cr.Name, err)
		return ""
	}
	overlay := revision.Overlay{}
	if today != nil {
		overlay.Patch = podPatchOf(today)
	}
	image, _, _ := unstructured.NestedSlice(r.Template(), "spec", "containers")
	content, _ := image[0].(map[string]any)["image"].(string)
	if patch, _, _ := unstructured.NestedString(r.OverlayOr(subset, overlay).Patch, "metadata", "annotations", "patch"); patch != "" {
		content += "+" + patch
	}
	return content
}

// podPatchOf returns the pod part of a subset's patch.
func podPatchOf(s *v1alpha1.Subset) map[string]any {
	patch := map[string]any{}
	if s.Patch != nil {
		if err := json.Unmarshal(s.Patch.Raw, &patch); err != nil {
			panic(err)
		}
	}
	part, _, _ := unstructured.NestedMap(patch, "spec", "template")
	return part
}

// wanted returns the content of the subset's pods according to the spec.
func (a *API) wanted(parent *v1alpha1.UnitedDeployment, s *v1alpha1.Subset) string {
	key := string(parent.Spec.Template.StatefulSetTemplate.Raw)
	if s.Patch != nil {
		key += "\n" + string(s.Patch.Raw)
	}
	content, known := a.contents[key]
	if !known {
		content = readWanted(parent, s)
		a.contents[key] = content
	}
	return content
}

func readWanted(parent *v1alpha1.UnitedDeployment, s *v1alpha1.Subset) string {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(parent.Spec.Template.StatefulSetTemplate.Raw, &u.Object); err != nil {
		panic(err)
	}
	content := contentOf(&typedSet(u).Spec.Template)
	if patch, _, _ := unstructured.NestedString(podPatchOf(s), "metadata", "annotations", "patch"); patch != "" {
		content += "+" + patch
	}
	return content
}

// contentOf describes the content of a pod in one word: its image and what a patch of the subset adds.
func contentOf(template *corev1.PodTemplateSpec) string {
	content := ""
	if len(template.Spec.Containers) > 0 {
		content = template.Spec.Containers[0].Image
	}
	if patch := template.Annotations["patch"]; patch != "" {
		content += "+" + patch
	}
	return content
}

// imageOf returns a content without what a patch adds.
func imageOf(content string) string {
	image, _, _ := strings.Cut(content, "+")
	return image
}

// PodContent is contentOf for a pod.
func PodContent(p *corev1.Pod) string {
	return contentOf(&corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec})
}
