// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import "github.com/unitedworkloads/united/adapters"

// holdFirst is the step of a child that cannot get its next template yet, but is to protect
// more than it does by now: it gets that at once, on the template that it has. ok is false when it
// protects all of that already. A write that raises protection is never delayed: meanwhile its
// controller would go on to release what was released of a template that nobody asks for anymore.
//
// The way back protects all: what runs the update revision is not to leave it. So does a goal that
// protects all that is left of the child. Replicas, and what is released, wait for the template.
// A child that has yet to come up for the first time is not held, or it would be on what never worked.
func (g *Goal) holdFirst(o *adapters.Observed, reason string) (s Step, ok bool) {
	if g.Has == nil || RevisionOf(o) == g.Update.Revision || FirstRolloutPending(o) || g.MissedProtectedRevision || g.lacksOrdinals(o) {
		return Step{}, false
	}
	partition := max(g.Child.Partition, RecordedPartition(o))
	if g.SamePods || g.Child.Replicas > 0 && g.Child.Partition >= g.Child.Replicas {
		partition = max(partition, o.Replicas)
	}
	if o.Partition >= min(partition, o.Replicas) {
		return Step{}, false
	}
	child := g.child(*g.Has)
	child.Replicas, child.Partition, child.Seeding = o.Replicas, partition, Seeding(o)
	return Step{Action: ActionApply, Child: child, Reason: reason}, true
}

// lacksOrdinals reports whether a child whose replicas have ordinals has fewer of them than it is to get.
//
// Trap: the controller of a StatefulSet counts a replica above these as an updated one until that is gone. With fewer
// replicas it may so have finished its template while a protected one is missing, and held, that
// replica would come back on it.
func (g *Goal) lacksOrdinals(o *adapters.Observed) bool {
	return o.Traits.Partition != adapters.ByCount && o.Replicas < g.Child.Replicas
}
