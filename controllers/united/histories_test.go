// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"testing"

	"github.com/unitedworkloads/united/test/simulation"
)

// These are histories in which the simulation once found a broken promise: the oracle judges every move, and the last
// lines here define the expected end.
func TestHistories(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(*scene) *scene
		// want has the revisions that the pods of a run in the end, lowest first, or those of another subset before a
		// colon.
		want string
	}{
		{"a subset that is released before it was ever seen, then held", func(s *scene) *scene {
			s.settled().delete("a", false)
			s.Sets.Collect()
			s.pass().image("v2").partition("a", "0").pass().partition("a", "2").pass().moves("a")
			return s.settled()
		}, "v1 v1"},
		{"back from 0 with nothing held, on another revision, then held", func(s *scene) *scene {
			s.settled().replicas(0).image("v2").settled().image("v3").partition("a", "0").replicas(4).pass().pass()
			s.moves("a").pass().moves("a").kubelets("a-0", "a-1").partition("a", "2").pass()
			s.API.DeletePod(s.API.Live.Pods["web-a-0"])
			return s.settled()
		}, ""},
		{"back from 0 on the revision that is protected, while the child remembers another", func(s *scene) *scene {
			return s.wish("b", "0").replicas(4).settled().image("v2").settled().replicas(0).settled().image("v3").settled().
				replicas(4).pass().image("v1").settled()
		}, "v1 v1 v1 v1"},
		{"a subset that is held while another is lost does not become current", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "0").settled().delete("b", false).settled().comeOrGo("c").settled()
		}, "v2 v2"},
		{"a child whose own revisions were not collected yet", func(s *scene) *scene {
			s.settled().delete("a", false).pass().moves("a").image("v2").pass().moves("a").pass()
			return s.settled()
		}, "v1 v1"},
		{"scaled to 0, corrected and back before the first replica was ready", func(s *scene) *scene {
			return s.image("broken1").settled().replicas(0).pass().image("v2").pass().replicas(4).pass().settled()
		}, "v2 v2"},
		{"a corrected child is released, and held before it has forgotten", func(s *scene) *scene {
			s.image("broken1").partition("a", "0").pass().moves("a", "b").kubelets("b-0", "a-0")
			s.image("v2").pass().moves("a", "b").kubelets("b-1").moves("b").kubelets("b-1").pass()
			return s.image("v3").partition("a", "2").pass().settled()
		}, ""},
		{"paused before the first replica was ready", func(s *scene) *scene {
			return s.image("broken1").settled().image("v2").pass().paused(true).settled().paused(false).settled()
		}, "v2 v2"},
		{"paused before the first replica was ready, and a child is lost", func(s *scene) *scene {
			return s.image("broken1").settled().paused(true).image("v2").settled().delete("a", false).settled().paused(false).settled()
		}, "v2 v2"},
		{"a subset that comes while paused, before the first replica was ready", func(s *scene) *scene {
			return s.comeOrGo("a").pass().paused(true).image("v2").pass().comeOrGo("a").settled()
		}, "v1 v1"},
		{"orphans of a subset that is held", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "1").settled().delete("a", true).settled()
		}, "v1 v2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, s := range []*scene{newScene(t), newScene(t).ordered()} {
				tc.play(s)
				got := ""
				for _, p := range s.PodsOf("web-a") {
					got += simulation.PodContent(p) + " "
				}
				if tc.want != "" && got != tc.want+" " {
					t.Errorf("%s: want %s, have %s\n%s", s.policy(), tc.want, got, s.told())
				}
				resting(t, s)
				s.Finish(s.policy())
			}
		})
	}
}
