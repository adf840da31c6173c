// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Step is one step of a rollout of type RollingUpdate.
type Step struct {
	Subsets   []string `json:"subsets"`
	Partition string   `json:"partition"`
	// Pause is how long it soaks, "until approved", or "" without a pause.
	Pause string `json:"pause,omitempty"`
	// Done is before the current step, and Now is that one.
	Done bool `json:"done,omitempty"`
	Now  bool `json:"now,omitempty"`
	// Ends is when the soak of the current step ends; zero if it does not soak now.
	Ends time.Time `json:"ends,omitzero"`
}

// String says what a step releases, and how it pauses then.
func (s *Step) String() string {
	text := fmt.Sprintf("%s to partition %s", shorten(s.Subsets, 4), s.Partition)
	if slices.Equal(s.Subsets, []string{"*"}) {
		text = "all to partition " + s.Partition
	}
	switch s.Pause {
	case "":
		return text
	case untilApproved:
		return text + ", then waits for approval"
	}
	return text + ", then pauses " + s.Pause
}

const untilApproved = "until approved"

// Releases says what a rollout releases when its current step is over: the next one, or what no step has released.
func Releases(parent *v1alpha1.UnitedDeployment) string {
	r, steps := parent.Status.Rollout, StepsOf(parent)
	if r == nil {
		return ""
	}
	if next := int(r.Step) + 1; next < len(steps) {
		return fmt.Sprintf("step %d of %d releases %s", next+1, len(steps), &steps[next])
	}
	if floor := Asked(parent, ""); floor != "0" && floor != "0%" {
		return "after the last step everything is released down to rollingUpdate.partition, " + floor
	}
	return "after the last step everything is released"
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
			s.Pause = untilApproved
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
