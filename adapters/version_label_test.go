// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/advancedstatefulset"
	"github.com/unitedworkloads/united/adapters/cloneset"
	"github.com/unitedworkloads/united/adapters/deployment"
	"github.com/unitedworkloads/united/adapters/leaderworkerset"
	"github.com/unitedworkloads/united/adapters/statefulset"
)

// The label of the version is on all pod templates of every kind, also where a patch removes all
// labels, adds a pod template, or where there is none to label.
func TestVersionLabel(t *testing.T) {
	const one, groups = "spec: {template: {metadata: {labels: {app: web}}, spec: {}}}", "spec: {leaderWorkerTemplate: {workerTemplate: {metadata: {labels: {app: web}}, spec: {}}}}"
	pods := []string{"spec", "template"}
	leaders, workers := []string{"spec", "leaderWorkerTemplate", "leaderTemplate"}, []string{"spec", "leaderWorkerTemplate", "workerTemplate"}
	for _, tc := range []struct {
		name            string
		adapter         adapters.Adapter
		template, patch string
		on              [][]string
	}{
		{"StatefulSet", statefulset.New(), one, "{}", [][]string{pods}},
		{"Deployment", deployment.New(), one, "{}", [][]string{pods}},
		{"CloneSet", cloneset.New(), one, "{}", [][]string{pods}},
		{"Advanced StatefulSet", advancedstatefulset.New(), one, "{}", [][]string{pods}},
		{"LeaderWorkerSet without leaders of their own", leaderworkerset.New(), groups, "{}", [][]string{workers}},
		{"LeaderWorkerSet", leaderworkerset.New(), groups, "spec: {leaderWorkerTemplate: {leaderTemplate: {metadata: {labels: {app: web}}, spec: {}}}}", [][]string{leaders, workers}},
		{"a patch that replaces the labels", statefulset.New(), one, "spec: {template: {metadata: {labels: {$patch: replace, app: web}}}}", [][]string{pods}},
		{"a patch that removes the labels", statefulset.New(), one, "spec: {template: {metadata: {labels: null}}}", [][]string{pods}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := child(object(t, tc.template), object(t, tc.patch))
			var err error
			if c.RevisionTemplate, err = adapters.RevisionData(tc.adapter, c.Template); err != nil {
				t.Fatal(err)
			}
			if c.RevisionPatch, err = adapters.RevisionData(tc.adapter, c.Patch); err != nil {
				t.Fatal(err)
			}
			for _, version := range []string{"5c698fdz74", ""} {
				c.VersionLabel = version
				built, err := adapters.Build(tc.adapter, c)
				if err != nil {
					t.Fatal(err)
				}
				on := 0
				for _, at := range tc.on {
					got, found, err := unstructured.NestedString(built.Object, append(at[:len(at):len(at)], "metadata", "labels", "united.dev/version")...)
					if err != nil || got != version || found != (version != "") {
						t.Errorf("%s: %q, want %q (%v)", strings.Join(at, "."), got, version, err)
					}
					on++
				}
				// Nowhere else: not on the child, nor in its selector.
				if raw, _ := built.MarshalJSON(); version != "" && strings.Count(string(raw), "united.dev/version") != on {
					t.Errorf("the label is somewhere else: %s", raw)
				}
			}
		})
	}
}
