// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ContainerImage is the image of a container; At is the path of its pod template and its name.
type ContainerImage struct{ At, Image string }

// Images returns the images of all containers in the templates of a revision, a result of RevisionData.
func Images(a Adapter, data map[string]any) []ContainerImage {
	var images []ContainerImage
	for _, path := range PodTemplatesInRevision(a) {
		for _, list := range []string{"containers", "initContainers"} {
			at := append(slices.Clone(path), "spec", list)
			containers, _, _ := unstructured.NestedFieldNoCopy(data, at...)
			items, _ := containers.([]any)
			for _, c := range items {
				container, _ := c.(map[string]any)
				name, _ := container["name"].(string)
				if image, _ := container["image"].(string); cmp.Or(name, image) != "" {
					images = append(images, ContainerImage{strings.Join(at, ".") + "/" + name, image})
				}
			}
		}
	}
	return images
}
