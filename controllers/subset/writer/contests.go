// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/perparent"
	"github.com/unitedworkloads/united/controllers/subset"
)

// Contests remembers the children whose partition somebody lowers again and again. Raising it is never delayed; but
// anything else that is written to such a child reaches replicas that are not released, and a repair never ends. A nil
// *Contests does not know any contests.
type Contests struct {
	perparent.Memory[*contest]
}

const (
	// contestedAfter is how often a partition must be lowered, each time within contestMemory of the last, to count as
	// a contest. A single time is an edit by hand, which is repaired completely.
	contestedAfter = 2
	contestMemory  = time.Minute
	// contestQuiet is how long a child must be left alone until its contest is over.
	contestQuiet = 30 * time.Second
)

// contest counts how often the partition of a child was lowered.
type contest struct {
	uid types.UID
	// generation is that of the child when its partition was last found lowered. since is the first time in a series in
	// which the child was not left alone, and last is the most recent one.
	generation  int64
	since, last time.Time
	count       int
	// by is who did it last, and field is the changed field: the partition, or the strategy if that has no partition.
	by, field string
}

// recordLowered records that by has lowered the partition of a child, with a change of field. Passes that find the same
// spec count once.
func (c *Contests) recordLowered(parent types.NamespacedName, child *unstructured.Unstructured, by, field string, now time.Time) {
	c.DeleteFunc(parent, func(_ string, seen *contest) bool { return now.Sub(seen.last) >= contestMemory })
	found := c.Get(parent, child.GetName())
	if found == nil || found.uid != child.GetUID() {
		found = &contest{uid: child.GetUID()}
	} else if found.generation == child.GetGeneration() {
		return
	}
	if now.Sub(found.last) >= contestQuiet {
		found.since = now
	}
	found.generation, found.last, found.by, found.field = child.GetGeneration(), now, by, field
	found.count++
	c.Set(parent, child.GetName(), found)
}

// find returns the contest about a child; nil if there is none now.
func (c *Contests) find(parent types.NamespacedName, name string, now time.Time) *contest {
	if c == nil {
		return nil
	}
	found := c.Get(parent, name)
	if found == nil || found.count < contestedAfter || now.Sub(found.last) >= contestQuiet {
		return nil
	}
	return found
}

// Contested checks whether somebody has lowered the partition of a child below the value that United wrote, and returns
// until when that counts as a contest if nothing else happens; zero if it is not one. If admission changes a partition,
// no manager owns the change, and Repeats handles it.
func (w *Writer) Contested(parent types.NamespacedName, current *unstructured.Unstructured, observed *adapters.Observed) (time.Time, error) {
	if w.Contests == nil {
		return time.Time{}, nil
	}
	now := w.Now()
	if observed.Partition < subset.RecordedPartition(observed) {
		by, field, err := w.loweredBy(current, observed)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s: %w", current.GetName(), err)
		}
		if by != "" {
			w.Contests.recordLowered(parent, current, by, field, now)
		}
	}
	if contest := w.Contests.find(parent, current.GetName(), now); contest != nil && contest.uid == current.GetUID() {
		return contest.last.Add(contestQuiet), nil
	}
	return time.Time{}, nil
}

// loweredBy returns who has lowered the partition of a child, and with which field: another strategy, such as OnDelete,
// removes the partition too, and whoever sets it owns only the strategy.
func (w *Writer) loweredBy(current *unstructured.Unstructured, observed *adapters.Observed) (by, field string, err error) {
	places := []fieldLocation{w.partition()}
	if observed.NoPartition {
		places = append(places, fieldAt(w.Adapter.FieldPaths().Strategy...))
	}
	for _, at := range places {
		if by, err = OwnerOf(at.path, current.GetManagedFields(), ""); by != "" || err != nil {
			return by, at.text, err
		}
	}
	return "", "", nil
}

// contested returns the error for a contest about a child; nil if there is none now.
func (w *Writer) contested(parent types.NamespacedName, name string) *OverriddenError {
	contest := w.Contests.find(parent, name, w.now())
	if contest == nil {
		return nil
	}
	return &OverriddenError{
		Object: w.object(name), Override: Override{Field: contest.field, By: contest.by}, Until: contest.last.Add(contestQuiet),
		Lasting: contest.last.Sub(contest.since) >= contestQuiet, Contested: true,
	}
}

// partition returns the location of a child's partition.
func (w *Writer) partition() fieldLocation {
	return fieldAt(w.Adapter.FieldPaths().Partition...)
}
