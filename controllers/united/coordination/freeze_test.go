// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func TestUpdatedFrom(t *testing.T) {
	for _, tc := range []struct {
		members  string // "<position>:<hash>", the update revision is u
		replicas int32
		want     int32
		// frozen is the result if nothing has been moved for a while.
		frozen int32
	}{
		{"", 0, 0, 0},
		{"", 3, 3, 0},
		{"0:o 1:o 2:o", 3, 3, 3},
		{"0:o 1:o 2:u", 3, 2, 2},
		{"0:o 1:u 2:u", 3, 1, 1},
		{"0:u 1:u 2:u", 3, 0, 0},
		{"0:u 1:o 2:u", 3, 2, 2},
		{"0:u 1:u 2:o", 3, 3, 3},
		{"0:o 1:u", 3, 1, 1},         // 2 is missing above an updated one: it was updated
		{"0:o 2:u", 3, 2, 1},         // 1 is missing below: it is not known whether it was updated
		{"0:o 1:o", 3, 3, 2},         // 2 is missing above one that is not updated: it may not have been updated
		{"0:o 1:u 2:u 3:o", 3, 1, 1}, // 3 is surplus
		{"0:u 1:u 3:u", 3, 0, 0},
		{"-1:u 0:u 1:u", 2, 0, 0},
		{"-1:o 0:u 1:u", 2, 0, 0},
	} {
		o := &adapters.Observed{Replicas: tc.replicas, UpdateHash: "u"}
		for _, text := range strings.Fields(tc.members) {
			var r adapters.Replica
			if _, err := fmt.Sscanf(text, "%d:%s", &r.Position, &r.Hash); err != nil {
				t.Fatal(err)
			}
			o.Pods = append(o.Pods, r)
		}
		if got := updatedFrom(o, false); got != tc.want {
			t.Errorf("%q of %d: want %d, have %d", tc.members, tc.replicas, tc.want, got)
		}
		if got := updatedFrom(o, true); got != tc.frozen {
			t.Errorf("%q of %d, frozen: want %d, have %d", tc.members, tc.replicas, tc.frozen, got)
		}
	}
}

// While paused, a replica that was released and has not moved yet is not moved. This includes the case that the
// child's controller has not observed the release yet, so that every replica seems to be updated to the previous
// template.
func TestFreezeUnobserved(t *testing.T) {
	child := func(revision, updateHash string, observed bool) *adapters.Observed {
		o := &adapters.Observed{Replicas: 3, Partition: 1, SpecObserved: observed, CurrentHash: "h1", UpdateHash: updateHash}
		o.Meta.Annotations = map[string]string{
			v1alpha1.AnnotationRevision: revision, v1alpha1.AnnotationProtectedRevision: "r1", v1alpha1.AnnotationProtectedHash: "h1",
		}
		for i, hash := range []string{"h1", "h1", updateHash} {
			o.Pods = append(o.Pods, adapters.Replica{Position: int32(i), Hash: hash})
		}
		return o
	}
	for _, tc := range []struct {
		name string
		o    *adapters.Observed
		// wants are the expected partitions for each Pause.
		unkept, now, before int32
	}{
		{"observed", child("r2", "h2", true), 1, 2, 2},
		{"it has got its template just now", child("r2", "h1", false), 1, 3, 3},
		{"another partition, or another template", child("r3", "h2", false), 1, 3, 2},
		{"it has gone back just now", child("r1", "h2", false), 1, 3, 3},
		{"it is back", child("r1", "h1", false), 1, 3, 1},
	} {
		for pause, want := range map[Pause]int32{Unkept: tc.unkept, PausedNow: tc.now, PausedBefore: tc.before} {
			if got := FreezeChild(DesiredPartition{}, tc.o, 1, 3, pause); got.Partition != want {
				t.Errorf("%s, %d: want %d, have %d: %s", tc.name, pause, want, got.Partition, got.Reason)
			}
		}
	}
	whole := child("r2", "h2", false)
	whole.Traits.Protection = adapters.Withheld
	if got := FreezeChild(DesiredPartition{}, whole, 0, 3, PausedNow).Partition; got != 2 {
		t.Errorf("of a kind that tells its update revision at once, the partition is %d", got)
	}
}
