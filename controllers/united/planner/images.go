// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// updateName is what messages call the update revision: its name, which is a hash, and the first
// image in which it differs from the current one, which is what people know it by.
func (in *Input) updateName(current string) string {
	if current == in.Update.Name {
		return current // as at rest, in each pass
	}
	before := in.imagesOf(revision.ByName(in.Revisions, current))
	for _, c := range in.imagesOf(in.Update) {
		if len(before) > 0 && !slices.Contains(before, c) {
			return in.Update.Name + " (" + c.image + ")"
		}
	}
	return in.Update.Name
}

// containerImage is the image of a container, by the path of its pod template and its name.
type containerImage struct{ at, image string }

// imagesOf are the images of all containers of a revision's templates; none of a revision that is
// not there.
func (in *Input) imagesOf(r *revision.Revision) []containerImage {
	if r == nil {
		return nil
	}
	var images []containerImage
	for _, path := range adapters.PodTemplatesInRevision(in.Spec.Adapter) {
		for _, list := range []string{"containers", "initContainers"} {
			at := append(slices.Clone(path), "spec", list)
			containers, _, _ := unstructured.NestedFieldNoCopy(r.Template(), at...)
			items, _ := containers.([]any)
			for _, c := range items {
				container, _ := c.(map[string]any)
				name, _ := container["name"].(string)
				if image, _ := container["image"].(string); cmp.Or(name, image) != "" {
					images = append(images, containerImage{strings.Join(at, ".") + "/" + name, image})
				}
			}
		}
	}
	return images
}
