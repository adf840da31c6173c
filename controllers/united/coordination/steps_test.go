// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"strings"
	"testing"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestWakesWhenACrashIsForGood: a replica that crashed once, then runs and does not
// become ready, makes no event any more. That it is not going to is told in its time
// all the same.
func TestWakesWhenACrashIsForGood(t *testing.T) {
	w := newWorld(nil, 2).roll("v2")
	w.slow = 24 * time.Hour
	for range 5 {
		w.round()
	}
	m := w.subsets[0].member(1)
	if m.Hash != "v2" || m.Ready {
		t.Fatal(w.picture())
	}
	m.Crashed = true
	w.decide()
	if w.state.Phase != v1alpha1.RolloutFailed || w.last.Stalled {
		t.Fatal("it may come up yet", w.last.Stalled, w.state)
	}
	if end := m.Since.Add(10 * time.Minute); !w.last.Wake.Equal(end) {
		t.Fatal("want", end, "have", w.last.Wake)
	}
	w.now = w.last.Wake
	w.decide()
	if w.state.Phase != v1alpha1.RolloutFailed || !w.last.Stalled {
		t.Error("it did not come up", w.last.Stalled, w.state)
	}
}

// TestAWrongApprovalIsQuoted: whole when it is short, and its beginning when it is
// not: an annotation can be larger than a status.
func TestAWrongApprovalIsQuoted(t *testing.T) {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Steps = []v1alpha1.RolloutStep{{Partition: amount("1"), Pause: &v1alpha1.RolloutPause{}}}
	}), 2).roll("v2")
	w.settle()
	for approved, want := range map[string]string{
		"stale":                    `; it is "stale", which is for another step or rollout`,
		strings.Repeat("x", 40):    `; it is "` + strings.Repeat("x", 40) + `", which is for another step or rollout`,
		strings.Repeat("ö", 9_999): `; it begins with "` + strings.Repeat("ö", 40) + `", which is for another step or rollout`,
	} {
		w.approved = approved
		w.decide()
		if w.state.Phase != v1alpha1.RolloutAwaitingApproval || !strings.HasSuffix(w.state.Message, want) {
			t.Errorf("want ...%s\nhave %s", want, w.state.Message)
		}
	}
}
