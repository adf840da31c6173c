// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/unitedworkloads/united/controllers/united/known"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// coordinate lets the ledger over all subsets decide on partitions, replicas and deletions. A removed subset is
// deleted when it is empty.
func coordinate(in *Input, p *Plan) {
	input := coordination.Input{
		Object:   types.NamespacedName{Namespace: in.Parent.Namespace, Name: in.Parent.Name},
		Strategy: in.Parent.Spec.UpdateStrategy.RollingUpdate,
		Update:   in.Update.Name, GoesBack: p.GoesBack,
		State:    in.Parent.Status.Rollout,
		Approved: in.Parent.Annotations[v1alpha1.AnnotationApproved],
		Forced:   in.moving(v1alpha1.AnnotationForceUpdate),
		Promoted: in.moving(v1alpha1.AnnotationPromote),
		Spent:    in.spentValues(), There: coordination.SpentBy(in.Parent.Annotations),
		Retry: in.retrying(), Seen: in.Checks,
		Paused: in.pauseReason(), Pause: in.pause(), Now: in.Now,
		ProgressDeadline: in.Terms().Deadline, Resumed: in.Terms().Resumed,
	}
	var subsets []*SubsetPlan
	for _, s := range p.Subsets {
		switch {
		case !s.Removed:
			input.Subsets = append(input.Subsets, coordination.Subset{Name: s.Name, Facts: s.Facts, Desired: s.Desired, Reserved: s.Reserved, Whole: in.Whole()})
		case s.Step.Action == subset.ActionRemove:
			input.Subsets = append(input.Subsets, coordination.Subset{
				Name: s.Name, Facts: known.Facts{Observed: s.Observed, Revision: s.Revision}, Removed: true, Whole: in.Whole(), // it protects nothing
			})
		case s.Unreadable != "":
			input.Subsets = append(input.Subsets, coordination.Subset{Name: s.Name, Facts: s.Facts, Removed: true})
		default:
			continue // nothing of it is left to coordinate
		}
		subsets = append(subsets, s)
	}
	decided := coordination.Coordinate(input)
	if decided.State == nil && p.CurrentRevision != "" && p.CurrentRevision != in.Update.Name {
		// It is paused before it began. As far as the status says, the one before is over.
		decided.State = &v1alpha1.RolloutStatus{Revision: p.CurrentRevision, Phase: v1alpha1.RolloutDone, Spent: input.Spent}
	}
	p.Rollout = &decided
	for i, s := range subsets {
		d := &decided.Subsets[i]
		s.Decision = *d
		s.delete(d.Delete)
		if s.Step.Action == subset.ActionRemove && !d.Remove {
			s.Step = subset.Step{Action: subset.ActionShrink, Child: adapters.Child{Replicas: d.Replicas, Paused: in.Whole()}}
		}
	}
	// Subsets that are drained come before subsets that are deleted.
	slices.SortStableFunc(p.Subsets, func(a, b *SubsetPlan) int { return drainsFirst(a) - drainsFirst(b) })
}

func drainsFirst(s *SubsetPlan) int {
	switch {
	case !s.Removed:
		return 0
	case s.Step.Action == subset.ActionShrink:
		return 1
	}
	return 2
}
