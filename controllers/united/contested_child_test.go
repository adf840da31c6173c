// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// opens sets the partition of a subset's child to 0 as somebody else, as kubectl patch does.
func (s *scene) opens(subset string) *scene {
	return s.takesOver(subset, 0, "spec", "updateStrategy", "rollingUpdate", "partition")
}

// Somebody lowers the partition of a child again and again, until all of its replicas have come up on a revision that
// nobody released. The partition is raised each time; nothing else is written, and no pod is deleted, until the child
// has been left alone for a while. Then it is repaired, although only time has passed.
func TestContestedChild(t *testing.T) {
	for name, play := range map[string]func(*scene) *scene{
		"Manual":  func(s *scene) *scene { return s.image("v2").partition("a", "1") },
		"ordered": func(s *scene) *scene { return s.ordered().image("v2").partition("a", "1") },
		"paused":  func(s *scene) *scene { return s.image("v2").partition("a", "1").settled().paused(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).settled()
			play(s).settled()
			s.Excuse()
			s.comesUp("web-a-0")
			s.forgets("a")
			if got := s.contents("a"); got != "v2 v2" {
				t.Fatal("the scene is set wrong:", got)
			}
			s.opens("a").pass()
			writes := len(s.API.Writes)
			for range 40 {
				s.opens("a").pass()
			}
			s.pass()
			closed := slices.DeleteFunc(slices.Clone(s.API.Writes[writes:]), func(w string) bool { return w == "status" })
			if len(closed) != 40 || len(slices.Compact(closed)) != 1 || !strings.HasPrefix(s.words(closed[0]), "apply web-a: v2 protects v1 replicas 2 partition 1") {
				t.Error(len(closed), slices.Compact(closed))
			}
			if said := s.message("a"); !strings.Contains(said, `partition was changed by "other"`) || !strings.Contains(s.told(), "Stalled True Overridden") {
				t.Errorf("%s\n%s", said, s.told())
			}
			if s.contents("a") != "v2 v2" || s.Wake <= 0 || s.Wake > 30*time.Second {
				t.Error(s.contents("a"), "looks again in", s.Wake)
			}
			s.later(31 * time.Second).paused(false).settled()
			if got := s.contents("a"); got != "v1 v2" || strings.Contains(s.told(), "Overridden") {
				t.Errorf("%s\n%s", got, s.told())
			}
		})
	}
}
