// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known

import (
	"fmt"
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
	return fmt.Sprintf("%s of %d is %d for %s", a.Value, a.Replicas, a.Partition, a.Update)
}

// ReadAsked parses a record; nil if it is none.
func ReadAsked(text string) *Asked {
	if text == Coordinated {
		return &Asked{Value: Coordinated}
	}
	a := &Asked{}
	if n, err := fmt.Sscanf(text, "%s of %d is %d for %s", &a.Value, &a.Replicas, &a.Partition, &a.Update); n != 4 || err != nil ||
		a.Replicas < 0 || a.Partition < 0 || strings.TrimSpace(text) != a.String() {
		return nil
	}
	return a
}
