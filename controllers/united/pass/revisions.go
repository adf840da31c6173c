// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package pass

import (
	"slices"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// keep stores the revision that the spec asks for, or makes it the latest, and amends those in use. It returns the input with the
// revisions as they are stored then.
func keep(in *planner.Input, hands Hands) (*planner.Input, error) {
	kept, asked, err := in.Kept(), in.Asked(), error(nil)
	inUse, living := in.InUse(), in.Spec.Overlays()
	if !asked.Stored() {
		if asked, err = hands.Store(in, kept); err != nil {
			return nil, err
		}
		kept = append(slices.DeleteFunc(kept, func(r *revision.Revision) bool { return r.Name == asked.Name }), asked)
		inUse[asked.Name] = true
	}
	for i, r := range kept {
		if !inUse[r.Name] {
			continue
		}
		change := r.Amendment(living)
		if r.Name == asked.Name {
			change.Number = r.Front(kept, in.Parent.Status.UpdateRevision)
		}
		if kept[i], err = hands.Keep(in, r, change); err != nil {
			return nil, err
		}
	}
	return in.WithRevisions(kept, revision.ByName(kept, asked.Name)), nil
}

// record returns what is to be recorded on which revision: that it is rejected, or no longer; that the rollout is on the way back
// from it, or which annotations are spent; or that it has become the current one. It returns nil if there is nothing to record.
func (p *Pass) record() (*revision.Revision, revision.Change) {
	if r := p.In.UnrecordedRejection(p.Plan); r != nil {
		return r.Revision, revision.Change{Annotations: map[string]string{v1alpha1.AnnotationLeft: r.Left, v1alpha1.AnnotationRejected: r.Why}}
	}
	if r, left := p.In.UnrecordedLeft(p.Plan); r != nil {
		return r, revision.Change{Annotations: map[string]string{v1alpha1.AnnotationLeft: left}}
	}
	r, last := report.Unrecorded(p.In, p.Plan, p.Status)
	if r == nil {
		return nil, revision.Change{}
	}
	return r, revision.Change{Annotations: map[string]string{
		v1alpha1.AnnotationCurrent: revision.CurrentRecord(p.In.Parent.UID, last), v1alpha1.AnnotationLeft: "", v1alpha1.AnnotationRejected: "",
	}}
}
