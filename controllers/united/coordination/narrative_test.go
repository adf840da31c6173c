// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

var update = flag.Bool("update", false, "write the narratives anew")

// say adds an action of the user to the narrative.
func (w *world) say(format string, args ...any) *world {
	w.narrative = append(w.narrative, "      user: "+fmt.Sprintf(format, args...))
	return w
}

// instantly lets all released replicas be updated and available before the next pass, until nothing moves.
func (w *world) instantly() *world {
	waves(w, 1000)
	return w
}

func (w *world) settled() *world {
	w.settle()
	return w
}

// TestNarratives compares whole rollouts, one line for each decision with its reason, with testdata. A change
// there is a change of what users see: read it.
func TestNarratives(t *testing.T) {
	skewed := func(percent string) *v1alpha1.RollingUpdate {
		return strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable, s.MaxSkew = amount("100%"), percent })
	}
	for name, play := range map[string]func() *world{
		"40-20-skew-1":  func() *world { return newWorld(skewed("1%"), 40, 20).roll("v2").instantly() },
		"40-20-skew-10": func() *world { return newWorld(skewed("10%"), 40, 20).roll("v2").instantly() },
		"40-20-skew-25": func() *world { return newWorld(skewed("25%"), 40, 20).roll("v2").instantly() },
		"four-zones-sequential": func() *world {
			return newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
				s.Order, s.MaxUnavailable = v1alpha1.SequentialOrder, amount("2")
			}), 3, 3, 3, 3).roll("v2").settled()
		},
		"four-zones-sequential-ordered": func() *world {
			return newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
				s.Order, s.MaxUnavailable = v1alpha1.SequentialOrder, amount("2")
			}), 2, 2, 2, 2).ordered().roll("v2").settled()
		},
		"canary-steps": canarySteps,
		"bad-image-then-fix": func() *world {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("2") }), 3, 3, 3)
			w.broken["v2"] = true
			w.say("image v2, which is broken").roll("v2").settled()
			return w.say("image v3").roll("v3").settled()
		},
		"bad-image-then-back": func() *world {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.Order = v1alpha1.SequentialOrder }), 2, 2).ordered()
			w.broken["v2"] = true
			w.say("image v2, which is broken").roll("v2").settled()
			return w.say("back to v1").roll("v1").settled()
		},
		"scale-up-and-move": func() *world {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) { s.MaxUnavailable = amount("2") }), 4, 4)
			w.say("image v2").roll("v2")
			for range 4 {
				w.round()
			}
			w.say("scales from 4:4 to 6:6")
			w.subsets[0].desired, w.subsets[1].desired = 6, 6
			for range 2 {
				w.round()
			}
			w.say("moves 2 from a to b")
			w.subsets[0].desired, w.subsets[1].desired = 4, 8
			return w.settled()
		},
		"rollback": func() *world {
			w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
				s.MaxSkew = "50%"
				s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("50%"), Pause: &v1alpha1.RolloutPause{}}}
			}), 4, 2)
			w.say("image v2").roll("v2").settled()
			return w.say("back to v1").roll("v1").settled()
		},
		"checked": func() *world {
			w := checked(func(s *v1alpha1.RollingUpdate) {
				s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amount("50%"), Pause: &v1alpha1.RolloutPause{Duration: "10m"}}}
			}, 2, 1)
			w.say("image v2; the cluster is not healthy").notMet().roll("v2").settled()
			w.met().say("it is").settled()
			w.say("it fails over in the pause").notMet().settled()
			w.now = w.last.Wake
			w.settled()
			w.met().say("it is healthy again").settled()
			w.now = w.last.Wake
			return w.settled()
		},
		"blocked-then-forced": func() *world {
			w := newWorld(nil, 4).ordered()
			w.fail(0, 1)
			w.say("web-a-1 crashes; image v2").roll("v2").settled()
			w.forced = "v2"
			return w.say("forces v2").settled()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := play()
			got := strings.Join(w.narrative, "\n") + "\n      end: " + w.picture() + "\n"
			file := filepath.Join("testdata", "narratives", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("-want +got (go test -update writes it anew)\n%s", diff)
			}
		})
	}
}

func canarySteps() *world {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.MaxUnavailable = amount("2")
		s.Steps = []v1alpha1.RolloutStep{
			{Subsets: []string{"a"}, Partition: amount("90%"), Pause: &v1alpha1.RolloutPause{Duration: "10m"}},
			{Subsets: []string{"a"}, Partition: amount("0%"), Pause: &v1alpha1.RolloutPause{}},
			{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("50%")},
		}
	}), 4, 4)
	w.say("image v2").roll("v2").settled()
	w.now = w.last.Wake
	w.settled()
	w.approved = w.state.ApprovalKey
	return w.say("approves %s", w.approved).settled()
}
