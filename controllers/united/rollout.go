// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// coordinates tells whether the controller moves the partitions.
func (w *world) coordinates() bool {
	return w.parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy
}

// coordinate lets the ledger over all subsets decide on partitions, replicas and
// deletions. A removed subset goes when it is empty.
func (w *world) coordinate(p *plan) {
	in := coordination.Input{
		Strategy: w.parent.Spec.UpdateStrategy.RollingUpdate,
		Update:   w.update.Name, Current: p.currentRevision,
		State:    w.parent.Status.Rollout,
		Approved: w.parent.Annotations[v1alpha1.AnnotationApproved],
		Forced:   w.parent.Annotations[v1alpha1.AnnotationForceUpdate],
		Paused:   w.whyPaused(), Now: w.now,
		ProgressDeadline: w.terms().Deadline, Resumed: w.terms().Resumed,
	}
	for _, s := range p.subsets {
		in.Subsets = append(in.Subsets, w.subsetOf(s))
	}
	for _, name := range p.removed {
		in.Subsets = append(in.Subsets, coordination.Subset{
			Name: name, Removed: true, Observed: w.observed(name), Revision: subset.RevisionOf(w.observed(name)),
		})
	}
	decided := coordination.Coordinate(in)
	p.rollout = &decided
	for i, s := range p.subsets {
		d := &decided.Subsets[i]
		s.line, s.asks, s.deletes = d.Line, d.Replicas, d.Delete
		s.does, s.waits = d.Does, d.Waits
	}
	removed := p.removed
	p.removed = nil
	for i, name := range removed {
		d := &decided.Subsets[len(p.subsets)+i]
		if d.Remove {
			p.removed = append(p.removed, name)
		} else {
			p.drained = append(p.drained, drain{name, d.Replicas, d.Waits})
		}
	}
}

func (w *world) subsetOf(s *subsetPlan) coordination.Subset {
	in := coordination.Subset{
		Name: s.Name, Desired: s.replicas, Observed: w.observed(s.Name), Known: coordination.Held,
	}
	if protected := revision.ByName(w.revisions, s.protected); protected != nil {
		in.Proven = revision.SamePods(w.update, protected, s.Name, s.overlay)
		in.Same = in.Proven
	}
	if in.Observed != nil {
		in.Revision = subset.RevisionOf(in.Observed)
		if w.unmade(s.Name, in.Observed) {
			in.Revision = subset.Noted(in.Observed) // it has not got the other
		}
		in.Same = in.Same && in.Revision == w.update.Name
		in.Completing = subset.Completing(in.Observed)
		in.Recorded = ptr.To(subset.RecordedPartition(in.Observed))
		in.ProtectedHash = subset.ProtectedHash(in.Observed)
		// Where all is released there is nothing that it would have to remember.
		in.Forgot = subset.Forgot(in.Observed) && *in.Recorded > 0
		in.Unreleased = subset.Unreleased(in.Observed)
		return in
	}
	if was := subsetStatus(&w.parent.Status, s.Name); was != nil && was.Partition < was.DesiredReplicas {
		in.Known = was.Partition
	}
	return in
}
