// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"
	"strings"

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

// UnrecordedLeft returns a revision, and what is to be recorded on it: that the rollout is on the way back from it, and which
// annotations are spent with that, or that one is no longer spent, because somebody has removed it. It returns nil if there is
// nothing to record.
func (in *Input) UnrecordedLeft(p *Plan) (*revision.Revision, string) {
	current := revision.ByName(in.Kept(), p.CurrentRevision)
	switch {
	case p.Rollout != nil && p.GoesBack && current != nil && current.Name != in.Update.Name && current.Left() == "":
		return current, in.leftRecord(current.Name, "")
	case in.Update.Left() == "" || revision.ByName(in.Kept(), in.Update.Name) == nil:
		return nil, ""
	}
	if record := in.leftRecord(in.Update.Name, in.Update.Left()); record != in.Update.Left() {
		return in.Update, record
	}
	return nil, ""
}

// spendable are the annotations that are spent when their revision is left, and how the record says so.
var spendable = []struct{ annotation, record string }{{v1alpha1.AnnotationForceUpdate, "forced"}, {v1alpha1.AnnotationPromote, "promoted"}}

// leftRecord returns the record of a revision that is left: the annotations that name it, of those that were spent, if anything
// was recorded before, and otherwise of all; "true" if there is none.
func (in *Input) leftRecord(name, was string) string {
	var spent []string
	for _, s := range spendable {
		if in.Parent.Annotations[s.annotation] == name && (was == "" || isSpent(was, s.record)) {
			spent = append(spent, s.record)
		}
	}
	return cmp.Or(strings.Join(spent, ","), "true")
}

func isSpent(left, record string) bool { return slices.Contains(strings.Split(left, ","), record) }

// unspent returns the value of an annotation that moves a rollout; "" if it is spent.
func (in *Input) unspent(annotation string) string {
	if Spent(in.Update.Left(), annotation) {
		return ""
	}
	return in.Parent.Annotations[annotation]
}

// Spent reports whether the record of a revision that was left (v1alpha1.AnnotationLeft) says that an annotation is spent.
func Spent(left, annotation string) bool {
	for _, s := range spendable {
		if s.annotation == annotation && isSpent(left, s.record) {
			return true
		}
	}
	return false
}
