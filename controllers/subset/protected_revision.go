// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subset decides how one child workload is brought to what it shall be.
//
// Next looks at what a child shall be and what it is, and names the next write.
// Package writer carries that out. Stuck names the replicas that the child's own
// controller would wait for forever. All of it is pure: it has no client, no clock
// and no logger, and remembers nothing.
//
// # What a child remembers
//
// A StatefulSet makes its replicas below the partition of its
// status.currentRevision and the others of its status.updateRevision. The
// former becomes the latter when all replicas are updated and ready, which is
// what we want, and also when there are no replicas at all, which is not: a set
// that was scaled to 0 in the middle of a canary comes back on the new revision
// alone. So a child that starts from nothing while its protected revision is
// another than the update revision is seeded (seed.go): it gets the protected one
// first, with the replicas that are protected, and the update revision when those
// exist and its controller has taken note of that.
//
// It forgets also when its controller does not see its ControllerRevisions, as for
// some seconds after the API server was restarted. So what it is to remember is
// on record, and it is reminded (forgotten.go).
package subset

import (
	"strconv"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// RevisionOf is the parent revision that the child's template is.
func RevisionOf(o *adapters.Observed) string {
	return o.Meta.Annotations[v1alpha1.AnnotationRevision]
}

// RecordedProtectedRevision is the parent revision that the child was told to protect when it was last
// written, "" if none.
func RecordedProtectedRevision(o *adapters.Observed) string {
	return o.Meta.Annotations[v1alpha1.AnnotationProtectedRevision]
}

// LooksFinished reports whether the child makes all its replicas of what its protected ones
// run, though its template is said to be another parent revision. It is so where both make
// the same pods.
func LooksFinished(o *adapters.Observed) bool {
	return statusSettled(o) && o.Replicas > 0 && protectsAnother(o) && ProtectedHash(o) == o.UpdateHash
}

// statusSettled reports whether the child's controller has taken note of the spec, and makes every
// replica of the one revision that its template is.
func statusSettled(o *adapters.Observed) bool {
	return o.SpecObserved && o.CurrentHash != "" && o.CurrentHash == o.UpdateHash
}

// finishing reports whether all replicas are updated and ready, and the child's controller is about
// to settle on what they run (its completeRollingUpdate).
func finishing(o *adapters.Observed) bool {
	return o.SpecObserved && !statusSettled(o) && !unfinishable(o) && o.AllUpdated()
}

// Protected is the parent revision that the child's protected ordinals run, as
// the child itself tells; "" when it does not know. known is what the parent's
// status says of it, which speaks of generation knownAt: it is ahead of the child
// between the end of a rollout and the next write, because the end alone is not
// worth one. A status of an earlier generation than the child was written from
// knows nothing: a pass that was killed has written the child, and not the status.
// Nor is it believed of a child that cannot have finished: somebody has forged it.
func Protected(o *adapters.Observed, known string, knownAt int64) string {
	revision := RevisionOf(o)
	switch note := RecordedProtectedRevision(o); {
	case o.Replicas > 0 && len(lostAnnotations(o)) > 0:
		return ""
	case known != "" && known == revision && knownAt >= ParentGeneration(o) && !neverWhole(o):
		return revision
	case o.Replicas == 0:
		// A child without replicas settles on anything, and never finishes. One that somebody
		// scaled to zero may have finished before, but only the status tells.
		return note
	case statusSettled(o) && !Forgot(o) && (note == "" || replicasKnown(o)) && (!o.Traits.Hasty || note == "" || o.AllUpdated()):
		return revision // one that is hasty may have settled on what was never ready
	case note != "":
		return note
	default:
		return revision
	}
}

// replicasKnown reports whether what is known of the replicas of a child that has settled is no older
// than its status. One that has forgotten is told from one that has finished by its replicas; but
// it may have made new ones, and ended those that would tell, and these are not known yet.
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
	return updated >= o.Replicas // only not whether they are ready
}

// MissedProtectedRevision reports whether the child missed the revision that the status says it
// protects, and that speaks of a later generation of the parent than the child.
// That happens when a corrected template could not reach the child before another
// subset's first replica was ready: what the child has never worked. (As a rule
// the child is ahead: then its template or its note is what the status knows, or
// the status is the older.)
func MissedProtectedRevision(o *adapters.Observed, known string, knownAt int64) bool {
	// One that protects another revision than its template was written since then.
	return known != "" && known != RevisionOf(o) && known != RecordedProtectedRevision(o) && !protectsAnother(o) && ParentGeneration(o) < knownAt
}

// FirstRolloutPending reports whether the child's template was replaced while there was
// nothing to protect, and its controller has not settled since. It may remember
// a revision that never worked, so a partition would hold replicas on that.
func FirstRolloutPending(o *adapters.Observed) bool {
	return RecordedProtectedRevision(o) == "" && !statusSettled(o) && o.Traits.Protection != adapters.Withheld
}

// ParentGeneration is the generation of the parent that the child was written
// from; 0 when that is not on record or cannot be read.
func ParentGeneration(o *adapters.Observed) int64 {
	generation, err := strconv.ParseInt(o.Meta.Annotations[v1alpha1.AnnotationParentGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

// Protects reports whether the child was told to protect another revision than
// the one its template is, or will be when it is seeded.
func Protects(o *adapters.Observed) bool { return protectsAnother(o) || Seeding(o) }

func protectsAnother(o *adapters.Observed) bool {
	note := RecordedProtectedRevision(o)
	return note != "" && note != RevisionOf(o)
}

// WrittenLater reports whether the child was written from a later generation of
// its parent than the given one. Whoever sees that looks at a stale parent.
func WrittenLater(o *adapters.Observed, generation int64) bool {
	return ParentGeneration(o) > generation
}
