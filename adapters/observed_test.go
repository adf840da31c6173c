// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"strings"
	"testing"
	"time"

	"github.com/unitedworkloads/united/adapters"
)

func TestAvailable(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name      string
		replica   adapters.Replica
		minReady  int32
		available bool
		in        time.Duration // if only time is missing
	}{
		{"not ready", adapters.Replica{}, 0, false, 0},
		{"ready", adapters.Replica{Ready: true, ReadySince: now}, 0, true, 0},
		{"ready, by a clock ahead of ours", adapters.Replica{Ready: true, ReadySince: now.Add(time.Minute)}, 0, true, 0},
		{"not for long enough", adapters.Replica{Ready: true, ReadySince: now.Add(-3 * time.Second)}, 10, false, 7 * time.Second},
		{"just long enough", adapters.Replica{Ready: true, ReadySince: now.Add(-10 * time.Second)}, 10, true, 0},
		{"terminating", adapters.Replica{Ready: true, ReadySince: now.Add(-time.Hour), Terminating: true}, 10, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			available, at := tc.replica.Available(tc.minReady, now)
			if available != tc.available || (at.IsZero() != (tc.in == 0)) || (tc.in != 0 && !at.Equal(now.Add(tc.in))) {
				t.Error(available, at)
			}
		})
	}
}

func TestRemembers(t *testing.T) {
	for want, observed := range map[bool][]adapters.Observed{
		true:  {{CurrentHash: "a", UpdateHash: "b"}},
		false: {{}, {UpdateHash: "b"}, {CurrentHash: "a", UpdateHash: "a"}},
	} {
		for i := range observed {
			if observed[i].HasTwoRevisions() != want {
				t.Errorf("%+v", observed[i])
			}
		}
	}
}

// What the child lacks, whether its controller should create it now, and the message.
func TestLacks(t *testing.T) {
	at := func(position int32, edit func(*adapters.Replica)) adapters.Replica {
		r := adapters.Replica{Position: position, Ready: true}
		if edit != nil {
			edit(&r)
		}
		return r
	}
	unready := func(r *adapters.Replica) { r.Ready = false }
	goes := func(r *adapters.Replica) { r.Terminating = true }
	for name, tc := range map[string]struct {
		observed adapters.Observed
		missing  int32
		awaits   bool
	}{
		"all":                    {adapters.Observed{Replicas: 1, SpecObserved: true, Pods: []adapters.Replica{at(0, nil)}}, -1, false},
		"none asked for":         {adapters.Observed{SpecObserved: true}, -1, false},
		"one":                    {adapters.Observed{Replicas: 2, SpecObserved: true, Ordered: true, Pods: []adapters.Replica{at(0, nil)}}, 1, true},
		"one below":              {adapters.Observed{Replicas: 2, SpecObserved: true, Ordered: true, Pods: []adapters.Replica{at(-1, unready), at(1, unready)}}, 0, false},
		"not seen yet":           {adapters.Observed{Replicas: 2, Pods: []adapters.Replica{at(0, nil)}}, 1, false},
		"behind one that starts": {adapters.Observed{Replicas: 2, SpecObserved: true, Ordered: true, Pods: []adapters.Replica{at(0, unready)}}, 1, false},
		"behind one that goes":   {adapters.Observed{Replicas: 2, SpecObserved: true, Ordered: true, Pods: []adapters.Replica{at(0, goes)}}, 1, false},
		"beside one that starts": {adapters.Observed{Replicas: 2, SpecObserved: true, Pods: []adapters.Replica{at(0, unready)}}, 1, true},
		"one that still goes":    {adapters.Observed{Replicas: 1, SpecObserved: true, Pods: []adapters.Replica{at(0, goes)}}, -1, false},
		"surplus does not count": {adapters.Observed{Replicas: 2, SpecObserved: true, Pods: []adapters.Replica{at(0, nil), at(5, nil)}}, 1, true},
	} {
		if got := tc.observed.Missing(); got != tc.missing {
			t.Errorf("%s: missing %d, want %d", name, got, tc.missing)
		}
		if got := tc.observed.ExpectsMissing(); got != tc.awaits {
			t.Errorf("%s: awaits %v, want %v", name, got, tc.awaits)
		}
	}
	observed := &adapters.Observed{Replicas: 2, Holder: "x has it"}
	refused := &adapters.Observed{Replicas: 2, Holder: "to see why, run: x", Refused: "exceeded quota"}
	denied := &adapters.Observed{Replicas: 1, Refused: strings.Repeat("é", 1000)}
	for want, got := range map[string]string{
		"replica 0 of web (missing; exceeded quota)":                      refused.DescribeMissing("web", 0),
		"replica 0 of web (missing; " + strings.Repeat("é", 240) + "...)": denied.DescribeMissing("web", 0),
		"replica 0 of web (missing; x has it)":                            observed.DescribeMissing("web", 0),
		"replica 1 of web (missing)":                                      observed.DescribeMissing("web", 1),
		"replica 0 of b (missing)":                                        (*adapters.Observed)(nil).DescribeMissing("b", 0),
	} {
		if got != want {
			t.Errorf("want %q, have %q", want, got)
		}
	}
}

// A replica that the child's controller has not reached yet comes back as it was, so it is not replaced.
func TestReplaceableWhereTheControllerIs(t *testing.T) {
	o := &adapters.Observed{Replicas: 4, Partition: 1, Kept: 3, CurrentHash: "old", UpdateHash: "new"}
	asked := []string{"old", "new"}
	for position, want := range []bool{false, false, false, true} {
		if got := o.Replaceable(&adapters.Replica{Position: int32(position), Hash: "old"}, 1, asked); got != want {
			t.Errorf("position %d: %v", position, got)
		}
	}
	if !o.Replaceable(&adapters.Replica{Position: 2, Hash: "third"}, 1, asked) {
		t.Error("what nobody asks for comes back as something else wherever it is")
	}
	o.Kept = 0
	if !o.Replaceable(&adapters.Replica{Position: 2, Hash: "old"}, 1, asked) {
		t.Error("the control: there is no such controller")
	}
}
