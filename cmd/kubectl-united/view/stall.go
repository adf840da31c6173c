// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// Stall is what the API server refuses, as far as it is not in the pods: going back does not end it. The zero value is none.
type Stall struct {
	// said is what it says of the first subset.
	said string
	// immutable: all that it refuses are changes of fields that cannot be changed. They are never in the pods.
	immutable bool
	setbacks  []foresee.Setback
}

// StallOf returns what stalls a parent. in is its world; nil if it could not be read.
func StallOf(parent *v1alpha1.UnitedDeployment, in *planner.Input) Stall {
	c := currentCondition(parent, v1alpha1.ConditionStalled)
	if !conditionTrue(c) || c.Reason != v1alpha1.ReasonApplyRefused {
		return Stall{}
	}
	stall := Stall{said: c.Message, immutable: true}
	first := true
	for i := range parent.Status.Subsets {
		s := &parent.Status.Subsets[i]
		if s.Phase != v1alpha1.PhaseStalled {
			continue
		}
		if first {
			stall.said, first = s.Name+": "+s.Message, false
		}
		stall.immutable = stall.immutable && undone.SaysImmutable(s.Message)
		if in == nil {
			continue
		}
		for _, field := range foresee.Setbacks(in, s.Name, s.Message) {
			if !slices.Contains(stall.setbacks, field) {
				stall.setbacks = append(stall.setbacks, field)
			}
		}
	}
	stall.immutable = stall.immutable && !first
	return stall
}

// KeepsFrom reports whether going back would change nothing of what stalls, and no replica: at rest the pods are those that all
// replicas run, and in a rollout none has left them yet.
func (s Stall) KeepsFrom(parent *v1alpha1.UnitedDeployment) bool {
	status := &parent.Status
	return s.said != "" && (status.UpdateRevision == status.CurrentRevision || s.immutable && status.UpdatedReplicas == 0)
}

// Lasts reports whether going back leaves a part of it.
func (s Stall) Lasts() bool { return s.immutable }

// String says which fields to set back to what, or otherwise what is refused.
func (s Stall) String() string {
	if len(s.setbacks) == 0 || !s.immutable {
		return "correct what the API server refuses: " + s.said
	}
	var texts []string
	for _, field := range s.setbacks {
		if field.Value == "(none)" {
			texts = append(texts, "remove "+field.Field)
			continue
		}
		texts = append(texts, fmt.Sprintf("set %s back to %s", field.Field, field.Value))
	}
	return strings.Join(texts, ", and ")
}
