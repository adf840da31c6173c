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
	// Repeated: the same has failed before.
	Repeated bool
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

// ErrRevisionGone means that a child cannot be reminded of what its protected replicas run, because its own revision no
// longer exists.
var ErrRevisionGone = errors.New("no longer exists")

// ErrRevisionTaken means that a child cannot be reminded of what its protected replicas run, because the revision
// belongs to another object now.
var ErrRevisionTaken = errors.New("the revision no longer belongs to the child")

// ErrForgets means that a child was reminded, and must be watched for a while: it forgets again as long as its
// controller does not see its revisions.
var ErrForgets = errors.New("keeps forgetting what its protected replicas run")

// ErrNameConflict means that an object with the child's name exists that the parent does not control. It was not
// changed.
var ErrNameConflict = errors.New("not controlled by this UnitedDeployment")

// ErrPredecessor means that the child's name is still taken by a child that will go by itself: it is being deleted, or
// belonged to an earlier parent of the same name.
var ErrPredecessor = errors.New("left over from before and being deleted")
