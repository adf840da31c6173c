// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime starts to measure the CPU time of the goroutine, which it locks to its thread until stop. Elapsed time
// would not work: a pass takes longer while others run, so expensive parents would make the others look expensive too.
func threadTime() (used func() time.Duration, stop func()) {
	runtime.LockOSThread()
	begun, ok := threadClock()
	return func() time.Duration {
		now, nowOK := threadClock()
		if !ok || !nowOK {
			return 0
		}
		return now - begun
	}, runtime.UnlockOSThread
}

func threadClock() (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
