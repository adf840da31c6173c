// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
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
		in        time.Duration // when only time is missing
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
			if observed[i].Remembers() != want {
				t.Errorf("%+v", observed[i])
			}
		}
	}
}
