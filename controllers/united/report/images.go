// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// updateName returns how messages refer to the update revision: by its name, which is a hash, and by the first
// image that differs from the current revision, without its registry, because people recognize that.
func updateName(in *planner.Input, current string) string {
	if current == in.Update.Name {
		return current // the normal case when nothing is rolled out
	}
	before := imagesOf(in, revision.ByName(in.Revisions, current))
	for _, c := range imagesOf(in, in.Update) {
		if len(before) > 0 && !slices.Contains(before, c) {
			return in.Update.Name + " (" + c.image[strings.LastIndex(c.image, "/")+1:] + ")"
		}
	}
	return in.Update.Name
}

// containerImage is the image of a container; at is the path of its pod template and its name.
type containerImage struct{ at, image string }

// imagesOf returns the images of all containers in a revision's templates; none if the revision is nil.
func imagesOf(in *planner.Input, r *revision.Revision) []containerImage {
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
