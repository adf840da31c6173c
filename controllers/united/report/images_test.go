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

// A message names the update revision and its new image, which people recognize. If no image differs, or there is
// nothing to compare with, it is only the name.
func TestUpdateName(t *testing.T) {
	parent := &v1alpha1.UnitedDeployment{}
	parent.Name = "web"
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
		content := revision.Content{Template: data}
		r, err := revision.Parse(revision.New(parent, world.OwnerOf(parent), content, 1, 0))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, tc := range []struct {
		name            string
		current, update *revision.Revision
		want            string
	}{
		{"another image", made("app:v1"), made("app:v2"), " (app:v2)"},
		{"in a registry", made("r.example:5000/shop/app:v1"), made("r.example:5000/shop/app:v2"), " (app:v2)"},
		{"of the second container", made("app:v1", "proxy:1"), made("app:v1", "proxy:2"), " (proxy:2)"},
		{"the same images", made("app:v1"), made("app:v1"), ""},
		{"a container more", made("app:v1"), made("app:v1", "proxy:1"), " (proxy:1)"},
		{"the current one is gone", nil, made("app:v1"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := &planner.Input{World: world.World{Parent: parent, Spec: &spec.Spec{Adapter: statefulset.New()}}, Update: tc.update}
			current := "gone"
			if tc.current != nil {
				in.Revisions, current = append(in.Revisions, tc.current), tc.current.Name
			}
			if got, want := updateName(in, current), known.Short(tc.update.Name)+tc.want; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
