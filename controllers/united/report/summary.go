// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// maxSummarized is how many subsets the summary names: more do not fit in a line of a terminal.
const maxSummarized = 8

// summary describes the subsets in one line. A subset that the spec no longer has is named as long as it has
// replicas.
func summary(subsets []v1alpha1.SubsetStatus) string {
	var said []string
	for i := range subsets {
		if i == maxSummarized {
			said = append(said, fmt.Sprintf("%d more", len(subsets)-i))
			break
		}
		said = append(said, summaryOf(&subsets[i]))
	}
	return strings.Join(said, " · ")
}

func summaryOf(s *v1alpha1.SubsetStatus) string {
	if s.UpdateRevision == "" { // for example of one that is being removed
		return fmt.Sprintf("%s removing %d", s.Name, s.Replicas)
	}
	text := fmt.Sprintf("%s %d/%d", s.Name, s.UpdatedReplicas, s.DesiredReplicas)
	if s.Phase == v1alpha1.PhaseComplete {
		return text
	}
	return text + " " + strings.ToLower(string(s.Phase))
}
