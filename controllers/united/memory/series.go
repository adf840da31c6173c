// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "time"

// Series is how long to wait before something is done again that had to be done again and again: at first not at all, then a
// second, and then twice as long each time.
type Series struct {
	// Free is how many times in a row have no delay, and Steady after how many the delay, until then a second, begins to grow.
	Free, Steady int
	// Most bounds the delay.
	Most time.Duration
}

// Delay returns the delay after that many times in a row.
func (s Series) Delay(row int) time.Duration {
	if row <= s.Free {
		return 0
	}
	const mostDoubled = 20 // 12 days; a Duration has no room for 34
	return min(s.Most, time.Second<<min(max(0, row-s.Steady), mostDoubled))
}
