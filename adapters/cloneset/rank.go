// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"cmp"
	"slices"

	"github.com/unitedworkloads/united/adapters"
)

// ranked is a pod with the properties that determine its rank.
type ranked struct {
	adapters.Replica
	// podReady is its condition, in any lifecycle state. pending: it does not run yet.
	podReady, pending bool
	// marked: the CloneSet has chosen to delete it.
	marked bool
}

// Rank assigns positions to replicas of which no more is known than what Observe returns.
func (adapter) Rank(o *adapters.Observed) {
	var found []ranked
	for _, r := range o.Pods {
		found = append(found, ranked{Replica: r, podReady: r.Ready, pending: !r.Placed})
	}
	o.Pods = nil
	rank(o, found)
}

// rank assigns positions to the pods as if they had ordinals. Of the pods that its partition releases, a CloneSet
// first updates those that are not ready, and then those that have been ready for the shortest time (measured, and as
// its code sorts). So pods with another revision than that of the template are at the bottom, and the highest of them
// is the one that it updates next; updated pods are at the very top, and the highest is the one that it would delete
// first. Missing pods are in between: below the partition, they come back on the protected revision, and above it on
// the template, because a CloneSet counts (measured).
//
// Surplus pods are above its replicas: first those that it deletes first, which are pods with another revision as far
// as its partition has released them, then updated ones; and then terminating pods, because they have been replaced
// already.
func rank(o *adapters.Observed, found []ranked) {
	var old, updated, leaving []ranked
	for _, r := range found {
		switch {
		case r.Terminating:
			leaving = append(leaving, r)
		case r.Hash == o.UpdateHash:
			updated = append(updated, r)
		default:
			old = append(old, r)
		}
	}
	for _, group := range [][]ranked{old, updated, leaving} {
		slices.SortStableFunc(group, stays)
	}
	surplus := max(0, len(old)+len(updated)-int(o.Replicas))
	released := max(0, len(old)-int(min(o.Partition, o.Replicas)))
	fromOld := min(surplus, released)
	fromUpdated := min(surplus-fromOld, len(updated))
	fromOld = surplus - fromUpdated

	keptOld, keptUpdated := len(old)-fromOld, len(updated)-fromUpdated
	place := func(group []ranked, from int) {
		for i := range group {
			group[i].Position = int32(from + i)
			o.Pods = append(o.Pods, group[i].Replica)
		}
	}
	replicas := int(o.Replicas)
	place(old[:keptOld], 0)
	place(updated[:keptUpdated], replicas-keptUpdated)
	place(updated[keptUpdated:], replicas)
	place(old[keptOld:], replicas+fromUpdated)
	place(leaving, replicas+surplus)
}

// stays orders pods by how long a CloneSet keeps them: the first is the one that it updates last.
func stays(a, b ranked) int {
	class := func(r *ranked) int {
		switch {
		case r.marked:
			return 3
		case r.pending:
			return 2
		case !r.podReady:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(class(&a), class(&b)), a.ReadySince.Compare(b.ReadySince), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}
