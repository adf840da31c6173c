// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/cloneset"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// The message of a subset that is partly held says that a kind without ordinals chooses which replicas stay.
func TestWhoChooses(t *testing.T) {
	const chooses = "; the CloneSet chooses which"
	for _, c := range []struct {
		name      string
		adapter   adapters.Adapter
		partition int32
		want      string
	}{
		{"some of a CloneSet", cloneset.New(), 2, chooses},
		{"all of a CloneSet", cloneset.New(), 3, ""},
		{"none of a CloneSet", cloneset.New(), 0, ""},
		{"the lowest ordinals of a StatefulSet", statefulset.New(), 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := &planner.Input{World: world.World{Spec: &spec.Spec{Adapter: c.adapter}}}
			s := &planner.SubsetPlan{Desired: 3, Decision: coordination.Decision{DesiredPartition: coordination.DesiredPartition{Partition: c.partition}}}
			if got := whoChooses(in, s); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
