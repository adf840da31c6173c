// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// Contested checks whether somebody has lowered the partition of a child below the value that United wrote, and returns
// until when that counts as a contest if nothing else happens; zero if it is not one. If admission changes a partition,
// no manager owns the change, and Repeats handles it.
func (w *Writer) Contested(current *unstructured.Unstructured, observed *adapters.Observed) (time.Time, error) {
	contests, now := undone.ContestsOf(w.Memory), w.now()
	if observed.Partition < subset.RecordedPartition(observed) {
		by, field, err := w.loweredBy(current, observed)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s: %w", current.GetName(), err)
		}
		if by != "" {
			contests.RecordLowered(current, by, field, now)
		}
	}
	if contest := contests.Find(current.GetName(), now); contest != nil && contest.Uid == current.GetUID() {
		return contest.Last.Add(undone.ContestQuiet), nil
	}
	return time.Time{}, nil
}

// loweredBy returns who has lowered the partition of a child, and with which field: another strategy, such as OnDelete,
// removes the partition too, and whoever sets it owns only the strategy.
func (w *Writer) loweredBy(current *unstructured.Unstructured, observed *adapters.Observed) (by, field string, err error) {
	places := []ownership.Location{w.partition()}
	if observed.NoPartition {
		places = append(places, ownership.FieldAt(w.Adapter.FieldPaths().Strategy...))
	}
	for _, at := range places {
		if by, err = ownership.OwnerOf(at.Path, current.GetManagedFields(), ""); by != "" || err != nil {
			return by, at.Text, err
		}
	}
	return "", "", nil
}

// contested returns the error for a contest about a child; nil if there is none now.
func (w *Writer) contested(name string) *undone.OverriddenError {
	contest := undone.ContestsOf(w.Memory).Find(name, w.now())
	if contest == nil {
		return nil
	}
	return &undone.OverriddenError{
		Object: w.object(name), Override: undone.Override{Field: contest.Field, By: contest.By}, Until: contest.Last.Add(undone.ContestQuiet),
		Lasting: contest.Last.Sub(contest.Since) >= undone.ContestQuiet, Contested: true,
	}
}

// partition returns the location of a child's partition.
func (w *Writer) partition() ownership.Location {
	return ownership.FieldAt(w.Adapter.FieldPaths().Partition...)
}
