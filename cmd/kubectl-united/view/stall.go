// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
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
	// said is what it says of the first subset, and fixed of the first one in which it refuses to change a field that cannot be changed,
	// which is never in the pods; "" if it does in none. everywhere: it does in all.
	said, fixed string
	everywhere  bool
	setbacks    []foresee.Setback
}

// StallOf returns what stalls a parent. in is its world; nil if it could not be read.
func StallOf(parent *v1alpha1.UnitedDeployment, in *planner.Input) Stall {
	c := currentCondition(parent, v1alpha1.ConditionStalled)
	if !conditionTrue(c) || c.Reason != v1alpha1.ReasonApplyRefused {
		return Stall{}
	}
	stall := Stall{everywhere: true}
	for i := range parent.Status.Subsets {
		s := &parent.Status.Subsets[i]
		said, refused := s.Name+": "+s.Message, s.Phase == v1alpha1.PhaseStalled
		if refused {
			stall.said = cmp.Or(stall.said, said)
		}
		if !refused || !undone.SaysImmutable(s.Message) {
			stall.everywhere = false
			continue
		}
		if stall.fixed = cmp.Or(stall.fixed, said); in == nil {
			continue
		}
		for _, field := range foresee.Setbacks(in, s.Name, s.Message) {
			if !slices.Contains(stall.setbacks, field) {
				stall.setbacks = append(stall.setbacks, field)
			}
		}
	}
	stall.said = cmp.Or(stall.said, c.Message)
	return stall
}

// RefusedIn returns the subsets whose child the API server refuses as it is asked for, of those named or, without names, of all.
func RefusedIn(parent *v1alpha1.UnitedDeployment, of ...string) (subsets []string) {
	if c := currentCondition(parent, v1alpha1.ConditionStalled); !conditionTrue(c) || c.Reason != v1alpha1.ReasonApplyRefused {
		return nil
	}
	for i := range parent.Status.Subsets {
		if s := &parent.Status.Subsets[i]; s.Phase == v1alpha1.PhaseStalled && (len(of) == 0 || slices.Contains(of, s.Name)) {
			subsets = append(subsets, s.Name)
		}
	}
	return subsets
}

// RefusalText says that nothing moves in subsets that are refused.
func RefusalText(subsets []string, why string) string {
	return fmt.Sprintf("the API server refuses the child of %s, and until it accepts that, no replica is updated there; why: %s", shorten(subsets, 4), why)
}

// KeepsFrom reports whether going back would change nothing of what stalls, and no replica: at rest the pods are those that all
// replicas run, and in a rollout no child has accepted others, and no replica has left them.
func (s Stall) KeepsFrom(parent *v1alpha1.UnitedDeployment) bool {
	status := &parent.Status
	return s.said != "" && (status.UpdateRevision == status.CurrentRevision || s.Lasts() && s.everywhere && status.UpdatedReplicas == 0)
}

// Lasts reports whether going back leaves a part of it.
func (s Stall) Lasts() bool { return s.fixed != "" }

// String says which fields to set back to what, or otherwise what is refused.
func (s Stall) String() string {
	return cmp.Or(s.Setback(), "correct what the API server refuses: "+cmp.Or(s.fixed, s.said))
}

// Setback says which fields to set back to what; "" if that is not known.
func (s Stall) Setback() string {
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
