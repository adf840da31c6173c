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

// updateName returns how messages refer to the update revision: by its name, which is a hash, and by the first
// image that differs from the current revision, without its registry, because people recognize that.
func updateName(in *planner.Input, current string) string {
	if current == in.Update.Name {
		return known.Short(current) // the normal case when nothing is rolled out
	}
	before := imagesOf(in, revision.ByName(in.Revisions, current))
	for _, c := range imagesOf(in, in.Update) {
		if len(before) > 0 && !slices.Contains(before, c) {
			return known.Short(in.Update.Name) + " (" + c.Image[strings.LastIndex(c.Image, "/")+1:] + ")"
		}
	}
	return known.Short(in.Update.Name)
}

// imagesOf returns the images of all containers in a revision's templates; none if the revision is nil.
func imagesOf(in *planner.Input, r *revision.Revision) []adapters.ContainerImage {
	if r == nil {
		return nil
	}
	return adapters.Images(in.Spec.Adapter, r.Template())
}
