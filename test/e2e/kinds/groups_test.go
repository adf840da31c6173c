// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestGroupsAreReplicas checks that the tests see groups correctly.
func TestGroupsAreReplicas(t *testing.T) {
	t.Parallel()
	leader := Pod{Name: "web-0", UID: "l", Leader: "web-0", Members: 2, Image: "v1", Ready: true}
	worker := Pod{Name: "web-0-1", UID: "w", Leader: "web-0", Image: "v1", Ready: true}
	old := worker
	old.Image = "v0"
	for name, tc := range map[string]struct {
		pods  []Pod
		image string
		ready bool
	}{
		"whole":      {[]Pod{leader, worker}, "v1", true},
		"no workers": {[]Pod{leader}, "v1", false},
		"mixed":      {[]Pod{old, leader}, "v1/v0", true},
	} {
		got := AsReplicas(tc.pods)
		if len(got) != 1 || got[0].Image != tc.image || got[0].Ready != tc.ready {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := AsReplicas([]Pod{worker}); len(got) != 0 {
		t.Errorf("workers alone: %+v", got)
	}
	events := OfReplicas([]PodEvent{{Pod: leader}, {Pod: worker}, {Pod: worker, Gone: true}, {Pod: leader, Gone: true}})
	var ready []bool
	for _, event := range events {
		ready = append(ready, event.Ready && !event.Gone)
	}
	if len(ready) != 4 || ready[0] || !ready[1] || ready[2] || ready[3] {
		t.Error(ready)
	}
}
