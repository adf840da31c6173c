// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// coordinate lets the ledger over all subsets decide on partitions, replicas and deletions. A removed subset is
// deleted when it is empty.
func coordinate(in *Input, p *Plan) {
	input := coordination.Input{
		Object:   types.NamespacedName{Namespace: in.Parent.Namespace, Name: in.Parent.Name},
		Strategy: in.Parent.Spec.UpdateStrategy.RollingUpdate,
		Update:   in.Update.Name, Current: p.CurrentRevision,
		State:    in.Parent.Status.Rollout,
		Approved: in.Parent.Annotations[v1alpha1.AnnotationApproved],
		Forced:   in.Parent.Annotations[v1alpha1.AnnotationForceUpdate],
		Paused:   in.pauseReason(), Pause: in.pause(), Now: in.Now,
		ProgressDeadline: in.Terms().Deadline, Resumed: in.Terms().Resumed,
	}
	var subsets []*SubsetPlan
	for _, s := range p.Subsets {
		switch {
		case !s.Removed:
			input.Subsets = append(input.Subsets, subsetOf(in, s))
		case s.Step.Action == subset.ActionRemove:
			input.Subsets = append(input.Subsets, coordination.Subset{
				Name: s.Name, Removed: true, Whole: in.Whole(), Observed: in.Observed(s.Name), Revision: subset.RevisionOf(in.Observed(s.Name)),
			})
		case in.Unreadable[s.Name] != nil:
			input.Subsets = append(input.Subsets, coordination.Subset{Name: s.Name, Removed: true, Unreadable: in.Unreadable[s.Name].Why})
		default:
			continue // nothing of it is left to coordinate
		}
		subsets = append(subsets, s)
	}
	decided := coordination.Coordinate(input)
	p.Rollout = &decided
	for i, s := range subsets {
		d := &decided.Subsets[i]
		s.Decision = *d
		s.delete(in.Observed(s.Name), d.Delete)
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

func subsetOf(in *Input, s *SubsetPlan) coordination.Subset {
	to := coordination.Subset{
		Name: s.Name, Desired: s.Desired, Reserved: s.Reserved, Observed: in.Observed(s.Name), LastPartition: coordination.Held, Whole: in.Whole(),
	}
	if child := in.Unreadable[s.Name]; child != nil {
		to.Unreadable, to.LastAvailable = child.Why, in.LastKnown(s.Name).AvailableReplicas
	}
	to.Proven = proven(in, s)
	to.Same = to.Proven
	if to.Observed != nil {
		to.Revision = subset.RevisionOf(to.Observed)
		if in.templateReverted(s.Name, to.Observed) {
			to.Revision = subset.RecordedProtectedRevision(to.Observed) // it does not have the other one
		}
		to.Same = to.Same && to.Revision == in.Update.Name
		to.FirstRolloutPending = subset.FirstRolloutPending(to.Observed)
		to.Recorded = ptr.To(subset.RecordedPartition(to.Observed))
		to.ProtectedHash = subset.ProtectedHash(to.Observed)
		// If everything is released, it does not have to remember anything.
		to.Forgot = subset.Forgot(to.Observed) && *to.Recorded > 0
		to.Unreleased = subset.Unreleased(to.Observed)
		return to
	}
	if was := world.SubsetStatus(&in.Parent.Status, s.Name); was != nil && was.Partition < was.DesiredReplicas {
		to.LastPartition = was.Partition
	}
	return to
}
