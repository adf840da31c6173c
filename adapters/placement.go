// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Placement is the placement that an existing child has.
type Placement struct {
	// Hash is as in PlacementHash.
	Hash string
	// required are the required node affinities of its pod templates, by path; nil if one has none.
	required map[string]any
}

// PlacementHash returns a hash of the nodeSelector of a subset, which may be nil.
func PlacementHash(selector *corev1.NodeSelector) string {
	raw, err := json.Marshal(selector)
	if err != nil {
		return "" // it has no values that cannot be encoded
	}
	return Checksum(string(raw))
}

// PlacementOf returns the placement of a child.
func PlacementOf(a Adapter, child *unstructured.Unstructured) *Placement {
	p := &Placement{Hash: child.GetAnnotations()[v1alpha1.AnnotationPlacement], required: map[string]any{}}
	for _, steps := range a.PodTemplates() {
		part, err := Unpacked(child.Object, steps...)
		if pods, found := part.(map[string]any); err == nil && found {
			p.required[strings.Join(steps, ".")] = render.RequiredNodes(pods)
		}
	}
	return p
}

// place assigns the pods of the template at a path to nodes.
func place(pods map[string]any, steps []string, c *Child) error {
	if c.Kept == nil {
		return render.Place(pods, c.NodeSelector, c.Tolerations)
	}
	if err := render.SetRequiredNodes(pods, c.Kept.required[strings.Join(steps, ".")]); err != nil {
		return err
	}
	return render.Place(pods, nil, c.Tolerations)
}

// placementHash returns the hash to record for a child.
func placementHash(c *Child) string {
	if c.Kept != nil {
		return c.Kept.Hash
	}
	return PlacementHash(c.NodeSelector)
}
