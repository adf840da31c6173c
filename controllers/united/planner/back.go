// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// defaultRollbackRevisions is the default of the CRD.
const defaultRollbackRevisions = 1

// ranBefore returns the revisions before the current one to which going back is the way back.
func (in *Input) ranBefore(current string) []*revision.Revision {
	most := int32(defaultRollbackRevisions)
	if strategy := in.Parent.Spec.UpdateStrategy.RollingUpdate; strategy != nil {
		most = ptr.Deref(strategy.RollbackRevisions, most)
	}
	if !in.Coordinates() {
		return nil
	}
	return revision.RanBefore(in.Revisions, in.Parent.UID, current, int(most))
}

// goesBack reports whether the rollout is the way back: to the current revision, or to one that was current before it. A
// revision that was left on the way back itself must first be rolled out again, or a manifest with it would pass every gate.
func (in *Input) goesBack(current string) bool {
	if in.Update.Left() != "" {
		return false
	}
	return in.Update.Name == current || slices.ContainsFunc(in.ranBefore(current), func(r *revision.Revision) bool { return r.Name == in.Update.Name })
}

// UnrecordedLeft returns a revision, and what is to be recorded on it: that the rollout is on the way back from it, or that
// its force is no longer spent, because somebody has removed it. It returns nil if there is nothing to record.
func (in *Input) UnrecordedLeft(p *Plan) (*revision.Revision, string) {
	forced := in.Parent.Annotations[v1alpha1.AnnotationForceUpdate]
	current := revision.ByName(in.Kept(), p.CurrentRevision)
	switch {
	case p.Rollout != nil && p.GoesBack && current != nil && current.Name != in.Update.Name && current.Left() == "":
		if forced == current.Name {
			return current, leftForced
		}
		return current, "true"
	case in.Update.Left() == leftForced && forced != in.Update.Name && revision.ByName(in.Kept(), in.Update.Name) != nil:
		return in.Update, "true"
	}
	return nil, ""
}

const leftForced = "forced"

// force returns the annotation that forces a rollout; "" if it is spent.
func (in *Input) force() string {
	if in.Update.Left() == leftForced {
		return ""
	}
	return in.Parent.Annotations[v1alpha1.AnnotationForceUpdate]
}
