// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// rejectedName returns the name of the revision that the spec asks for if it is rejected, otherwise "".
func rejectedName(in *planner.Input) string { return planner.NameOf(in.Rejected) }

// askedCounts returns the counts of a subset for its status, where "updated" means the revision that the spec asks for. That
// is another one than the plan goes to while it is rejected.
func askedCounts(in *planner.Input, p *planner.Plan, s *planner.SubsetPlan, t *tally) v1alpha1.ReplicaCounts {
	if in.Rejected == nil || in.Unreadable[s.Name] != nil {
		return t.counts
	}
	counts, asked, of := t.counts, *in, &tally{}
	counts.UpdatedReplicas, counts.UpdatedReadyReplicas = 0, 0
	if t.facts.Observed == nil || !t.facts.Observed.SpecObserved {
		return counts
	}
	asked.Update = in.Rejected
	facts := p.FactsOf(&asked, s)
	of.replicas = facts.States(in.Terms())
	of.count()
	counts.UpdatedReplicas, counts.UpdatedReadyReplicas = of.counts.UpdatedReplicas, of.counts.UpdatedReadyReplicas
	return counts
}

// rejectedMessage says that the revision that the spec asks for is rejected, why, how far the way back is, and what rolls it
// out again.
func rejectedMessage(in *planner.Input, tallies []*tally, status *v1alpha1.UnitedDeploymentStatus) string {
	name, back := in.Rejected.Name, int32(0)
	for _, t := range tallies {
		back += t.counts.UpdatedReplicas
	}
	instead := newName(in, in.Update, in.Rejected)
	message := newName(in, in.Rejected, in.Update) + " is rejected"
	if why := in.Rejected.Rejected(); why != "" {
		message += ": " + why
	}
	phase := meaningOf(status.Rollout, in.Parent.Spec.Paused)
	switch {
	case in.Rejected == in.Update:
		message += "; the rollout is frozen, because no revision is proven to go back to"
	case in.Parent.Spec.Paused:
		message += "; the rollout is paused"
	case phase.failureReason != "" && status.Rollout.Message != "":
		message += "; the way back to " + instead + ": " + status.Rollout.Message
	case !phase.done:
		message += "; going back to " + instead
	default:
		_, wanted := runUpdate(status)
		message += fmt.Sprintf("; %d of %d replicas run %s", min(back, wanted), wanted, instead)
	}
	message += fmt.Sprintf("; set the template back, or apply another one; to roll it out once more, run: kubectl annotate --overwrite united -n %s %s %s=%s/$(date +%%s)",
		in.Parent.Namespace, in.Parent.Name, v1alpha1.AnnotationRetry, name)
	switch value := in.Parent.Annotations[v1alpha1.AnnotationRetry]; {
	case value == "":
	case coordination.NamesRevision(value, name):
		message += fmt.Sprintf("; united.dev/retry is %.80q, which has had its effect", value)
	default:
		message += fmt.Sprintf("; united.dev/retry is %.80q, which is for another revision", value)
	}
	return message
}

// goingTo returns the revision that a pass goes to, as its status has it.
func goingTo(status *v1alpha1.UnitedDeploymentStatus) string {
	if r := status.Rollout; r != nil && r.RejectedRevision != "" {
		return r.Revision
	}
	return status.UpdateRevision
}

// retriedRejected reports whether a rejected revision is rolled out once more.
func retriedRejected(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	was, is := before.Rollout, after.Rollout
	return was != nil && is != nil && was.RejectedRevision != "" && is.RejectedRevision == "" && is.Revision == was.RejectedRevision
}
