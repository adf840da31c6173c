// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package fairness

import "time"

// threadTime does not know the CPU time on this platform; only the elapsed time counts.
func threadTime() (used func() time.Duration, stop func()) {
	return func() time.Duration { return 0 }, func() {}
}
