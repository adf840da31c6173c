// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/test/simulation"
)

// Released replicas stay as they are if the next template comes before United has observed their update: they must not
// look as if they had come up unreleased.
func TestReleasedUnseenIsNotTakenBack(t *testing.T) {
	s := newScene(t).settled().image("v2").partition("a", "0").pass()
	s.moves("a").kubelets("a-1").moves("a").pass()
	// From here on the controller receives no events of pods.
	s.kubelets("a-1").moves("a").kubelets("a-0").moves("a")
	s.image("v3").partition("a", "100%")
	for _, kind := range simulation.Kinds() {
		if kind != "pods" {
			s.API.RefreshKind(kind)
		}
	}
	s.Reconcile()
	s.moves("a").kubelets("a-0")
	if got := s.Describe("web-a"); got != "web-a: v3 replicas 2 partition 2 current v1 update v3: 0 v2, 1 v2," {
		t.Fatal(got)
	}
	writes := len(s.API.Writes)
	s.settled()
	taken := slices.DeleteFunc(slices.Clone(s.API.Writes[writes:]), func(w string) bool { return !strings.Contains(w, "Pod") })
	if len(taken) > 0 {
		t.Error(taken)
	}
}
