// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime begins to measure the CPU time of the goroutine, which it ties to its
// thread until stop. Time on the clock would not do: a pass takes the longer the more
// others there are, so that those who take much would make the others look as if they
// did.
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
