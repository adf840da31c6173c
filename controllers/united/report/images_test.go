// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// A message names the new image of the update revision, which people recognize, and its name. If no image differs, or there is
// nothing to compare with, it is only the name: both versions may have that image. At rest there is only one version: then the
// image is the one that it came with, and otherwise its first.
func TestUpdateName(t *testing.T) {
	parent := &v1alpha1.UnitedDeployment{}
	parent.Name, parent.UID = "web", "u"
	stored := func(content revision.Content) *revision.Revision {
		r, err := revision.Parse(revision.New(parent, world.OwnerOf(parent), content, 1, 0))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	made := func(images ...string) *revision.Revision {
		var containers []any
		for i, image := range images {
			containers = append(containers, map[string]any{"name": string(rune('a' + i)), "image": image})
		}
		workload := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}}}
		data, err := adapters.RevisionData(statefulset.New(), workload) // as it is stored, and not as in a workload
		if err != nil {
			t.Fatal(err)
		}
		return stored(revision.Content{Template: data})
	}
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tc := range []struct {
		name           string
		before, update *revision.Revision
		during, atRest string
	}{
		{"another image", made("app:v1"), made("app:v2"), "app:v2", "app:v2"},
		{"in a registry", made("r.example:5000/shop/app:v1"), made("r.example:5000/shop/app:v2"), "app:v2", "app:v2"},
		{"of the second container", made("app:v1", "proxy:1"), made("app:v1", "proxy:2"), "proxy:2", "proxy:2"},
		{"the same images", made("app:v1", "proxy:1"), stored(revision.Content{Template: made("app:v1", "proxy:1").Template(), VersionLabel: "2"}), "", "app:v1"},
		{"a container more", made("app:v1"), made("app:v1", "proxy:1"), "proxy:1", "proxy:1"},
		{"a container less", made("app:v1", "proxy:1"), made("app:v1"), "", "app:v1"},
		{"the one before is gone", nil, made("app:v1", "proxy:1"), "", "app:v1"},
		{"no image", made("app:v1"), made(""), "", ""},
		{"a digest", made("app:v1"), made("r.example/app:v2" + digest), "app:v2@sha256:0123456789", "app:v2@sha256:0123456789"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := func(image string) string {
				if image == "" {
					return known.Short(tc.update.Name)
				}
				return image + " (" + known.Short(tc.update.Name) + ")"
			}
			in := &planner.Input{World: world.World{Parent: parent, Spec: &spec.Spec{Adapter: statefulset.New()}, Revisions: []*revision.Revision{tc.update}}, Update: tc.update}
			current := "gone"
			if tc.before != nil {
				tc.before.Object.Annotations = map[string]string{v1alpha1.AnnotationCurrent: revision.CurrentRecord(parent.UID, 0)}
				in.Revisions, current = append(in.Revisions, tc.before), tc.before.Name
			}
			if got := updateName(in, current); got != want(tc.during) {
				t.Errorf("%q, want %q", got, want(tc.during))
			}
			if got := updateName(in, tc.update.Name); got != want(tc.atRest) {
				t.Errorf("at rest: %q, want %q", got, want(tc.atRest))
			}
		})
	}
}
