// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
)

func terms() adapters.Terms { return adapters.Terms{Now: epoch(), Deadline: deadline} }

func stuckOf(o *adapters.Observed) []adapters.Replica {
	f := FactsOf(o)
	stuck, _ := Stuck(&f, terms())
	return stuck
}

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
		{"failed", child().members("0 h1", "1 h1", "2 h1 failed", "3 h2"), []int32{2}, []int32{2}},
		{"crashed", child().members("0 h1", "1 h1", "2 h1 crashed", "3 h2"), []int32{2}, []int32{2}},
		{"not available for the deadline", child().members("0 h1", "1 h1", "2 h1 overdue", "3 h2"), []int32{2}, []int32{2}},
		{"merely unready", child().members("0 h1", "1 h1", "2 h1 unready", "3 h2"), nil, nil},
		{"a zone that is unready for a moment", child().members("0 h1 unready", "1 h1 unready", "2 h1 unready", "3 h1 unready"), nil, nil},
		{"never ready, of the protected revision", child().members("0 h1", "1 h1", "2 h1 new", "3 h2"), nil, nil},
		{"never ready, of a revision that nobody asks for", child().members("0 h1", "1 h1", "2 h0 new", "3 h2"), []int32{2}, []int32{2}},
		{"was ready, of a revision that nobody asks for", child().members("0 h1", "1 h1", "2 h0 unready", "3 h2"), nil, nil},
		{"the lowest first", child().members("0 h1", "1 h1 failed", "2 h1 failed", "3 h0 new"), []int32{1}, []int32{1, 2, 3}},
		{"one below is merely unready", child().members("0 h1", "1 h1 unready", "2 h1 failed", "3 h1"), nil, []int32{2}},
		{"failed but updated", child().members("0 h1", "1 h2 failed", "2 h1 failed", "3 h1"), nil, []int32{2}},
		{"a protected one failed", child().members("0 h1 failed", "1 h1 failed", "2 h1", "3 h1"), nil, []int32{1}},
		{"a protected one failed on what nobody asks for", child().members("0 h0 failed", "1 h1", "2 h1", "3 h1"), []int32{0}, []int32{0}},
		{"a protected one is missing", child().members("1 h1 failed", "2 h1", "3 h1"), nil, []int32{1}},
		{"one below is missing", child().members("0 h1", "2 h1 failed", "3 h1"), nil, []int32{2}},
		{"one below is terminating", child().members("0 h1", "1 h1 terminating", "2 h1 failed", "3 h1"), nil, []int32{2}},
		{"is terminating itself", child().members("0 h1", "1 h1", "2 h1 failed terminating", "3 h1"), nil, nil},
		{"surplus", child().members("0 h1", "1 h1", "2 h1", "3 h1", "4 h1 failed"), nil, nil},
		{"surplus below the first", child().members("-1 h1 failed", "0 h1", "1 h1", "2 h1", "3 h1 failed"), []int32{3}, []int32{3}},
		{"all protected", child().partition(4).members("0 h1 failed", "1 h1 failed", "2 h1", "3 h1"), nil, nil},
		{"held above the replicas", child().partition(9).members("0 h1 failed"), nil, nil},
		{"none", child(), nil, nil},
		{"its controller has not seen the spec", child().unseen().members("0 h1", "1 h1", "2 h1 failed"), nil, nil},
		{"its controller has not seen it at all", child().hashes("", "").members("0 h1", "1 h1", "2 h1 failed"), nil, nil},

		{"barred by a protected one", child().members("0 h1 unready", "1 h1", "2 h1", "3 h2"), nil, []int32{2}},
		{"barred by a protected one that is missing", child().members("1 h1", "2 h1", "3 h1"), nil, []int32{3}},
		{"not barred", child().members("0 h1", "1 h1", "2 h1", "3 h2"), nil, nil},
		{"barred, and one is on its way", child().members("0 h1 unready", "1 h1", "2 h1", "3 h2 new"), nil, nil},
		{"barred, and one is missing", child().members("0 h1 unready", "1 h1", "2 h1"), nil, nil},
		{"barred, and its controller takes another", child().members("0 h1 unready", "1 h1 unready", "2 h1", "3 h1"), nil, nil},
		{"barred, and nothing is released", child().partition(4).members("0 h1 unready", "1 h1", "2 h1", "3 h1"), nil, nil},
		{"barred, and all is updated", child().members("0 h1 unready", "1 h2", "2 h2", "3 h2"), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.parallel, positions(stuckOf(tc.child.observed()))); diff != "" {
				t.Error("Parallel: want -, have +\n", diff)
			}
			if diff := cmp.Diff(tc.ordered, positions(stuckOf(tc.child.ordered().observed()))); diff != "" {
				t.Error("OrderedReady: want -, have +\n", diff)
			}
		})
	}
}

// TestStuckLater: if time alone makes a replica broken, Stuck returns that time, but not while paused, and without the
// time of a pause.
func TestStuckLater(t *testing.T) {
	o := aChild().on("r2").partition(1).hashes("h1", "h2").members("0 h1", "1 h1 unready", "2 h1", "3 h1").observed()
	f, at := FactsOf(o), terms()
	if _, wake := Stuck(&f, at); !wake.Equal(epoch().Add(deadline)) {
		t.Error("it wakes at", wake)
	}
	at.Now = epoch().Add(deadline)
	if stuck, _ := Stuck(&f, at); len(stuck) != 1 {
		t.Error("after the deadline", positions(stuck))
	}
	at.Resumed = epoch().Add(time.Second)
	if stuck, wake := Stuck(&f, at); len(stuck) > 0 || !wake.Equal(at.Resumed.Add(deadline)) {
		t.Error("paused until a second after it ceased to be ready", positions(stuck), wake)
	}
	at.Paused = true
	if stuck, wake := Stuck(&f, at); len(stuck) > 0 || !wake.IsZero() {
		t.Error("paused", positions(stuck), wake)
	}
}

// TestStuckProven: if the update revision is also the protected one, nobody wants the revision that the child's
// controller remembers.
func TestStuckProven(t *testing.T) {
	o := aChild().on("r2").partition(0).hashes("h1", "h2").members("0 h1 new", "1 h1 unready").observed()
	f := FactsOf(o)
	f.Proven = true
	if stuck, _ := Stuck(&f, terms()); len(stuck) != 1 || stuck[0].Position != 0 {
		t.Error(positions(stuck))
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
				Ready: rapid.Bool().Draw(t, "ready"), Crashed: rapid.Bool().Draw(t, "crashed"),
				NeverReady: rapid.Bool().Draw(t, "never ready"), Since: epoch(), Terminating: rapid.IntRange(0, 4).Draw(t, "terminating") == 0,
			}
			unhealthy[position] = !r.Ready || r.Terminating
			b.Pods = append(b.Pods, r)
		}
		stuck := stuckOf(b.observed())
		unavailable := 0
		for position := range b.Replicas {
			if unhealthy[position] {
				unavailable++
			}
		}
		if b.Ordered && len(stuck) > 1 {
			t.Fatal("more than one at a time", positions(stuck))
		}
		for _, r := range stuck {
			asked := r.Hash == "h1" || r.Hash == "h2"
			broken := r.Crashed || r.NeverReady && !asked
			if r.Terminating || r.Hash == "h2" || r.Position >= b.Replicas || r.Position < b.Partition && asked {
				t.Fatalf("%+v is not stuck", r)
			}
			if r.Ready && (len(stuck) > 1 || unavailable == 0 || b.Ordered) || !r.Ready && !broken {
				t.Fatalf("%+v is not broken", r)
			}
			for below := range r.Position {
				if b.Ordered && unhealthy[below] {
					t.Fatalf("%+v does not come back, for %d is unhealthy", r, below)
				}
			}
		}
	})
}
