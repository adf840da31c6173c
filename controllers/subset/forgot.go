// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"slices"
	"time"

	"github.com/unitedworkloads/united/adapters"
)

// Forgot tells whether the child has forgotten what its protected replicas run, so
// that it would make them again of what its template is.
//
// Trap: such a child looks like one that has finished. But it finishes only when all
// its replicas are updated, and those that were never released cannot be; nor is any
// replica of a third revision left then.
func Forgot(o *adapters.Observed) bool {
	if !settled(o) || o.Replicas == 0 || !protectsAnother(o) || ProtectedHash(o) == "" || ProtectedHash(o) == o.CurrentHash {
		return false
	}
	return unfinishable(o) || slices.ContainsFunc(o.Members, func(m adapters.Replica) bool {
		return m.Hash != o.CurrentHash && m.Position >= 0 && m.Position < o.Replicas
	})
}

// unfinishable: the child cannot finish what its template is, since some of its
// replicas were never released to it. Should all run it nevertheless, they came up on
// it while the child had forgotten what else to make them of.
func unfinishable(o *adapters.Observed) bool {
	return o.Replicas > 0 && protectsAnother(o) && ProtectedHash(o) != "" && ProtectedHash(o) != o.UpdateHash && releasedFrom(o) > 0
}

// remind makes a child remember what it has forgotten. Until it does, it gets nothing
// that would release a replica, or make one; what protects more it gets at once.
func (g *Goal) remind(o *adapters.Observed) Step {
	child := g.child(g.Update)
	child.Partition = max(child.Partition, RecordedPartition(o))
	child.Replicas = min(child.Replicas, o.Replicas)
	if child.Revision == RevisionOf(o) && (child.Partition > o.Partition || child.Replicas < o.Replicas) {
		return Step{Action: ActionApply, Child: child, Reason: fmt.Sprintf("%s has forgotten %s: what protects is written first", o.Meta.Name, Noted(o))}
	}
	return Step{
		Action: ActionRemind, Hash: ProtectedHash(o),
		Reason: fmt.Sprintf("%s has forgotten that its protected replicas run %s, and is reminded of it", o.Meta.Name, Noted(o)),
	}
}

// Unreleased gives the replicas that came up on another revision than the protected one
// without having been released: on what the child's template is, or was when they did.
// They are to be deleted, so that they come back on what is protected, and that is of use
// only when the child remembers it: there are none while it has forgotten.
//
// The exception is a child all of whose replicas are updated and ready. It settles on
// that, and so forgets, as soon as it is reminded, until one of them is deleted.
func Unreleased(o *adapters.Observed) []adapters.Replica {
	protected := ProtectedHash(o)
	if !o.CaughtUp || protected == "" || o.CurrentHash != protected && !Relapses(o) {
		return nil
	}
	below := min(releasedFrom(o), o.Partition, o.Replicas)
	var list []adapters.Replica
	for _, m := range o.Members {
		if m.Position >= 0 && m.Position < below && m.Hash != protected && !m.Terminating {
			list = append(list, m)
		}
	}
	return list
}

// Relapses tells whether a child that has forgotten would forget again as soon as it
// was reminded, because all its replicas run what its template is.
func Relapses(o *adapters.Observed) bool { return Forgot(o) && allUpdated(o) }

// Undo gives the one of the Unreleased replicas to delete now where no ledger
// decides: one that is not available costs nobody anything, one that is goes while
// all others are available. From a child that works in order nothing is taken above a
// replica that is not ready, since it would not be made again.
func Undo(o *adapters.Observed, now time.Time) []adapters.Replica {
	unreleased := Unreleased(o)
	if len(unreleased) == 0 {
		return nil
	}
	whole := len(o.Members) == int(o.Replicas)
	for _, m := range o.Members {
		available, _ := m.Available(o.MinReadySeconds, now)
		if available {
			continue
		}
		if slices.ContainsFunc(unreleased, func(r adapters.Replica) bool { return r.UID == m.UID }) {
			return []adapters.Replica{m}
		}
		whole = false
		if o.Ordered {
			break
		}
	}
	if !whole {
		return nil
	}
	return unreleased[len(unreleased)-1:]
}
