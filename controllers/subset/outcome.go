// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"errors"
	"time"
)

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

// WaitError is an ErrStale that tells users what is being waited for. Its text does not change with time.
type WaitError struct{ Reason string }

func (e *WaitError) Error() string { return e.Reason + ": " + ErrStale.Error() }

// Unwrap returns ErrStale.
func (e *WaitError) Unwrap() error { return ErrStale }

// ErrStale means that the cluster has changed since it was read. This is not a failure, but a reason to read it again.
var ErrStale = errors.New("the cluster changed since it was read")
