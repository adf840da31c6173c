// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"time"

	"k8s.io/utils/clock"
)

// waitingCosts is how much longer a pass may wait than work: for webhooks that take half
// a minute each, for one. Waiting burns nothing but keeps a worker.
const waitingCosts = 20

// NewMeter measures CPU time, and a twentieth of the time on the clock.
func NewMeter(clock clock.PassiveClock) Meter {
	return func() (func() time.Duration, func()) {
		begun := clock.Now()
		worked, stop := threadTime()
		return func() time.Duration { return worked() + clock.Since(begun)/waitingCosts }, stop
	}
}
