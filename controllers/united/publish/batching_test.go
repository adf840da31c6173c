// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"testing"
	"time"
)

// A status that returns: ten times at once, then every second, and then less often, up to MaxReturn.
func TestReturnDelays(t *testing.T) {
	for row, want := range map[int]struct{ short, standard, long time.Duration }{
		0: {}, 1: {}, 9: {},
		10: {time.Millisecond, time.Second, time.Second},
		11: {time.Millisecond, time.Second, time.Second},
		30: {time.Millisecond, time.Second, time.Second},
		31: {time.Millisecond, 2 * time.Second, 2 * time.Second},
		32: {time.Millisecond, 4 * time.Second, 4 * time.Second},
		33: {time.Millisecond, 5 * time.Second, 8 * time.Second},
		36: {time.Millisecond, 5 * time.Second, time.Minute},
		38: {time.Millisecond, 5 * time.Second, time.Minute},
	} {
		for most, want := range map[time.Duration]time.Duration{
			0: 0, time.Millisecond: want.short, StandardBatching().MaxReturn: want.standard, time.Minute: want.long,
		} {
			if got := (Batching{MaxReturn: most}).returnSeries().Delay(row); got != want {
				t.Errorf("%d in a row, at most %s: %s, want %s", row, most, got, want)
			}
		}
	}
}
