// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
)

func TestStuck(t *testing.T) {
	// A child on h2 with 4 replicas, the lowest of which is protected on h1.
	child := func() *childBuilder { return aChild().on("r2").partition(1).hashes("h1", "h2") }
	for _, tc := range []struct {
		name     string
		child    *childBuilder
		ordered  []int32
		parallel []int32
	}{
		{"all is well", child().members("0 h1", "1 h1", "2 h2", "3 h2"), nil, nil},
		{"released, unready and not updated", child().members("0 h1", "1 h1", "2 h1 unready", "3 h2"), []int32{2}, []int32{2}},
		{"the lowest first", child().members("0 h1", "1 h1 unready", "2 h1 unready", "3 h0 unready"), []int32{1}, []int32{1, 2, 3}},
		{"at the partition", child().members("0 h1", "1 h1 unready", "2 h1", "3 h1"), []int32{1}, []int32{1}},
		{"unready but updated", child().members("0 h1", "1 h2 unready", "2 h1 unready", "3 h1"), nil, []int32{2}},
		{"a protected one is unready", child().members("0 h1 unready", "1 h1 unready", "2 h1", "3 h1"), nil, []int32{1}},
		{"a protected one is missing", child().members("1 h1 unready", "2 h1", "3 h1"), nil, []int32{1}},
		{"one below is missing", child().members("0 h1", "2 h1 unready", "3 h1"), nil, []int32{2}},
		{"one below is terminating", child().members("0 h1", "1 h1 terminating", "2 h1 unready", "3 h1"), nil, []int32{2}},
		{"is terminating itself", child().members("0 h1", "1 h1", "2 h1 unready terminating", "3 h1"), nil, nil},
		{"surplus", child().members("0 h1", "1 h1", "2 h1", "3 h1", "4 h1 unready"), nil, nil},
		{"surplus below the first", child().members("-1 h1 unready", "0 h1", "1 h1", "2 h1", "3 h1 unready"), nil, []int32{3}},
		{"all protected", child().partition(4).members("0 h0 unready", "1 h1 unready", "2 h1", "3 h1"), nil, nil},
		{"held above the replicas", child().partition(9).members("0 h0 unready"), nil, nil},
		{"none", child(), nil, nil},
		{"its controller has not seen the spec", child().unseen().members("0 h1", "1 h1", "2 h1 unready"), nil, nil},
		{"its controller has not seen it at all", child().hashes("", "").members("0 h1", "1 h1", "2 h1 unready"), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.parallel, positions(Stuck(tc.child.observed()))); diff != "" {
				t.Error("Parallel: want -, have +\n", diff)
			}
			if diff := cmp.Diff(tc.ordered, positions(Stuck(tc.child.ordered().observed()))); diff != "" {
				t.Error("OrderedReady: want -, have +\n", diff)
			}
		})
	}
}

func positions(replicas []adapters.Replica) []int32 {
	var list []int32
	for _, r := range replicas {
		list = append(list, r.Position)
	}
	return list
}

func TestStuckNeverSparesWhatItMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := aChild().hashes("h1", "h2").
			replicas(rapid.Int32Range(0, 5).Draw(t, "replicas")).
			partition(rapid.Int32Range(0, 6).Draw(t, "partition"))
		b.Ordered = rapid.Bool().Draw(t, "ordered")
		unhealthy := map[int32]bool{0: true, 1: true, 2: true, 3: true, 4: true, 5: true}
		for position := range int32(6) {
			if rapid.IntRange(0, 5).Draw(t, "missing") == 0 {
				continue
			}
			r := adapters.Replica{
				Position: position, Hash: rapid.SampledFrom([]string{"h0", "h1", "h2"}).Draw(t, "hash"),
				Ready: rapid.Bool().Draw(t, "ready"), Terminating: rapid.IntRange(0, 4).Draw(t, "terminating") == 0,
			}
			unhealthy[position] = !r.Ready || r.Terminating
			b.Members = append(b.Members, r)
		}
		stuck := Stuck(b.observed())
		if b.Ordered && len(stuck) > 1 {
			t.Fatal("more than one at a time", positions(stuck))
		}
		for _, r := range stuck {
			if r.Ready || r.Terminating || r.Hash == "h2" || r.Position < b.Partition || r.Position >= b.Replicas {
				t.Fatalf("%+v is not stuck", r)
			}
			for below := range r.Position {
				if b.Ordered && unhealthy[below] {
					t.Fatalf("%+v does not come back, for %d is unhealthy", r, below)
				}
			}
		}
	})
}
