// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package known has the words for what one pass knows of a subset. It is a leaf, so that the packages that know nothing of
// each other get the same.
package known

import "github.com/unitedworkloads/united/adapters"

// Facts is what one pass knows of a subset: what its child says, and what the planner adds to that. It is made once in a
// pass, and packages coordination and subset get it as it is.
type Facts struct {
	// Observed is the child; nil if it does not exist, or cannot be read.
	Observed *adapters.Observed
	// Revision is the name of the parent revision of the child's template (subset.RevisionOf).
	Revision string
	// Recorded is the partition that the child was last given, because somebody else may have set the one in its spec
	// (subset.RecordedPartition). It is nil if there is no child.
	Recorded *int32
	// RecordedRevision is the protected revision according to the child's record (subset.RecordedProtectedRevision), and
	// ProtectedHash the child's own revision of that; "" without a record.
	RecordedRevision, ProtectedHash string
	// Seeding: the child is about to learn what it protects.
	Seeding bool
	// FirstRolloutPending: the child's template replaced another before any replica was ever ready, and the child
	// has not come up on it since. The whole child is open to it.
	FirstRolloutPending bool
	// Forgot: the child creates all of its pods on the update revision although it protects another.
	Forgot bool
	// Unreleased are replicas that came up on the update revision without having been released. They are deleted,
	// so that they come back on the protected revision.
	Unreleased []adapters.Replica

	// Asked is what was last asked of the subset; nil if nothing is on record.
	Asked *Asked

	// Unreadable is why the child cannot be read; "" if it can, or if there is none.
	Unreadable string
	// LastAvailable is how many replicas of an unreadable child were last known to be available.
	LastAvailable int32
	// LastPartition is the partition that was last in force, for a child that no longer exists; MaxInt32 if unknown.
	LastPartition int32
	// ProtectedRevision is the name of the revision of the protected replicas.
	ProtectedRevision string
	// MissedProtectedRevision: the child still has a template from before the protected revision, and so nothing that
	// ever worked.
	MissedProtectedRevision bool
	// Reverted: the child has the template of the revision that it protects, although it was written with another one.
	Reverted bool
	// Proven: the protected revision makes the same pods as the update revision.
	Proven bool
	// OnUpdate: the template of the child makes the pods of the update revision, by whatever name it has it.
	OnUpdate bool
	// UpdatedHash is the child's own revision of the replicas whose pods the update revision makes; "" if there are none. A child
	// that has not got its template back yet, because the rollout is paused or the write is refused, may protect them.
	UpdatedHash string
	// Contested: somebody lowers the partition of the child again and again, and the child must be kept as it is.
	Contested bool
}

// Runs returns the name of the parent revision that the child's template really is.
func (f *Facts) Runs() string {
	if f.Reverted {
		return f.RecordedRevision // it does not have the other one
	}
	return f.Revision
}
