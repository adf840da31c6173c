// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// What an earlier version of United, whose keys had 32 and 48 bits, had on record of smoked(inSteps(approval, "1"), 2).
const (
	earlierApproval = "4702936986ac"
	earlierCheck    = "33665008"
	earlierRun      = "job/web-smoke-e79f420b"
)

// TestKeysCannotBeForged: what opens a gate, or names what does, has 130 bits.
func TestKeysCannotBeForged(t *testing.T) {
	w := smoked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).roll("v2").passes()
	w.runs.all(succeeded)
	w.passes().expect(t, v1alpha1.RolloutAwaitingApproval, "")
	digest := regexp.MustCompile(`^[0-9a-z]{26}$`)
	check := w.check()
	for what, key := range map[string]string{
		"approval": w.state.ApprovalKey, "content of a check": check.Key, "run": strings.TrimPrefix(check.Run, "job/web-smoke-"),
	} {
		if !digest.MatchString(key) {
			t.Errorf("%s: %q", what, key)
		}
	}
}

// TestAKeyOfAnEarlierVersionStaysValid: what is on record when United is upgraded. No Job runs twice, and an approval that was
// given, or is about to be given with the key that was published, counts.
func TestAKeyOfAnEarlierVersionStaysValid(t *testing.T) {
	w := smoked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).roll("v2").passes()
	w.runs.exist = map[string]*known.CheckResult{earlierRun: w.runs.exist[w.check().Run]}
	w.runs.created = []string{earlierRun}
	w.state.Checks[0].Key, w.state.Checks[0].Run = earlierCheck, earlierRun
	w.last.Asks = nil
	w.passes()
	w.runs.all(succeeded)
	w.passes().expect(t, v1alpha1.RolloutAwaitingApproval, "")
	if is := w.check(); len(w.runs.created) != 1 || is.Run != earlierRun || is.State != v1alpha1.CheckIsMet {
		t.Fatalf("%v %+v", w.runs.created, is)
	}

	long := w.state.ApprovalKey
	w.approved = earlierApproval
	w.passes().expect(t, v1alpha1.RolloutAwaitingApproval, "")
	w.state.ApprovalKey, w.approved = earlierApproval, long
	w.passes().expect(t, v1alpha1.RolloutAwaitingApproval, "")
	if w.state.ApprovalKey != earlierApproval {
		t.Error("it is published anew:", w.state.ApprovalKey)
	}
	w.approved = earlierApproval
	w.passes()
	if w.state.Phase == v1alpha1.RolloutAwaitingApproval || len(w.runs.created) != 2 || w.runs.created[1] == earlierRun {
		t.Errorf("%v %+v", w.runs.created, w.state)
	}
}
