// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package undone

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/controllers/united/memory"
)

// Contests remembers the children whose partition somebody lowers again and again. Raising it is never delayed; but
// anything else that is written to such a child reaches replicas that are not released, and a repair never ends.
type Contests struct{ memory.Named[*Contest] }

// ContestsOf returns the contests about the children of a parent.
func ContestsOf(parent memory.Entry) Contests { return Contests{memory.Named[*Contest]{Entry: parent}} }

const (
	// ContestedAfter is how often a partition must be lowered, each time within contestMemory of the last, to count as
	// a contest. A single time is an edit by hand, which is repaired completely.
	ContestedAfter = 2
	// ContestMemory is how long a partition that was lowered is remembered.
	ContestMemory = time.Minute
	// ContestQuiet is how long a child must be left alone until its contest is over.
	ContestQuiet = 30 * time.Second
)

// Contest counts how often the partition of a child was lowered.
type Contest struct {
	Uid types.UID
	// generation is that of the child when its partition was last found lowered. since is the first time in a series in
	// which the child was not left alone, and last is the most recent one.
	generation  int64
	Since, Last time.Time
	count       int
	// By is who did it last, and field is the changed field: the partition, or the strategy if that has no partition.
	By, Field string
}

// RecordLowered records that by has lowered the partition of a child, with a change of field. Passes that find the same
// spec count once.
func (c Contests) RecordLowered(child *unstructured.Unstructured, by, field string, now time.Time) {
	c.DeleteFunc(func(_ string, seen *Contest) bool { return now.Sub(seen.Last) >= ContestMemory })
	found := c.Get(child.GetName())
	if found == nil || found.Uid != child.GetUID() {
		found = &Contest{Uid: child.GetUID()}
	} else if found.generation == child.GetGeneration() {
		return
	}
	if now.Sub(found.Last) >= ContestQuiet {
		found.Since = now
	}
	found.generation, found.Last, found.By, found.Field = child.GetGeneration(), now, by, field
	found.count++
	c.Set(child.GetName(), found)
}

// Find returns the contest about a child; nil if there is none now.
func (c Contests) Find(name string, now time.Time) *Contest {
	found := c.Get(name)
	if found == nil || found.count < ContestedAfter || now.Sub(found.Last) >= ContestQuiet {
		return nil
	}
	return found
}
