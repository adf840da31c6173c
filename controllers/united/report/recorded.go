// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Unrecorded returns the current revision of a status, and the number of the last record, if that revision should
// be recorded: all replicas were seen to run it, or nothing is on record yet. It returns nil if there is nothing
// to record; a parent that is not initialized has nothing to go back to.
func Unrecorded(in *planner.Input, p *planner.Plan, status *v1alpha1.UnitedDeploymentStatus) (*revision.Revision, int64) {
	last, number := revision.LastCurrent(in.Revisions, in.Parent.UID)
	switch {
	case !p.Initialized, planner.NameOf(last) == status.CurrentRevision && (last == nil || last.Left() == "" || !seenCurrent(p, status)):
		return nil, 0
	case last != nil && status.CurrentRevision == in.BelievedCurrent() && !seenCurrent(p, status):
		return nil, 0 // believed, but not seen
	}
	return revision.ByName(in.Kept(), status.CurrentRevision), number
}

// seenCurrent reports whether, according to a status, all requested replicas exist, run its current revision, and are ready, and no
// rollout to that is under way: its last step could still be refused. Without that, it is only believed that all replicas ran it.
func seenCurrent(p *planner.Plan, status *v1alpha1.UnitedDeploymentStatus) bool {
	return !unfinished(p) && status.CurrentRevision == status.UpdateRevision && status.Replicas > 0 &&
		!slices.ContainsFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool {
			return s.Replicas != s.DesiredReplicas || s.UpdatedReadyReplicas != s.DesiredReplicas
		})
}
