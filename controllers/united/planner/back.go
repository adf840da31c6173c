// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
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
	if in.Update.WentBack() {
		return false
	}
	return in.Update.Name == current || slices.ContainsFunc(in.ranBefore(current), func(r *revision.Revision) bool { return r.Name == in.Update.Name })
}

// UnrecordedLeft returns a revision, and what is to be recorded on it: that the rollout is on the way back from it, and which
// annotations are spent because it is left, or that one is no longer spent, because somebody has removed it. It returns nil if
// there is nothing to record.
func (in *Input) UnrecordedLeft(p *Plan) (*revision.Revision, string) {
	current, last := revision.ByName(in.Kept(), p.CurrentRevision), revision.ByName(in.Kept(), in.Parent.Status.UpdateRevision)
	if p.Rollout != nil && p.GoesBack && current != nil && current.Name != in.Update.Name && !current.WentBack() {
		return current, cmp.Or(in.leftRecord(current, ""), "true")
	}
	asked := in.Asked()
	if last != nil && last.Name != asked.Name {
		if record := leftAs(last, in.leftRecord(last, "")); record != last.Left() {
			return last, record
		}
	}
	if asked.Left() == "" || revision.ByName(in.Kept(), asked.Name) == nil {
		return nil, ""
	}
	if record := leftAs(asked, in.leftRecord(asked, asked.Left())); record != asked.Left() {
		return asked, record
	}
	return nil, ""
}

// leftAs is the record of a revision that was left, with the annotations that are spent: on the way back from it, as the record so
// far says, or not, and then there is none without annotations.
func leftAs(r *revision.Revision, spent string) string {
	switch {
	case r.WentBack():
		return cmp.Or(spent, "true")
	case spent == "":
		return ""
	}
	return revision.LeftForward + "," + spent
}

// spendable are the annotations that are spent when their revision is left, and how the record says so.
var spendable = []struct{ annotation, record string }{
	{v1alpha1.AnnotationForceUpdate, "forced"}, {v1alpha1.AnnotationPromote, "promoted"}, {v1alpha1.AnnotationRetry, recordRetried},
}

const recordRetried = "retried"

// spent returns how the record says that a value of an annotation is spent; "" if the value is not for the revision. Retry
// has several values for one revision, which are spent one by one.
func spent(annotation, record, value, revision string) string {
	switch {
	case annotation == v1alpha1.AnnotationRetry && value != revision && coordination.NamesRevision(value, revision):
		return record + "-" + coordination.RetryKey(value)
	case value == revision:
		return record
	}
	return ""
}

// maxRetried is how many values of the annotation united.dev/retry are remembered of a revision.
const maxRetried = 20

// leftRecord returns the record of a revision that is left: which annotations that name it are spent, so that they do not move it
// when it comes again; "" if none is. The first time (was is "") these are all that name it; later only those of them that are in
// the record already, so that one that is set again counts. A value of retry stays in the record even when it is removed.
func (in *Input) leftRecord(r *revision.Revision, was string) string {
	var all, retried []string
	for entry := range strings.SplitSeq(r.Left(), ",") {
		if strings.HasPrefix(entry, recordRetried) {
			retried = append(retried, entry)
		}
	}
	for _, s := range spendable {
		record := spent(s.annotation, s.record, in.Parent.Annotations[s.annotation], r.Name)
		switch {
		case record == "" || was != "" && !isSpent(was, record):
		case s.annotation != v1alpha1.AnnotationRetry:
			all = append(all, record)
		case !slices.Contains(retried, record):
			retried = append(retried, record)
		}
	}
	return strings.Join(append(all, retried[max(0, len(retried)-maxRetried):]...), ",")
}

func isSpent(left, record string) bool {
	return record != "" && slices.Contains(strings.Split(left, ","), record)
}

// moving returns the value of an annotation that moves a rollout; "" if it is for a rejected revision, of which its rejection says
// what would move it.
func (in *Input) moving(annotation string) string {
	value := in.Parent.Annotations[annotation]
	if in.Rejected != nil && coordination.NamesRevision(value, in.Rejected.Name) {
		return ""
	}
	return value
}

// retrying is moving for united.dev/retry; "" also if the value is spent.
func (in *Input) retrying() string {
	value := in.moving(v1alpha1.AnnotationRetry)
	if Spent(in.Update.Left(), v1alpha1.AnnotationRetry, value, in.Update.Name) {
		return ""
	}
	return value
}

// spentValues returns which values of force and promote do not count, for status.rollout.spent: those that were there when the
// rollout began. For the status that is when it first names the revision that the spec asks for, and again when that is rejected;
// without a status, nobody knows what came later. Of what a status of an earlier version does not have, the revision has a record.
func (in *Input) spentValues() string {
	status, asked := &in.Parent.Status, in.Asked()
	r := status.Rollout
	if r == nil || status.UpdateRevision != asked.Name || in.Rejected != nil && r.RejectedRevision != asked.Name {
		return coordination.SpentBy(in.Parent.Annotations)
	}
	spent := r.Spent
	for _, s := range spendable {
		if s.annotation != v1alpha1.AnnotationRetry && Spent(asked.Left(), s.annotation, in.Parent.Annotations[s.annotation], asked.Name) {
			spent = coordination.AlsoSpent(spent, in.Parent.Annotations, s.annotation)
		}
	}
	return spent
}

// Spent reports whether the record of a revision that was left (v1alpha1.AnnotationLeft) says that the value of an annotation is
// spent.
func Spent(left, annotation, value, revision string) bool {
	for _, s := range spendable {
		if s.annotation == annotation && isSpent(left, spent(annotation, s.record, value, revision)) {
			return true
		}
	}
	return false
}
