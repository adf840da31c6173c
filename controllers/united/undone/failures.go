// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package undone

import (
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/memory"
)

const (
	// StalledAfterFailures is how often in a row something that may pass by itself must fail to count as stalled: about
	// 30 seconds. An API server may also need that long to recognize a new CRD, and rejects our owner references
	// meanwhile.
	StalledAfterFailures = 6
	// MaxBackOff bounds the time between two attempts after any failure.
	MaxBackOff = 30 * time.Second
)

// Failures remembers, by subset, what failed and when to try again, because no watch reports that a quota was lifted,
// or that a foreign object is gone.
type Failures struct{ memory.Named[*record] }

// FailuresOf returns the failures of a parent.
func FailuresOf(parent memory.Entry) Failures { return Failures{memory.Named[*record]{Entry: parent}} }

type record struct {
	attempt Attempt
	count   int
	failure subset.Failure
}

// Attempt identifies an attempt. A different attempt is made at once.
type Attempt struct {
	// UID and Generation are the parent's.
	UID        types.UID
	Generation int64
	// ChildUID and ChildGeneration are those of the child; zero if there is none.
	ChildUID        types.UID
	ChildGeneration int64
}

// Pending returns the failure of the same attempt if it is too early to try again; nil means that the caller may
// continue.
func (f Failures) Pending(name string, a Attempt, now time.Time) *subset.Failure {
	r := f.Get(name)
	if r == nil || r.attempt != a || !now.Before(r.failure.RetryAt) {
		return nil
	}
	failure := r.failure
	return &failure
}

// Last returns the last failure of the same attempt; nil if it has not failed.
func (f Failures) Last(name string, a Attempt) *subset.Failure {
	r := f.Get(name)
	if r == nil || r.attempt != a {
		return nil
	}
	failure := r.failure
	return &failure
}

// Failed records a failure and returns its description.
func (f Failures) Failed(name string, a Attempt, err error, now time.Time) *subset.Failure {
	r := f.Get(name)
	if r == nil || r.attempt != a {
		r = &record{attempt: a}
		f.Set(name, r)
	}
	r.count++
	reason, final := Classify(err)
	r.failure = subset.Failure{
		Reason: reason, Message: MessageOf(err), Repeated: r.count > 1,
		Stalled: final || r.count >= StalledAfterFailures,
		RetryAt: now.Add(failureSeries().Delay(r.count)),
	}
	failure := r.failure
	return &failure
}

// MaxMessage bounds the size of an error that is kept. An error of the API server can quote most of a child workload of
// 1.5 MB, for each of a hundred subsets, and the status has no room for more than this.
const MaxMessage = 8 << 10

// MessageOf returns the message of an error for users: what the API server says is wrong with a field comes before the value that it
// quotes, which can be a whole list of volume claims.
func MessageOf(err error) string {
	text := quotesLast(err)
	if len(text) <= MaxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:MaxMessage], "") + "..."
}

// maxQuoted bounds the size of a value that the API server quotes.
const maxQuoted = 200

// ImmutableDocs says what to do about a field of a child workload that cannot be changed.
const ImmutableDocs = "https://github.com/unitedworkloads/united/blob/main/docs/workloads.md#fields-that-cannot-be-changed"

// SaysImmutable reports whether a refusal of the API server is about a field that cannot be changed.
func SaysImmutable(refusal string) bool {
	return strings.Contains(refusal, apivalidation.FieldImmutableErrorMsg) || strings.Contains(refusal, "updates to statefulset spec for fields other than")
}

func quotesLast(err error) string {
	text := err.Error()
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return text
	}
	for _, cause := range status.Status().Details.Causes {
		if value, said, ok := quotation(cause.Message); ok {
			if len(value) > maxQuoted {
				value = strings.ToValidUTF8(value[:maxQuoted], "") + "..."
			}
			text = strings.Replace(text, cause.Message, said+": "+value, 1)
		}
		if SaysImmutable(cause.Message) {
			text += "; see " + ImmutableDocs
			break
		}
	}
	return text
}

// quotation splits what the API server says of a field, "Invalid value: <JSON>: <what is wrong>".
func quotation(message string) (value, said string, ok bool) {
	for _, end := range []string{"]: ", "}: "} {
		if at := strings.LastIndex(message, end); at > 0 && strings.HasPrefix(message, "Invalid value: ") {
			return message[:at+1], message[at+len(end):], true
		}
	}
	return "", "", false
}

// Succeeded removes a failure.
func (f Failures) Succeeded(name string) {
	f.Delete(name)
}

// Expire removes an old failure: the time for another attempt passed longer ago than the longest back-off. That ends a
// back-off if the attempts succeeded, but had to be repeated nevertheless.
func (f Failures) Expire(name string, now time.Time) {
	if r := f.Get(name); r != nil && now.After(r.failure.RetryAt.Add(MaxBackOff)) {
		f.Delete(name)
	}
}

// failureSeries has the delays until the next attempt after so many failures in a row.
func failureSeries() memory.Series { return memory.Series{Steady: 1, Most: MaxBackOff} }

// LacksRight reports whether a request was refused because of who made it. Admission and quotas answer with the same code.
func LacksRight(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " in API group")
}

// Classify returns the reason of an error, and whether another attempt is unlikely to help by itself.
func Classify(err error) (reason string, final bool) {
	var invalid *field.Error
	switch {
	case errors.Is(err, subset.ErrRevisionGone), errors.Is(err, subset.ErrRevisionTaken):
		return v1alpha1.ReasonRevisionLost, true
	case errors.Is(err, subset.ErrForgets):
		return v1alpha1.ReasonProtectionLost, false
	case errors.Is(err, subset.ErrPredecessor):
		return v1alpha1.ReasonNameConflict, false
	case errors.Is(err, subset.ErrNameConflict):
		return v1alpha1.ReasonNameConflict, true
	case errors.As(err, &invalid), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return v1alpha1.ReasonApplyRefused, true
	case strings.Contains(err.Error(), "failed to create typed patch object"),
		strings.Contains(err.Error(), "failed to convert new object"):
		// Trap: if something does not match the schema in server-side apply, such as a misspelled field, a string for a
		// number, or a duplicate key, the response is a 500.
		return v1alpha1.ReasonApplyRefused, true
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "exceeded quota"):
		return v1alpha1.ReasonApplyRefused, false
	}
	return v1alpha1.ReasonApplyFailed, false
}

// AttemptOn identifies an attempt to write the child of a parent, which is nil if it does not exist.
func AttemptOn(parent *v1alpha1.UnitedDeployment, child *unstructured.Unstructured) Attempt {
	attempt := Attempt{UID: parent.UID, Generation: parent.Generation}
	if child != nil {
		attempt.ChildUID, attempt.ChildGeneration = child.GetUID(), child.GetGeneration()
	}
	return attempt
}
