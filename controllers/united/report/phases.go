// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/unitedworkloads/united/apis/apps/v1alpha1"

// phaseMeaning is what status.rollout.phase means for conditions, events and the status.
type phaseMeaning struct {
	// progresses: the rollout is about to release more by itself, or will do so once the problem that holds it is
	// fixed.
	progresses bool
	// failureReason is the reason with which Ready is False, and Stalled is True if it does not pass by itself; ""
	// if the phase is not a failure.
	failureReason string
	// holding: nothing is released, on purpose. What happens after it is progress.
	holding bool
	// clockStops: the time does not count for the progress deadline.
	clockStops bool
	// stepReached: the running step is reached, and waits for its end.
	stepReached bool
	// coversAllSubsets: its message says what holds all subsets, and so says more than theirs.
	coversAllSubsets bool
	// done: nothing is left to do.
	done bool
	// ready and reason are for the condition Ready if every subset is as it should be. Without a reason,
	// spec.paused and the partitions decide.
	ready  bool
	reason string
}

// meaningOf is the only place that interprets the phase of a rollout; a new phase is a case here. paused is
// spec.paused. No rollout means the same as a complete one.
func meaningOf(rollout *v1alpha1.RolloutStatus, paused bool) phaseMeaning {
	if rollout == nil {
		return phaseMeaning{done: true}
	}
	switch rollout.Phase {
	case v1alpha1.RolloutStaging:
		return phaseMeaning{progresses: true, reason: v1alpha1.ReasonRollingOut}
	case v1alpha1.RolloutProgressing:
		return phaseMeaning{progresses: true, coversAllSubsets: true, reason: v1alpha1.ReasonRollingOut}
	case v1alpha1.RolloutPaused:
		if paused {
			return phaseMeaning{holding: true, clockStops: true}
		}
		// A timed pause is not the state that the spec asks for in the end: the rollout continues by itself.
		return phaseMeaning{holding: true, clockStops: true, stepReached: true, reason: v1alpha1.ReasonStepPaused}
	case v1alpha1.RolloutAwaitingApproval:
		return phaseMeaning{holding: true, stepReached: true, ready: true, reason: v1alpha1.ReasonAwaitingApproval}
	case v1alpha1.RolloutBlocked:
		return phaseMeaning{progresses: true, failureReason: v1alpha1.ReasonBlocked}
	case v1alpha1.RolloutFailed:
		return phaseMeaning{progresses: true, failureReason: v1alpha1.ReasonReplicaFailed}
	case v1alpha1.RolloutCheckFailed:
		return phaseMeaning{progresses: true, failureReason: v1alpha1.ReasonCheckFailed}
	case v1alpha1.RolloutDone:
		return phaseMeaning{done: true}
	default:
		return phaseMeaning{progresses: true}
	}
}
