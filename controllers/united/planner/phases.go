// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/unitedworkloads/united/apis/apps/v1alpha1"

// phaseMeaning is what status.rollout.phase means to conditions, events and the status.
type phaseMeaning struct {
	// progresses: the rollout is about to release more by itself, or will once what keeps it
	// is put right.
	progresses bool
	// failureReason is why Ready is False, and Stalled True where it does not pass by itself, ""
	// if the phase is none.
	failureReason string
	// holding: nothing is released, on purpose. What comes after it is progress.
	holding bool
	// clockStops: the time does not count for the progress deadline.
	clockStops bool
	// stepReached: the running step is reached, and waits for its end.
	stepReached bool
	// coversAllSubsets: its message tells what keeps all subsets, and so says more than theirs.
	coversAllSubsets bool
	// done: nothing is left to do.
	done bool
	// ready and reason are those of condition Ready where every subset is as it should be.
	// Without a reason that is for spec.paused and the partitions to say.
	ready  bool
	reason string
}

// meaningOf is the one place where the phase of a rollout is interpreted; a new phase is a
// case here. paused is spec.paused. No rollout means the same as one that is complete.
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
		// A timed pause is not what the spec asks for in the end: it goes on by itself.
		return phaseMeaning{holding: true, clockStops: true, stepReached: true, reason: v1alpha1.ReasonStepPaused}
	case v1alpha1.RolloutAwaitingApproval:
		return phaseMeaning{holding: true, stepReached: true, ready: true, reason: v1alpha1.ReasonAwaitingApproval}
	case v1alpha1.RolloutBlocked:
		return phaseMeaning{progresses: true, failureReason: v1alpha1.ReasonBlocked}
	case v1alpha1.RolloutFailed:
		return phaseMeaning{progresses: true, failureReason: v1alpha1.ReasonReplicaFailed}
	case v1alpha1.RolloutComplete:
		return phaseMeaning{done: true}
	default:
		return phaseMeaning{progresses: true}
	}
}
