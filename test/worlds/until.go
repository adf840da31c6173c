// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Until returns when walks end although there is more to walk: the variable WALKS_UNTIL in seconds since 1970; the zero time is never.
// make test-full sets it, because how much a machine walks while the other part runs differs by a factor of two.
func Until() time.Time {
	seconds, err := strconv.ParseInt(os.Getenv("WALKS_UNTIL"), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// Share returns when the next one of so many walks that are left ends, if each takes as long.
func Share(left int) time.Time {
	until := Until()
	if until.IsZero() {
		return until
	}
	return time.Now().Add(time.Until(until) / time.Duration(left))
}

// IsOver reports whether it is after the end of a walk.
func IsOver(until time.Time) bool { return !until.IsZero() && time.Now().After(until) }

// Tell appends how far a walk came that had to end early to the file of the variable WALKS_TOLD, because go test does not show what
// passing tests log.
func Tell(format string, a ...any) {
	name := os.Getenv("WALKS_TOLD")
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, err = fmt.Fprintf(file, format+"\n", a...)
	if err = errors.Join(err, file.Close()); err != nil {
		panic(err)
	}
}
