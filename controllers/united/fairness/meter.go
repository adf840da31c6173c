// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"time"

	"k8s.io/utils/clock"
)

// waitingCosts is the ratio of waiting time to CPU time in the limit of a pass. A pass may, for example, wait for
// webhooks that take half a minute each. Waiting uses no CPU, but it keeps a worker busy.
const waitingCosts = 20

// NewMeter returns a Meter that measures CPU time, and adds a twentieth of the elapsed time.
func NewMeter(clock clock.PassiveClock) Meter {
	return func() (func() time.Duration, func()) {
		begun := clock.Now()
		worked, stop := threadTime()
		return func() time.Duration { return worked() + clock.Since(begun)/waitingCosts }, stop
	}
}
