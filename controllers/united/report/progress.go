// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// pauseTimes returns since when the parent is paused, and when that last ended.
func pauseTimes(in *planner.Input) (paused, resumed *metav1.Time) {
	old, now := &in.Parent.Status, ptr.To(metav1.NewTime(in.Now.Truncate(time.Second)))
	switch {
	case in.Parent.Spec.Paused && old.PausedTime != nil:
		return old.PausedTime, nil
	case in.Parent.Spec.Paused:
		return now, nil
	case old.PausedTime != nil:
		return nil, now
	}
	return nil, old.ResumedTime
}

// lastProgress returns the current time if the spec has changed or the replicas have come closer to it, otherwise
// the previous value.
func lastProgress(in *planner.Input, status *v1alpha1.UnitedDeploymentStatus) *metav1.Time {
	old := &in.Parent.Status
	// In the precision of the API server, so that the value that is read back is equal.
	now := ptr.To(metav1.NewTime(in.Now.Truncate(time.Second)))
	if old.LastProgressTime == nil || old.ObservedGeneration != in.Parent.Generation || resumed(old.Rollout, status.Rollout) || checkTurned(old.Rollout, status.Rollout, met) {
		return now
	}
	for _, s := range status.Subsets {
		if before := world.SubsetStatus(old, s.Name); before == nil || progressed(before, &s) {
			return now
		}
	}
	return old.LastProgressTime
}

// resumed reports whether a coordinated rollout moved to another step, or continued after a pause. The time in
// between does not count as a lack of progress.
func resumed(before, after *v1alpha1.RolloutStatus) bool {
	if before == nil || after == nil {
		return before != after
	}
	stood := meaningOf(before, false).holding
	return before.Revision != after.Revision || before.Step != after.Step || stood && before.Phase != after.Phase
}

// met reports whether a result lets a rollout continue.
func met(c *v1alpha1.CheckStatus) bool { return c.State == v1alpha1.CheckIsMet }

// checkTurned reports whether the result of a check has become one of these, within a rollout.
func checkTurned(before, after *v1alpha1.RolloutStatus, one func(*v1alpha1.CheckStatus) bool) bool {
	return len(turnedChecks(before, after, one)) > 0
}

// turnedChecks returns the checks whose result has become one of these, within a rollout.
func turnedChecks(before, after *v1alpha1.RolloutStatus, one func(*v1alpha1.CheckStatus) bool) (turned []v1alpha1.CheckStatus) {
	if before == nil || after == nil || before.Revision != after.Revision {
		return nil
	}
	for i := range after.Checks {
		is := &after.Checks[i]
		j := slices.IndexFunc(before.Checks, func(was v1alpha1.CheckStatus) bool { return was.Name == is.Name })
		if j >= 0 && one(is) && !one(&before.Checks[j]) {
			turned = append(turned, before.Checks[j])
		}
	}
	return turned
}

func progressed(before, after *v1alpha1.SubsetStatus) bool {
	distance := func(s *v1alpha1.SubsetStatus) int32 {
		return max(s.Replicas-s.DesiredReplicas, s.DesiredReplicas-s.Replicas)
	}
	return after.UpdatedReplicas > before.UpdatedReplicas ||
		after.UpdatedReadyReplicas > before.UpdatedReadyReplicas ||
		after.ReadyReplicas > before.ReadyReplicas ||
		after.AvailableReplicas > before.AvailableReplicas ||
		after.DesiredReplicas != before.DesiredReplicas ||
		distance(after) < distance(before)
}

// wakeUp returns in how long time alone changes something: a write is retried, a replica becomes available, or the
// progress deadline passes.
func wakeUp(in *planner.Input, p *planner.Plan, tallies []*tally, status *v1alpha1.UnitedDeploymentStatus) time.Duration {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(p.Wake)
	sooner(in.Wake)
	if p.Rollout != nil {
		sooner(p.Rollout.Wake)
	}
	if in.Unkept != nil {
		sooner(in.Unkept.RetryAt)
	}
	_, unfitting := unfittingGroups(in)
	sooner(unfitting)
	for _, t := range tallies {
		sooner(t.availableAt)
		sooner(t.unschedulableAt(in.Now))
		if t.failure != nil {
			sooner(t.failure.RetryAt)
		}
		if t.stale {
			sooner(in.Now.Add(planner.RetryStale))
		}
	}
	if deadline, running := progressDeadline(in.Parent, status); running && deadline.After(in.Now) {
		sooner(deadline)
	}
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(in.Now), time.Millisecond)
}
