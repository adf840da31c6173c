// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// updateName returns how messages refer to the update revision: by an image, which people recognize, and by its name, which is a
// hash. During a rollout the image is the first one that the current revision does not have, and there may be none. At rest it is
// the first one that came with the update revision, or the first one.
func updateName(in *planner.Input, current string) string {
	if current != in.Update.Name {
		return newName(in, in.Update, revision.ByName(in.Revisions, current))
	}
	images := imagesOf(in, in.Update)
	for _, before := range revision.RanBefore(in.Revisions, in.Parent.UID, current, 1) {
		if came := newImages(images, imagesOf(in, before)); len(came) > 0 {
			images = came
		}
	}
	return named(in.Update, images)
}

// newName returns how messages refer to one of two revisions: an image that both have would not tell them apart.
func newName(in *planner.Input, r, other *revision.Revision) string {
	return named(r, newImages(imagesOf(in, r), imagesOf(in, other)))
}

// newImages returns the images that others does not have; none if there are no others to compare with.
func newImages(images, others []adapters.ContainerImage) (differ []adapters.ContainerImage) {
	for _, c := range images {
		if len(others) > 0 && !slices.Contains(others, c) {
			differ = append(differ, c)
		}
	}
	return differ
}

// named returns the first of some images, without its registry and the most of its digest, and the name of their revision.
func named(r *revision.Revision, images []adapters.ContainerImage) string {
	for _, c := range images {
		image := c.Image[strings.LastIndex(c.Image, "/")+1:]
		if i := strings.Index(image, "@sha256:"); i >= 0 {
			image = image[:min(len(image), i+len("@sha256:0123456789"))]
		}
		if image != "" {
			return image + " (" + known.Short(r.Name) + ")"
		}
	}
	return known.Short(r.Name)
}

// imagesOf returns the images of all containers in a revision's templates; none if the revision is nil.
func imagesOf(in *planner.Input, r *revision.Revision) []adapters.ContainerImage {
	if r == nil {
		return nil
	}
	return adapters.Images(in.Spec.Adapter, r.Template())
}
