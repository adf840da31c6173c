// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Step is one step of a rollout of type RollingUpdate.
type Step struct {
	Subsets   []string
	Partition string
	// Pause is how long it soaks, "until approved", or "" without a pause.
	Pause string
	// Done is before the current step, and Now is that one.
	Done, Now bool
	// Ends is when the soak of the current step ends; zero if it does not soak now.
	Ends time.Time
}

// StepsOf returns the steps of a rollout; none for type Manual.
func StepsOf(parent *v1alpha1.UnitedDeployment) (steps []Step) {
	u, r := parent.Spec.UpdateStrategy.RollingUpdate, parent.Status.Rollout
	if u == nil {
		return nil
	}
	for i := range u.Steps {
		was := &u.Steps[i]
		s := Step{Subsets: was.Subsets}
		if was.Partition != nil {
			s.Partition = was.Partition.String()
		}
		if was.Pause != nil {
			s.Pause = "until approved"
			if was.Pause.Duration != "" {
				s.Pause = was.Pause.Duration
			}
		}
		if r != nil {
			s.Done, s.Now = int32(i) < r.Step, int32(i) == r.Step && parent.Status.UpdateRevision != parent.Status.CurrentRevision
		}
		if pause, err := time.ParseDuration(s.Pause); err == nil && s.Now && r.ReachedTime != nil {
			s.Ends = r.ReachedTime.Add(pause - time.Duration(r.SoakedSeconds)*time.Second)
		}
		steps = append(steps, s)
	}
	return steps
}
