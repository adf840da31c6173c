// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Forgot reports whether the child has forgotten what its protected replicas run, so
// that it would make them again of something else: of what its template is, or, once it
// has got another one, of what that was.
//
// Trap: a child that has forgotten what its template is not looks like one that has
// finished. But it finishes only when all its replicas are updated, and those that were
// never released cannot be; nor is any replica of a third revision left then.
func Forgot(o *adapters.Observed) bool {
	protected := ProtectedHash(o)
	if o.Traits.Protection == adapters.Withheld {
		return false // it remembers nothing
	}
	if !o.SpecObserved || o.CurrentHash == "" || o.Replicas == 0 || protected == "" || protected == o.CurrentHash {
		return false
	}
	if !statusSettled(o) {
		return RecordedProtectedRevision(o) != ""
	}
	return protectsAnother(o) && (unfinishable(o) || slices.ContainsFunc(o.Pods, func(m adapters.Replica) bool {
		return m.Hash != o.CurrentHash && m.HashChanged == "" && m.Position >= 0 && m.Position < o.Replicas
	}))
}

// unfinishable reports whether the child cannot finish what its template is, since some of its
// replicas were never released to it. Should all run it nevertheless, they came up on
// it while the child had forgotten what else to make them of.
func unfinishable(o *adapters.Observed) bool { return o.Replicas > 0 && neverWhole(o) }

// neverWhole reports whether some replicas of the child were never released to what its template is.
func neverWhole(o *adapters.Observed) bool {
	return protectsAnother(o) && ProtectedHash(o) != "" && ProtectedHash(o) != o.UpdateHash && releasedFrom(o) > 0
}

// remind makes a child remember what it has forgotten. Until it does, it gets nothing
// that would release a replica, or make one; what protects more it gets at once.
func (g *Goal) remind(o *adapters.Observed) Step {
	child := g.child(g.Update)
	child.Partition = max(child.Partition, RecordedPartition(o))
	child.Replicas = min(child.Replicas, o.Replicas)
	protects := child.Partition > o.Partition || child.Replicas < o.Replicas
	// Somebody has opened it, and it is to get another template: it gets that now, since
	// what came up cannot be undone before it is closed, nor be reminded before that.
	opened := o.Partition < RecordedPartition(o)
	why := fmt.Sprintf("%s has forgotten %s; writing what protects its replicas first", o.Meta.Name, RecordedProtectedRevision(o))
	switch {
	case protects && (child.Revision == RevisionOf(o) || opened):
		return Step{Action: ActionApply, Child: child, Reason: why}
	case statusSettled(o) && o.Settles():
		return g.relearn(o)
	}
	if held, ok := g.holdFirst(o, why); ok {
		return held // reminding it may take seconds
	}
	step := Step{
		Action: ActionRemind, Hash: ProtectedHash(o),
		Reason: fmt.Sprintf("%s has forgotten that its protected replicas run %s; restoring that", o.Meta.Name, RecordedProtectedRevision(o)),
	}
	if again := g.relearn(o); again.Action == ActionRelearn {
		step.Instead = &again // its controller makes that revision anew
	}
	return step
}

// relearn gives a child back the template of what it protects, with all of its replicas
// protected, so that none moves. There it can be reminded, and what came up unreleased be
// undone.
//
// Trap: a child all of whose replicas run what its template is, and are ready where its
// kind asks for that, has finished that, and forgets again as soon as it is reminded.
func (g *Goal) relearn(o *adapters.Observed) Step {
	if g.Protected == nil {
		return g.revisionLost()
	}
	child := g.child(*g.Protected)
	if !statusSettled(o) || RevisionOf(o) != g.ProtectedRevision {
		// It would make new ones of what it has not forgotten yet.
		child.Replicas = min(child.Replicas, o.Replicas)
	}
	child.Partition = max(child.Partition, RecordedPartition(o), child.Replicas, o.Replicas)
	child.Seeding = Seeding(o)
	return Step{Action: ActionRelearn, Child: child, Reason: fmt.Sprintf(
		"returning %s to %s until one of its protected replicas runs that", o.Meta.Name, g.ProtectedRevision)}
}

// relearning reports whether the child has the template of what it protects, and none of its replicas
// runs that, though some should. With another template now it might finish that.
func (g *Goal) relearning(o *adapters.Observed) bool {
	return RevisionOf(o) == g.ProtectedRevision && g.Update.Revision != g.ProtectedRevision && statusSettled(o) && len(Unreleased(o)) > 0 &&
		!slices.ContainsFunc(o.Pods, func(m adapters.Replica) bool {
			return m.Hash == o.CurrentHash && !m.Terminating && m.Position >= 0 && m.Position < o.Replicas
		})
}

// Unreleased gives the replicas that came up on another revision than the protected one
// without having been released: on what the child's template is, or was when they did.
// They are to be deleted, so that they come back on what is protected, and that is of use
// only when the child remembers it: there are none while it has forgotten.
func Unreleased(o *adapters.Observed) []adapters.Replica {
	switch {
	case !remembers(o):
		return nil
	case o.Traits.Partition == adapters.ByCount:
		return unreleasedByCount(o)
	}
	var list []adapters.Replica
	for _, m := range o.Pods {
		if unreleased(o, &m) && m.HashChanged == "" {
			list = append(list, m)
		}
	}
	return list
}

// Relabelled gives the replicas that would pass for Unreleased by the label which says what they run,
// and that label was changed or removed by somebody. What they run is not known, so they are left alone.
func Relabelled(o *adapters.Observed) []adapters.Replica {
	if !remembers(o) {
		return nil
	}
	var list []adapters.Replica
	for _, m := range o.Pods {
		switch {
		case m.HashChanged == "":
		case o.Traits.Partition == adapters.ByCount && m.Hash != ProtectedHash(o) && !m.Terminating, unreleased(o, &m):
			list = append(list, m)
		}
	}
	return list
}

// remembers reports whether the child makes its protected replicas of what is on record.
func remembers(o *adapters.Observed) bool {
	return o.SpecObserved && ProtectedHash(o) != "" && o.CurrentHash == ProtectedHash(o)
}

// unreleased reports whether a replica that has an ordinal is of another revision than the protected one,
// by its label, and was not released.
func unreleased(o *adapters.Observed, m *adapters.Replica) bool {
	return m.Position >= 0 && m.Position < min(o.Partition, o.Replicas) && m.Hash != ProtectedHash(o) && !m.Terminating && neverReleased(o, m)
}

// unreleasedByCount is Unreleased of a child whose replicas have no ordinals: as many as there
// are on another revision than the protected one beyond those that were released: as many as the
// template was, or as there are that earlier templates were released to. They are the lowest of
// those: what is neither protected nor updated is taken back first.
//
// While its controller is about to update some, it is not known which; and what were deleted
// then would come back updated.
func unreleasedByCount(o *adapters.Observed) []adapters.Replica {
	protected := ProtectedHash(o)
	var others []adapters.Replica
	old, between := int32(0), int32(0)
	for _, m := range o.Pods {
		if m.Position < 0 || m.Position >= o.Replicas || m.Terminating {
			continue
		}
		if m.Hash != o.UpdateHash {
			old++
		}
		if m.HashChanged != "" {
			continue // what it runs is not known
		}
		if m.Hash != protected {
			others = append(others, m)
		}
		if m.Hash != protected && m.Hash != o.UpdateHash {
			between++
		}
	}
	if old > o.Partition {
		return nil
	}
	from, before := released(o)
	above := func(position int32) int32 { return o.Replicas - min(position, o.Partition, o.Replicas) }
	return others[:max(0, len(others)-int(max(above(from), min(between, above(before)))))]
}

// reminderDelay is how long after a reminder the child's controller may still act on what it
// had forgotten: its cache lags behind the reminder, and it would make of that what is
// deleted now.
const reminderDelay = 3 * time.Second

// ReminderSeenBy is when what came up unreleased may be deleted, since the child's controller
// knows by then of the last reminder that is in the child's managedFields; zero if now.
func ReminderSeenBy(managed []metav1.ManagedFieldsEntry, now time.Time) time.Time {
	var last time.Time
	for _, entry := range managed {
		if entry.Manager == v1alpha1.FieldManager && entry.Subresource == "status" && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	// A clock that is ahead of ours must not make us wait until then.
	if until := last.Add(reminderDelay); last.Before(now.Add(reminderDelay)) && until.After(now) {
		return until
	}
	return time.Time{}
}

// DeletableUnreleased gives the one of the Unreleased replicas to delete now where no ledger
// decides: one that is not available costs nobody anything, one that is goes while
// all others are available. From a child that works in order nothing is taken above a
// replica that is not ready, since it would not be made again.
func DeletableUnreleased(o *adapters.Observed, now time.Time) []adapters.Replica {
	unreleased := Unreleased(o)
	if len(unreleased) == 0 {
		return nil
	}
	whole := len(o.Pods) == int(o.Replicas)
	for _, m := range o.Pods {
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
