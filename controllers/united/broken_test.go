// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"
)

// TestBrokenIsSaidOnce: a replica that never came up, on a revision that nobody asks for any more, is replaced. The status of the pass
// that deletes it does not send the user to delete it.
func TestBrokenIsSaidOnce(t *testing.T) {
	s := newScene(t).settled().image("broken1").partition("a", "1").settled()
	s.image("v3").partition("a", "2").pass().moves("a").pass()
	told := s.told()
	if !strings.Contains(told, "web-a-1") || strings.Contains(told, "delete the pod") {
		t.Error(told)
	}
	s.settled()
	if told := s.told(); !strings.Contains(told, "Ready True RolloutHeld") {
		t.Errorf("it was not replaced:\n%s", told)
	}
}
