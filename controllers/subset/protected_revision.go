// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subset decides how one child workload reaches its desired state.
//
// Next compares the desired and the observed state of a child, and returns the next write. Package writer executes
// that. Stuck returns the replicas for which the child's own controller would wait forever. All functions are pure:
// they have no client, no clock and no logger, and keep no state.
//
// # What a child remembers
//
// A StatefulSet creates its replicas below the partition from its status.currentRevision, and the others from its
// status.updateRevision. It sets currentRevision to updateRevision when all replicas are updated and ready, which is
// what we want. But it also does so when there are no replicas at all, which is not: a set that was scaled to 0 in the
// middle of a canary comes back with only the new revision. So if a child starts from nothing while its protected
// revision differs from the update revision, it is seeded (seed.go): it gets the protected revision first, with the
// protected replicas, and the update revision once those exist and its controller has recorded the protected one.
//
// A child also forgets its protected revision if its controller does not see the child's ControllerRevisions, for
// example for some seconds after a restart of the API server. So United records what the child should remember, and
// reminds the child of it (forgotten.go).
package subset

import (
	"strconv"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// RevisionOf returns the parent revision of the child's template.
func RevisionOf(o *adapters.Observed) string {
	return o.Meta.Annotations[v1alpha1.AnnotationRevision]
}

// RecordedProtectedRevision returns the protected revision that United recorded on the child with its last write, or
// "".
func RecordedProtectedRevision(o *adapters.Observed) string {
	return o.Meta.Annotations[v1alpha1.AnnotationProtectedRevision]
}

// LooksFinished reports whether the child creates all its replicas from the revision of its protected ones, although
// its template has another parent revision. That happens if both have the same pods.
func LooksFinished(o *adapters.Observed) bool {
	return statusSettled(o) && o.Replicas > 0 && protectsAnother(o) && ProtectedHash(o) == o.UpdateHash
}

// statusSettled reports whether the child's controller has observed the spec, and creates all replicas from the
// revision of the template.
func statusSettled(o *adapters.Observed) bool {
	return o.SpecObserved && o.CurrentHash != "" && o.CurrentHash == o.UpdateHash
}

// Finished reports whether the child has finished its template: all its replicas run it, are ready, and were released to it.
func Finished(o *adapters.Observed) bool {
	return o.SpecObserved && !Forgot(o) && len(Unreleased(o)) == 0 && o.AllUpdated()
}

// finishing reports whether all replicas are updated and ready, and the child's controller is about to make their
// revision the current one (its completeRollingUpdate).
func finishing(o *adapters.Observed) bool {
	return o.SpecObserved && !statusSettled(o) && !unfinishable(o) && o.AllUpdated()
}

// Protected returns the parent revision of the child's protected ordinals according to the child itself; "" if it does
// not know. known is the revision in the parent's status, which is for generation knownAt. The status is ahead of the
// child between the end of a rollout and the next write, because the end alone does not cause a write. A status of an
// earlier generation than that of the child's last write is ignored: an interrupted pass wrote the child, but not the
// status. The status is also ignored if the child cannot have finished: then somebody has forged it.
func Protected(o *adapters.Observed, known string, knownAt int64) string {
	revision := RevisionOf(o)
	switch note := RecordedProtectedRevision(o); {
	case o.Replicas > 0 && len(lostAnnotations(o)) > 0:
		return ""
	case known != "" && known == revision && knownAt >= ParentGeneration(o) && !neverWhole(o):
		return revision
	case o.Replicas == 0:
		// A child without replicas settles on any template, and never finishes. If somebody scaled it to zero, it may
		// have finished before, but only the status shows that.
		return note
	case statusSettled(o) && !Forgot(o) && (note == "" || replicasKnown(o)) && (!o.Traits.Hasty || note == "" || o.AllUpdated()):
		return revision // a hasty one may have settled on a revision that was never ready
	case note != "":
		return note
	default:
		return revision
	}
}

// replicasKnown reports whether the observed replicas of a settled child are at least as new as its status. Only the
// replicas distinguish a child that has forgotten from one that has finished. But the child may have created new ones,
// and deleted those that would show the difference, and we may not have observed that yet.
func replicasKnown(o *adapters.Observed) bool {
	if !o.StatusOutdated {
		return true
	}
	updated := int32(0)
	for _, m := range o.Pods {
		if m.Position >= 0 && m.Position < o.Replicas && m.Hash == o.CurrentHash {
			updated++
		}
	}
	return updated >= o.Replicas // the only unknown is whether they are ready
}

// MissedProtectedRevision reports whether the child missed the protected revision in the status, which is for a later
// generation of the parent than the child. That happens if a corrected template could not reach the child before
// another subset's first replica was ready: the child's template has never worked. (Normally the child is ahead: then
// either its template or its protected revision is the one in the status, or the status is older.)
func MissedProtectedRevision(o *adapters.Observed, known string, knownAt int64) bool {
	// A child that protects another revision than its template was written after that.
	return known != "" && known != RevisionOf(o) && known != RecordedProtectedRevision(o) && !protectsAnother(o) && ParentGeneration(o) < knownAt
}

// FirstRolloutPending reports whether the child's template was replaced while there was nothing to protect, and its
// controller has not settled since. It may remember a revision that never worked, so a partition would keep replicas on
// that.
func FirstRolloutPending(o *adapters.Observed) bool {
	return RecordedProtectedRevision(o) == "" && !statusSettled(o) && o.Traits.Protection != adapters.Withheld
}

// ParentGeneration returns the generation of the parent for which the child was written; 0 if that is not recorded, or
// cannot be parsed.
func ParentGeneration(o *adapters.Observed) int64 {
	generation, err := strconv.ParseInt(o.Meta.Annotations[v1alpha1.AnnotationParentGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

// Protects reports whether the child protects, or will protect after it is seeded, another revision than that of its
// template.
func Protects(o *adapters.Observed) bool { return protectsAnother(o) || Seeding(o) }

func protectsAnother(o *adapters.Observed) bool {
	note := RecordedProtectedRevision(o)
	return note != "" && note != RevisionOf(o)
}

// WrittenLater reports whether the child was written for a later generation of its parent than the given one. If so,
// the caller has a stale parent.
func WrittenLater(o *adapters.Observed, generation int64) bool {
	return ParentGeneration(o) > generation
}
