// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// maxSummarized is how many subsets the summary names: more do not fit in a line of a terminal.
const maxSummarized = 8

// summary describes the subsets in one line. A subset that the spec no longer has is named as long as it has
// replicas.
// blocked: the rollout does not move, whatever the phases of the subsets are.
func summary(subsets []v1alpha1.SubsetStatus, blocked bool) string {
	var said []string
	for i := range subsets {
		if i == maxSummarized {
			said = append(said, fmt.Sprintf("%d more", len(subsets)-i))
			break
		}
		said = append(said, summaryOf(&subsets[i], blocked))
	}
	return strings.Join(said, " · ")
}

// summaryOf says how many replicas of the wanted ones are updated, what happens to the others, and how many are down.
func summaryOf(s *v1alpha1.SubsetStatus, blocked bool) string {
	if s.UpdateRevision == "" { // for example of one that is being removed
		return fmt.Sprintf("%s removing %d", s.Name, s.Replicas)
	}
	text := fmt.Sprintf("%s %d/%d", s.Name, s.UpdatedReplicas, s.DesiredReplicas)
	switch s.Phase {
	case v1alpha1.PhaseComplete, v1alpha1.PhaseUnavailable:
	case v1alpha1.PhaseUpdating, v1alpha1.PhaseWaiting:
		if !blocked {
			text += " " + strings.ToLower(string(s.Phase))
		}
	default:
		text += " " + strings.ToLower(string(s.Phase))
	}
	if down := s.Replicas - s.AvailableReplicas - ptr.Deref(s.Cap, v1alpha1.SubsetCap{}).Reserved; down > 0 {
		text += fmt.Sprintf(" %d down", down)
	}
	return text
}
