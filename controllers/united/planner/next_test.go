// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"math"
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
)

// A scale-down that is held moves nothing: the partition does not fall, and does not rise over released replicas.
// Another template reaches none of them.
func TestKeepReplicas(t *testing.T) {
	for _, tc := range []struct {
		name               string
		revision           string
		replicas, asked    int32
		keep, recorded     int32
		wantPart, wantReps int32
	}{
		{"all that are left are protected, as a percentage of fewer", "r1", 3, 3, 5, 4, 4, 5},
		{"some are released", "r1", 3, 1, 5, 2, 2, 5},
		{"the user protects all", "r1", 3, math.MaxInt32, 5, 2, math.MaxInt32, 5},
		{"the user raises it meanwhile", "r1", 3, 2, 5, 0, 2, 5},
		{"another template", "r2", 3, 1, 5, 4, 5, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			step := subset.Step{Child: adapters.Child{Revision: tc.revision, Replicas: tc.replicas, Partition: tc.asked}}
			got := keepReplicas(step, tc.keep, tc.recorded, "r1").Child
			if got.Partition != tc.wantPart || got.Replicas != tc.wantReps {
				t.Errorf("partition %d, replicas %d", got.Partition, got.Replicas)
			}
		})
	}
}
