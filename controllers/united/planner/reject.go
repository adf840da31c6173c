// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Asked returns the revision that the spec asks for, rejected or not.
func (in *Input) Asked() *revision.Revision { return cmp.Or(in.Rejected, in.Update) }

// stranded reports whether the revision that the spec asks for is rejected, and none is proven that could take its place. Then
// everything stays as it is.
func (in *Input) stranded() bool { return in.Rejected != nil && in.Rejected == in.Update }

// insteadOfRejected completes an input whose update revision is the one that the spec asks for: if that is rejected, the
// current revision takes its place, so that the rollout is the way back.
func (in *Input) insteadOfRejected() {
	in.Rejected = nil
	if !in.isRejected() || in.retries() {
		return
	}
	in.Rejected = in.Update
	if back := in.proven(); back != nil {
		in.Update = back
	}
}

// isRejected reports whether the revision that the spec asks for was rejected. Its record says so, or the status, if somebody
// has removed the record. With type Manual, the user decides.
func (in *Input) isRejected() bool {
	rollout := in.Parent.Status.Rollout
	return in.Coordinates() && (in.Update.Rejected() != "" || rollout != nil && rollout.RejectedRevision == in.Update.Name)
}

// retries reports whether the user asks to roll out the rejected revision once more, which each value of the annotation does
// once.
func (in *Input) retries() bool {
	value, name := in.Parent.Annotations[v1alpha1.AnnotationRetry], in.Update.Name
	return coordination.NamesRevision(value, name) && !Spent(in.Update.Left(), v1alpha1.AnnotationRetry, value, name)
}

// proven returns the current revision, if it is not the one that the spec asks for, and going to it is the way back; nil
// otherwise. The name of it is that of a plan that goes there, which trusts the status less.
func (in *Input) proven() *revision.Revision {
	asked, there := in.Asked(), *in
	name := cmp.Or(in.BelievedCurrent(), in.oldestProtected(""))
	if there.Update = revision.ByName(in.Kept(), name); there.Update == nil {
		return nil
	}
	current := revision.ByName(in.Kept(), there.BelievedCurrent())
	if current == nil || current.Name == asked.Name || current.WentBack() {
		return nil
	}
	return current
}

// Rejection is what is to be recorded on a revision: why it is rejected, or that it is no longer ("").
type Rejection struct {
	*revision.Revision
	// Left is its record as in v1alpha1.AnnotationLeft.
	Left, Why string
}

// maxWhyRejected bounds the reason on record.
const maxWhyRejected = 512

// UnrecordedRejection returns what is to be recorded of the revision that the spec asks for, because the plan has found that
// it failed, or because the user retries it; nil if that is on record. Nothing goes back before.
func (in *Input) UnrecordedRejection(p *Plan) *Rejection {
	asked, strategy := revision.ByName(in.Kept(), in.Asked().Name), in.Parent.Spec.UpdateStrategy.RollingUpdate
	switch {
	case asked == nil || !in.Coordinates():
	case in.Rejected != nil && asked.Rejected() == "":
		return &Rejection{asked, cmp.Or(asked.Left(), in.leftRecord(asked, ""), "true"), "it failed; the record of that was removed"}
	case in.Rejected != nil:
	case asked.Rejected() != "":
		return &Rejection{asked, cmp.Or(in.leftRecord(asked, asked.Left()), "true"), ""}
	case p.Rollout == nil || p.Rollout.Failure == "" || p.GoesBack || in.proven() == nil:
	case strategy != nil && strategy.OnFailure == v1alpha1.RollbackOnFailure:
		why := p.Rollout.Failure
		return &Rejection{asked, cmp.Or(in.leftRecord(asked, ""), "true"), strings.ToValidUTF8(why[:min(len(why), maxWhyRejected)], "")}
	}
	return nil
}

// lastRejected returns the name of the rejected revision that was used last; "" if there is none.
func (in *Input) lastRejected() string {
	var last *revision.Revision
	for _, r := range in.Revisions {
		if r.Rejected() != "" && (last == nil || r.Number > last.Number) {
			last = r
		}
	}
	return NameOf(last)
}

// isRejectedBy reports whether a revision was rejected by a rollout, so that it does not become the current one, whatever the
// replicas run.
func (in *Input) isRejectedBy(rollout *v1alpha1.RolloutStatus, name string) bool {
	r := revision.ByName(in.Revisions, name)
	return rollout.RejectedRevision == name || r != nil && r.Rejected() != ""
}
