// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"
	"time"
)

// TestNoServingReplicaGoesWhileAnotherIsDown: with a higher minReadySeconds, no replica is available for a while. Those that serve are
// not down: while another one really is, none of them is taken.
func TestNoServingReplicaGoesWhileAnotherIsDown(t *testing.T) {
	for _, away := range []struct{ name, phase string }{{"in the write of a release", "v2"}, {"in the write of an undo", "v1"}} {
		t.Run(away.name, func(t *testing.T) {
			s := newScene(t).rolling().settled()
			if away.phase == "v1" {
				s.image("v2").pass().moves("a", "b").pass()
			}
			s.settled().ready("a-0", false).pass()
			s.minReady(86400).image(away.phase + "0")
			serving := func() (n int) {
				for _, p := range s.API.Live.Pods {
					for _, c := range p.Status.Conditions {
						if c.Type == "Ready" && c.Status == "True" && p.DeletionTimestamp == nil {
							n++
						}
					}
				}
				return n
			}
			if serving() != 3 {
				t.Fatal("so many serve before:", serving())
			}
			for range 8 {
				if s.pass().moves("a", "b").pass(); serving() < 3 {
					t.Fatalf("only %d serve:\n%s", serving(), s.told())
				}
			}
			s.ready("a-0", true)
			for range 40 {
				s.later(25*time.Hour).pass().moves("a", "b").pass().kubelets("a-0", "a-1", "b-0", "b-1")
				if serving() < 3 {
					break
				}
			}
			if s.settled(); !strings.Contains(s.told(), "4/4/4/4/4") {
				t.Errorf("it does not end:\n%s", s.told())
			}
		})
	}
}
