// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"cmp"
	"slices"

	"github.com/unitedworkloads/united/adapters"
)

// ranked is a pod, and what its rank depends on beside what a replica tells.
type ranked struct {
	adapters.Replica
	// podReady is its condition, whatever state it is in. pending: it does not run yet.
	podReady, pending bool
	// marked: the CloneSet has chosen to delete it.
	marked bool
}

// rank gives the pods positions as if they had ordinals. The CloneSet updates, of those
// that its partition releases, first what is not ready, and then what is ready for the
// shortest time (measured, and its sort). So the pods on another revision than that of the
// template are at the bottom, the one that it takes next the highest of them; the updated
// ones are at the very top, the one that it would delete first the highest. Between the two
// lies what is missing: it comes back on what is protected below the partition, and on the
// template from there on, for the CloneSet counts (measured).
//
// What it has too many of lies above its replicas: first those that it deletes first, which
// are pods on another revision as far as its partition has released them, and then updated
// ones; and what is being deleted, for that is replaced already.
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
		slices.SortFunc(group, stays)
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

// stays orders pods by how long a CloneSet leaves them as they are: the first is the last
// that it takes.
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
