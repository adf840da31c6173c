// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import "time"

// Failure describes why a subset's child could not be written, or why nothing can be done for the parent.
type Failure struct {
	// Reason is a reason of the condition Stalled.
	Reason string
	// Message is the API server's own message if the error is from there.
	Message string
	// Stalled reports whether the failure is unlikely to pass by itself soon.
	Stalled bool
	// RetryAt is when the write is tried again if nothing changes before.
	RetryAt time.Time
}
