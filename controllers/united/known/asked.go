// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known

import (
	"strconv"
	"strings"
)

// Coordinated is the value of Asked while a coordinated rollout moves the partition.
const Coordinated = "RollingUpdate"

// Asked is what was last asked of a subset with type Manual, and what followed from it. It is recorded on the child, and in
// the status, because scaling releases nothing: the next partition depends on it.
type Asked struct {
	// Value is the partition in effect as the user wrote it, "50%" or "2", or Coordinated.
	Value string
	// Update is the name of the update revision.
	Update string
	// Partition is what followed from it for this number of replicas.
	Partition, Replicas int32
}

// String returns the record.
func (a Asked) String() string {
	if a.Value == Coordinated {
		return Coordinated // nothing else matters then, and the record need not be written with each replica
	}
	return a.Value + " of " + strconv.Itoa(int(a.Replicas)) + " is " + strconv.Itoa(int(a.Partition)) + " for " + a.Update
}

// ReadAsked parses a record; nil if it is none.
func ReadAsked(text string) *Asked {
	if text == Coordinated {
		return &Asked{Value: Coordinated}
	}
	words := strings.Fields(text)
	if len(words) != 7 {
		return nil
	}
	replicas, err := strconv.ParseInt(words[2], 10, 32)
	partition, otherErr := strconv.ParseInt(words[4], 10, 32)
	a := &Asked{Value: words[0], Update: words[6], Partition: int32(partition), Replicas: int32(replicas)}
	if err != nil || otherErr != nil || replicas < 0 || partition < 0 || strings.TrimSpace(text) != a.String() {
		return nil
	}
	return a
}
