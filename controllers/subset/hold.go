// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import "github.com/unitedworkloads/united/adapters"

// holdFirst returns the step for a child that cannot get its next template yet, but should protect more replicas than
// it does now: it gets the higher partition at once, with its current template. ok is false if it protects all of those
// already. A write that raises protection is never delayed; otherwise, the child's controller would meanwhile continue
// to update replicas to a template that nobody wants anymore.
//
// During a rollback all replicas are protected, because those that run the update revision must not leave it. The same
// is true if the goal protects all remaining replicas of the child. Changes of the replicas, and releases, wait for the
// template. A child that has not come up for the first time is not held, because that would keep it on a revision that
// never worked.
func (g *Goal) holdFirst(o *adapters.Observed, reason string) (s Step, ok bool) {
	if g.Has == nil || g.Revision == g.Update.Revision || g.FirstRolloutPending || g.MissedProtectedRevision || g.lacksOrdinals(o) {
		return Step{}, false
	}
	partition := max(g.Child.Partition, *g.Recorded)
	if g.SamePods || g.Child.Replicas > 0 && g.Child.Partition >= g.Child.Replicas {
		partition = max(partition, o.Replicas)
	}
	if o.Partition >= min(partition, o.Replicas) {
		return Step{}, false
	}
	child := g.child(*g.Has)
	child.Replicas, child.Partition, child.Seeding = o.Replicas, partition, g.Seeding
	return Step{Action: ActionApply, Child: child, Reason: reason}, true
}

// lacksOrdinals reports whether a child whose replicas have ordinals has fewer of them than its goal.
//
// Trap: the controller of a StatefulSet counts a replica with a higher ordinal as updated until it is gone. So a
// StatefulSet with fewer replicas may have finished its template while a protected one is missing. If it were held
// then, that replica would come back on the template.
func (g *Goal) lacksOrdinals(o *adapters.Observed) bool {
	return o.Traits.Partition != adapters.ByCount && o.Replicas < g.Child.Replicas
}
