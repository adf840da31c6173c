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
	"github.com/unitedworkloads/united/controllers/united/known"
)

// Forgot reports whether the child has forgotten what its protected replicas run. If it has, it would create them again
// with another revision: that of its template or, if it got another template since, that of the previous one.
//
// Trap: a child that has forgotten a revision other than that of its template looks like one that has finished. But a
// child finishes only when all its replicas are updated, which those that were never released cannot be, and then no
// replica of a third revision is left either.
func Forgot(o *adapters.Observed) bool {
	protected := ProtectedHash(o)
	if o.Traits.Protection == adapters.Withheld {
		return false // it does not remember anything
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

// unfinishable reports whether the child cannot finish its template, because some of its replicas were never released
// to it. If all replicas run the template nevertheless, some of them came up on it while the child had forgotten the
// protected revision.
func unfinishable(o *adapters.Observed) bool { return o.Replicas > 0 && neverWhole(o) }

// neverWhole reports whether some replicas of the child were never released to its template. Trap: until its controller has
// observed that, the hash of the template is that of an earlier one, perhaps of the protected revision.
func neverWhole(o *adapters.Observed) bool {
	differs := !o.SpecObserved || ProtectedHash(o) != o.UpdateHash
	return protectsAnother(o) && ProtectedHash(o) != "" && differs && releasedFrom(o) > 0
}

// remind returns the step for a child that has forgotten what its protected replicas run. Until the child remembers
// that, it gets nothing that would release or create a replica; but it gets at once what protects more replicas.
func (g *Goal) remind(o *adapters.Observed) Step {
	child := g.child(g.Update)
	child.Partition = max(child.Partition, *g.Recorded)
	child.Replicas = min(child.Replicas, o.Replicas)
	protects := child.Partition > o.Partition || child.Replicas < o.Replicas
	// Somebody has lowered the partition, and the child is due for another template. It gets that now: what came up
	// cannot be undone, and the child cannot be reminded, before the partition is raised again.
	opened := o.Partition < *g.Recorded
	why := fmt.Sprintf("%s has forgotten %s; writing what protects its replicas first", o.Meta.Name, known.Short(g.RecordedRevision))
	switch {
	case protects && (child.Revision == g.Revision || opened):
		return Step{Action: ActionApply, Child: child, Reason: why}
	case statusSettled(o) && o.Settles():
		return g.relearn(o)
	}
	if held, ok := g.holdFirst(o, why); ok {
		return held // the reminder may take seconds
	}
	step := Step{
		Action: ActionRemind, Hash: g.ProtectedHash,
		Reason: fmt.Sprintf("%s has forgotten that its protected replicas run %s; restoring that", o.Meta.Name, known.Short(g.RecordedRevision)),
	}
	if again := g.relearn(o); again.Action == ActionRelearn {
		step.Instead = &again // the child's controller creates that revision again
	}
	return step
}

// relearn returns a child to the template of its protected revision, with all of its replicas protected, so that none
// is replaced. With that template the child can be reminded, and replicas that came up unreleased can be replaced.
//
// Trap: if all replicas of a child run its template (and are ready, if its kind requires that), the child has finished
// the template, and forgets again as soon as it is reminded.
func (g *Goal) relearn(o *adapters.Observed) Step {
	if g.Protected == nil {
		return g.revisionLost()
	}
	child := g.child(*g.Protected)
	if !statusSettled(o) || g.Revision != g.ProtectedRevision {
		// The child would create new replicas on the revision that it has not forgotten yet.
		child.Replicas = min(child.Replicas, o.Replicas)
	}
	child.Partition = max(child.Partition, *g.Recorded, child.Replicas, o.Replicas)
	child.Seeding = g.Seeding
	return Step{Action: ActionRelearn, Child: child, Reason: fmt.Sprintf(
		"returning %s to %s until one of its protected replicas runs that", o.Meta.Name, known.Short(g.ProtectedRevision))}
}

// relearning reports whether the child has the template of its protected revision, but none of its replicas runs that,
// though some should. If it got another template now, it might finish that one.
func (g *Goal) relearning(o *adapters.Observed) bool {
	return g.Revision == g.ProtectedRevision && g.Update.Revision != g.ProtectedRevision && statusSettled(o) && len(g.Unreleased) > 0 &&
		!slices.ContainsFunc(o.Pods, func(m adapters.Replica) bool {
			return m.Hash == o.CurrentHash && !m.Terminating && m.Position >= 0 && m.Position < o.Replicas
		})
}

// Unreleased returns the replicas that came up on another revision than the protected one without having been released:
// on the child's template, or on what that was at the time. They are deleted so that they come back on the protected
// revision. That helps only if the child remembers it, so the list is empty while the child has forgotten it.
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

// Relabelled returns the replicas that would count as Unreleased by the label for their revision, but somebody has
// changed or removed that label. It is not known what they run, so they are left alone.
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

// remembers reports whether the child creates its protected replicas from the recorded revision.
func remembers(o *adapters.Observed) bool {
	return o.SpecObserved && ProtectedHash(o) != "" && o.CurrentHash == ProtectedHash(o)
}

// unreleased reports whether a replica with an ordinal has another revision than the protected one, according to its
// label, and was not released.
func unreleased(o *adapters.Observed, m *adapters.Replica) bool {
	return m.Position >= 0 && m.Position < min(o.Partition, o.Replicas) && m.Hash != ProtectedHash(o) && !m.Terminating && neverReleased(o, m)
}

// unreleasedByCount is Unreleased for a child whose replicas have no ordinals. It returns the replicas on other
// revisions than the protected one that exceed the number of released ones: either as many as the current template was
// released to, or as many as still run earlier templates that were released. It returns the lowest of them, because
// replicas that are neither protected nor updated are replaced first.
//
// While the child's controller is about to update some replicas, it is not known which, and replicas that are deleted
// then would come back updated. So the list is empty then.
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
			continue // it is not known what the replica runs
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

// reminderDelay is how long after a reminder the child's controller may still act on what it had forgotten. Its cache
// lags behind the reminder, and it would create replicas that are deleted now on the wrong revision.
const reminderDelay = 3 * time.Second

// ReminderSeenBy returns when unreleased replicas may be deleted, because by then the child's controller has seen the
// last reminder in the child's managedFields. It is zero if they may be deleted now.
func ReminderSeenBy(managed []metav1.ManagedFieldsEntry, now time.Time) time.Time {
	var last time.Time
	for _, entry := range managed {
		if entry.Manager == v1alpha1.FieldManager && entry.Subresource == "status" && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	// If a clock is ahead of ours, we must not wait until it is that time here.
	if until := last.Add(reminderDelay); last.Before(now.Add(reminderDelay)) && until.After(now) {
		return until
	}
	return time.Time{}
}

// DeletableUnreleased returns the one of the Unreleased replicas to delete now if no ledger decides. A replica that is
// not available can be deleted at no cost. One that is available is deleted only while all others are available too. In
// an ordered child no replica above an unready one is deleted, because it would not be created again.
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
