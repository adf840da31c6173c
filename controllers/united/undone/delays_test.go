// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package undone

import (
	"math"
	"testing"
	"time"
)

// A write that is undone each time: ten times at once, then every second, then less often, and every five minutes at last.
func TestRepeatDelays(t *testing.T) {
	for row, want := range map[int]time.Duration{
		0: 0, 1: 0, 10: 0, 11: time.Second, 29: time.Second, 30: time.Second,
		31: 2 * time.Second, 32: 4 * time.Second, 37: 128 * time.Second, 38: 256 * time.Second,
		39: 5 * time.Minute, 40: 5 * time.Minute, 63: 5 * time.Minute, 94: 5 * time.Minute, math.MaxInt: 5 * time.Minute,
	} {
		if got := repeatSeries().Delay(row); got != want {
			t.Errorf("%d in a row: %s, want %s", row, got, want)
		}
	}
}

// A failure: a second after the first one, and then less often, every half minute at last.
func TestFailureDelays(t *testing.T) {
	for count, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 16 * time.Second,
		6: 30 * time.Second, 7: 30 * time.Second, 64: 30 * time.Second, math.MaxInt: 30 * time.Second,
	} {
		if got := failureSeries().Delay(count); got != want {
			t.Errorf("%d in a row: %s, want %s", count, got, want)
		}
	}
}
