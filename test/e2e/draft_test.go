// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Draft is a UnitedDeployment in the making: the typed object, and its template
// {metadata, spec} still as a tree, so that a test can put anything into it.
type Draft struct {
	v1alpha1.UnitedDeployment
	Template map[string]any
	// Member is the member of spec.template that it goes to: statefulSetTemplate if empty.
	Member string
}

// edit changes a draft; a func literal does too.
type edit func(*Draft)

// parts are partitions by subset: an int, a percentage, or nil, which in a patch
// un-names the subset.
type parts map[string]any

// draft is a UnitedDeployment of OrderedReady StatefulSets, one replica, image
// v1, no subsets and no updateStrategy, changed by the edits.
func draft(name string, edits ...edit) *Draft {
	labels := map[string]any{"app": name}
	d := &Draft{
		Template: map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"serviceName":         name,
				"podManagementPolicy": string(appsv1.OrderedReadyPodManagement),
				"template": map[string]any{
					"metadata": map[string]any{"labels": labels},
					"spec": map[string]any{
						"terminationGracePeriodSeconds": int64(1),
						"containers": []any{
							map[string]any{"name": "web", "image": image("v1")},
						},
					},
				},
			},
		},
	}
	d.Name = name
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	for _, e := range edits {
		e(d)
	}
	return d
}

// object is the draft as it is sent to the API server.
func (d *Draft) object() (*v1alpha1.UnitedDeployment, error) {
	raw, err := json.Marshal(d.Template)
	if err != nil {
		return nil, err
	}
	parent := d.DeepCopy()
	template := &runtime.RawExtension{Raw: raw}
	switch d.Member {
	case "deploymentTemplate":
		parent.Spec.Template.DeploymentTemplate = template
	case "cloneSetTemplate":
		parent.Spec.Template.CloneSetTemplate = template
	case "advancedStatefulSetTemplate":
		parent.Spec.Template.AdvancedStatefulSetTemplate = template
	default:
		parent.Spec.Template.StatefulSetTemplate = template
	}
	return parent, nil
}

// image is a whole image with the tag.
func image(tag string) string { return "registry.example/web:" + tag }

func replicas(n int32) edit { return func(d *Draft) { d.Spec.Replicas = &n } }

// policy is the pod management policy: OrderedReady or Parallel.
func policy(p appsv1.PodManagementPolicyType) edit {
	return templateField(string(p), "spec", "podManagementPolicy")
}

// firstImage is the tag that the draft starts with.
func firstImage(tag string) edit {
	return templateField([]any{map[string]any{"name": "web", "image": image(tag)}}, "spec", "template", "spec", "containers")
}

// templateField sets a field of the template {metadata, spec}. Numbers must be
// int64 or float64.
func templateField(value any, path ...string) edit {
	return func(d *Draft) {
		if err := unstructured.SetNestedField(d.Template, value, path...); err != nil {
			panic(fmt.Sprintf("draft: %v", err))
		}
	}
}

// zones adds the subsets zone-a, zone-b, zone-c, as many as there are arguments,
// each on the nodes of its zone. An argument is the subset's replicas: a number,
// a percentage, or "" for its share of the rest.
func zones(shares ...string) edit {
	return func(d *Draft) {
		for i, share := range shares {
			subset(zone(i, share))(d)
		}
	}
}

// zone is the subset of the i-th zone.
func zone(i int, share string) v1alpha1.Subset {
	name := "zone-" + string(rune('a'+i))
	s := v1alpha1.Subset{Name: name, NodeSelector: inZone(name)}
	if share != "" {
		value := intstr.Parse(share)
		s.Replicas = &value
	}
	return s
}

func inZone(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
		}},
	}}}
}

// subset adds a subset.
func subset(s v1alpha1.Subset) edit {
	return func(d *Draft) { d.Spec.Topology.Subsets = append(d.Spec.Topology.Subsets, s) }
}

// plain is a subset on whatever nodes, for the tests that do not care.
func plain(name, share string) edit {
	s := v1alpha1.Subset{Name: name}
	if share != "" {
		value := intstr.Parse(share)
		s.Replicas = &value
	}
	return subset(s)
}

// hold holds every subset that no partition is named for.
func hold() edit { return partitions(nil) }

// partitions names partitions; the others are held.
func partitions(p parts) edit {
	return func(d *Draft) {
		manual := &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{}}
		for name, value := range p {
			manual.Partitions[name] = intstr.Parse(fmt.Sprint(value))
		}
		d.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: manual}
	}
}

// tagOf is the tag of an image.
func tagOf(image string) string {
	return image[strings.LastIndexByte(image, ':')+1:]
}
