// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"testing"

	"github.com/unitedworkloads/united/controllers/united/known"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

func TestProvenLine(t *testing.T) {
	for _, tc := range []struct {
		name string
		line coordination.DesiredPartition
		want int32
	}{
		{"nothing", coordination.DesiredPartition{}, 0},
		{"some", coordination.DesiredPartition{Partition: 2}, 0},
		{"all", coordination.DesiredPartition{Partition: 4}, 4},
		{"more than there are", coordination.DesiredPartition{Partition: 9}, 9},
		{"held", coordination.DesiredPartition{Partition: 3, Held: true}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.line.Proven(4); got.Partition != tc.want || got.Held != tc.line.Held {
				t.Errorf("%+v, want partition %d", got, tc.want)
			}
		})
	}
}

// In a child that counts, nothing is deleted that its controller may keep: it takes released replicas by itself.
// Only broken ones are deleted.
func TestNothingAvailableIsDeletedByCount(t *testing.T) {
	for _, kind := range []adapters.Granularity{adapters.ByCount, adapters.ByOrdinal} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("3") }), 4).roll("v2")
			for _, c := range w.subsets {
				c.Observed.Traits.Partition, c.Observed.Traits.Paced = kind, kind == adapters.ByCount
			}
			w.decide() // stages
			w.decide() // releases three
			if p := w.subsets[0].Observed.Partition; p != 1 {
				t.Fatalf("partition is %d", p)
			}
			deleted := w.decide().Subsets[0].Delete
			if kind == adapters.ByCount && len(deleted) > 0 || kind == adapters.ByOrdinal && len(deleted) != 2 {
				t.Errorf("deletes %v", deleted)
			}
		})
	}
}

// When a child goes back to the protected revision, the floor protects nothing: it would keep that many replicas on the version
// that is taken back. When all are back, a child that counts needs no partition.
func TestTheFloorProtectsNothingFromGoingBack(t *testing.T) {
	floor := strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable, s.Partition = amount("3"), amount("1") })
	for _, tc := range []struct {
		kind  adapters.Granularity
		first string
		want  int32
	}{{adapters.ByCount, "v2", 0}, {adapters.ByOrdinal, "v2", 0}, {adapters.ByCount, "v1", 0}, {adapters.ByOrdinal, "v1", 1}} {
		t.Run(string(tc.kind)+" "+tc.first, func(t *testing.T) {
			o := &adapters.Observed{
				Traits: adapters.Traits{Partition: tc.kind}, Replicas: 4, Partition: 1, SpecObserved: true, CurrentHash: "v1", UpdateHash: "v1",
			}
			for p, hash := range []string{tc.first, "v1", "v1", "v1"} {
				o.Pods = append(o.Pods, adapters.Replica{Name: hash, Position: int32(p), Hash: hash, Ready: true})
			}
			in := coordination.Input{Strategy: floor, Update: "v1", GoesBack: true, Subsets: []coordination.Subset{{
				Name: "a", Desired: 4, Facts: known.Facts{Revision: "v1", Proven: true, Observed: o},
			}}}
			in.State = coordination.Coordinate(in).State // on record first
			if got := coordination.Coordinate(in).Subsets[0].Partition; got != tc.want {
				t.Errorf("partition %d, want %d", got, tc.want)
			}
		})
	}
}
