// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"
)

// TestReadyMeansThatThePartitionIsBack: a subset that goes back has a partition of 0 until its controller has finished. Until the
// one that is asked for is written, Ready is not True, even though every replica is ready.
func TestReadyMeansThatThePartitionIsBack(t *testing.T) {
	s, seen := newScene(t).settled().image("v2").partition("a", "0").settled().image("v1").partition("a", "1"), false
	for range 6 {
		s.pass().moves("a", "b").pass().kubelets("a-0", "a-1").pass()
		told := s.told()
		opened := strings.Contains(told, "of 2; partition 0")
		if seen = seen || opened && strings.Contains(told, "4/4/4/4/4 of 4"); opened && strings.Contains(told, "Ready True") {
			t.Errorf("Ready while its partition is not what is asked for:\n%s", told)
		}
	}
	if !seen || !strings.Contains(s.told(), "Ready True") {
		t.Errorf("the world did not show it, or does not end:\n%s", s.told())
	}
}
