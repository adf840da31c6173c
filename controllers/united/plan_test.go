// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// plan is what the controller would do now, and the world it sees.
func (s *scene) plan() (*world, *plan) {
	s.t.Helper()
	s.api.refresh()
	parent := s.api.live.parent.DeepCopy()
	spec, err := readSpec(parent, s.reconciler.Adapters)
	if err != nil {
		s.fail("%v", err)
	}
	w, err := s.reconciler.observe(s.t.Context(), parent, spec)
	if err != nil {
		s.fail("%v", err)
	}
	if failure := s.reconciler.snapshot(s.t.Context(), w); failure != nil {
		s.fail("%+v", failure)
	}
	return w, makePlan(w)
}

// planned is a plan in the order in which it is carried out, a line for each
// child.
func (s *scene) planned() string {
	w, p := s.plan()
	var lines []string
	for _, sub := range p.order(w) {
		c := &sub.step.Child
		line := fmt.Sprintf("%s %s %s x%d p%d protects %s", sub.Name, sub.step.Action, c.Revision, c.Replicas, c.Partition, c.ProtectedRevision)
		if c.Name == "" {
			line = sub.Name + " " + string(sub.step.Action)
		}
		lines = append(lines, strings.TrimSuffix(line, " protects "))
	}
	for _, name := range p.removed {
		lines = append(lines, name+" Remove")
	}
	return s.words(strings.Join(lines, "\n"))
}

func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(*scene) *scene
		want string
	}{
		{"at first", func(s *scene) *scene { return s }, `
a Create v1 x2 p2 protects v1
b Create v1 x2 p2 protects v1`},
		{"at rest", func(s *scene) *scene { return s.settled() }, `
a Apply v1 x2 p2 protects v1
b Apply v1 x2 p2 protects v1`},
		{"a new template is staged with its partitions", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "1").partition("b", "50%")
		}, `
a Apply v2 x2 p1 protects v1
b Apply v2 x2 p1 protects v1`},
		{"one revision ahead", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "0").settled().image("v3").partition("a", "2")
		}, `
a Apply v3 x2 p2 protects v2
b Apply v3 x2 p2 protects v1`},

		// The order of writes.
		{"what grows comes first, what shrinks last", func(s *scene) *scene {
			return s.settled().comeOrGo("c").replicas(6).settled().wish("a", "1").wish("b", "2").wish("c", "3")
		}, `
c Apply v1 x3 p3 protects v1
b Apply v1 x2 p2 protects v1
a Apply v1 x1 p1 protects v1`},
		{"what is new comes first, what goes last", func(s *scene) *scene { return s.settled().comeOrGo("a").comeOrGo("c") }, `
c Create v1 x2 p2 protects v1
b Apply v1 x2 p2 protects v1
a Remove`},

		// Before the first replica is ready.
		{"a corrected template opens the partition", func(s *scene) *scene { return s.image("broken1").settled().image("v2") }, `
a Apply v2 x2 p0
b Apply v2 x2 p0`},
		{"the same template does not", func(s *scene) *scene { return s.image("broken1").settled() }, `
a Apply broken1 x2 p2 protects broken1
b Apply broken1 x2 p2 protects broken1`},
		{"it stays open until the children have forgotten", func(s *scene) *scene { return s.image("broken1").settled().image("v2").pass() }, `
a Apply v2 x2 p0
b Apply v2 x2 p0`},
		{"and is closed then", func(s *scene) *scene { return s.image("broken1").settled().image("v2").settled() }, `
a Apply v2 x2 p2 protects v2
b Apply v2 x2 p2 protects v2`},

		// Paused.
		{"paused, a new template is not staged", func(s *scene) *scene { return s.settled().paused(true).image("v2") }, `
a Apply v1 x2 p2 protects v1
b Apply v1 x2 p2 protects v1`},
		{"paused, nothing is released", func(s *scene) *scene { return s.settled().image("v2").settled().paused(true).partition("a", "0") }, `
a Apply v2 x2 p2 protects v1
b Apply v2 x2 p2 protects v1`},
		{"paused, a partition may be raised", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "1").settled().paused(true).partition("a", "2")
		}, `
a Apply v2 x2 p2 protects v1
b Apply v2 x2 p2 protects v1`},
		{"paused, scaling down releases nothing", func(s *scene) *scene {
			return s.replicas(8).settled().image("v2").partition("", "50%").settled().paused(true).replicas(6)
		}, `
a Apply v2 x3 p2 protects v1
b Apply v2 x3 p2 protects v1`},
		{"paused, scaling up comes on the protected revision", func(s *scene) *scene {
			return s.settled().image("v2").partition("", "1").settled().paused(true).replicas(8)
		}, `
a Apply v2 x4 p4 protects v1
b Apply v2 x4 p4 protects v1`},
		{"paused, an updated replica is repaired as it was", func(s *scene) *scene {
			s.settled().image("v2").partition("a", "1").settled().paused(true)
			s.api.deletePod(s.api.live.pods["web-a-1"])
			return s
		}, `
a Apply v2 x2 p1 protects v1
b Apply v2 x2 p2 protects v1`},
		{"paused, a new subset comes on what the whole runs", func(s *scene) *scene {
			return s.settled().image("v2").settled().paused(true).comeOrGo("c").image("v3").partition("", "0")
		}, `
c Create v1 x1 p1 protects v1
a Apply v2 x2 p2 protects v1
b Apply v2 x1 p2 protects v1`},
		{"paused, a lost child comes on what it protects", func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "0").settled().paused(true).image("v3").delete("a", false)
		}, `
a Create v2 x2 p2 protects v2
b Apply v2 x2 p2 protects v1`},
		{"resumed, everything is caught up on", func(s *scene) *scene {
			return s.settled().paused(true).image("v2").partition("a", "0").settled().paused(false)
		}, `
a Apply v2 x2 p0 protects v1
b Apply v2 x2 p2 protects v1`},

		// Subsets that go.
		{"a subset is gone", func(s *scene) *scene { return s.settled().comeOrGo("b") }, `
a Apply v1 x4 p4 protects v1
b Remove`},
		{"paused, a subset is gone all the same", func(s *scene) *scene { return s.settled().paused(true).comeOrGo("b") }, `
a Apply v1 x4 p4 protects v1
b Remove`},
		{"all subsets are gone", func(s *scene) *scene { return s.settled().comeOrGo("a").comeOrGo("b") }, `
a Remove
b Remove`},
		{"one that is being deleted is not deleted again", func(s *scene) *scene { return s.settled().comeOrGo("b").dying("b") }, `
a Apply v1 x4 p4 protects v1`},
		{"one that a later parent wrote is left alone", func(s *scene) *scene { return s.settled().comeOrGo("b").writtenFrom("b", "99") }, `
a Apply v1 x4 p4 protects v1`},
		{"one that is wanted and a later parent wrote is left alone", func(s *scene) *scene { return s.settled().image("v2").writtenFrom("b", "99") }, `
a Apply v2 x2 p2 protects v1
b Wait`},
		{"one that is being deleted is waited for", func(s *scene) *scene { return s.settled().dying("b") }, `
a Apply v1 x2 p2 protects v1
b Wait`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.play(newScene(t)).planned()
			if diff := cmp.Diff(strings.TrimSpace(tc.want), got); diff != "" {
				t.Errorf("want -, have +\n%s\nGOT\n%s", diff, got)
			}
		})
	}
}

// dying marks a child as being deleted.
func (s *scene) dying(subset string) *scene {
	u := s.api.live.sets["web-"+subset].DeepCopy()
	now := s.api.now()
	u.SetDeletionTimestamp(&now)
	s.api.putSet(u)
	return s
}

func (s *scene) writtenFrom(subset, generation string) *scene {
	u := s.api.live.sets["web-"+subset].DeepCopy()
	annotations := u.GetAnnotations()
	annotations[v1alpha1.AnnotationParentGeneration] = generation
	u.SetAnnotations(annotations)
	s.api.putSet(u)
	return s
}

// A status that is lost, as when the object went through a backup, is read from
// the children again: what is protected where, and that something is.
func TestLostStatus(t *testing.T) {
	for name, play := range map[string]func(*scene) *scene{
		"before the first replica": func(s *scene) *scene { return s.image("broken1").settled() },
		"complete":                 func(s *scene) *scene { return s.settled() },
		"held":                     func(s *scene) *scene { return s.settled().image("v2").settled() },
		"in the middle":            func(s *scene) *scene { return s.settled().image("v2").partition("a", "1").settled() },
		"one revision ahead": func(s *scene) *scene {
			return s.settled().image("v2").partition("a", "0").settled().image("v3").partition("a", "1").settled()
		},
		"paused": func(s *scene) *scene { return s.settled().paused(true).image("v2").settled() },
		"at 0":   func(s *scene) *scene { return s.settled().image("v2").settled().replicas(0).settled() },
	} {
		t.Run(name, func(t *testing.T) {
			s := play(newScene(t))
			want := s.told()
			parent := s.api.live.parent.DeepCopy()
			parent.Status = v1alpha1.UnitedDeploymentStatus{ObservedGeneration: -1}
			s.api.live.parent = parent
			s.restart()
			before := len(s.api.writes)
			s.pass()
			if diff := cmp.Diff(want, s.told()); diff != "" {
				t.Error("want -, have +\n", diff)
			}
			for _, w := range s.api.writes[before:] {
				if strings.HasPrefix(w, "apply") {
					t.Error(w)
				}
			}
		})
	}
}

func TestUpdatedFrom(t *testing.T) {
	for _, tc := range []struct {
		members  string // "<position>:<hash>", the update revision is u
		replicas int32
		want     int32
	}{
		{"", 0, 0},
		{"", 3, 3},
		{"0:o 1:o 2:o", 3, 3},
		{"0:o 1:o 2:u", 3, 2},
		{"0:o 1:u 2:u", 3, 1},
		{"0:u 1:u 2:u", 3, 0},
		{"0:u 1:o 2:u", 3, 2},
		{"0:u 1:u 2:o", 3, 3},
		{"0:o 1:u", 3, 1},         // 2 is missing above an updated one: it was
		{"0:o 2:u", 3, 2},         // 1 is missing below: it is not known what it was
		{"0:o 1:o", 3, 3},         // 2 is missing above one that is not: it may not have been
		{"0:o 1:u 2:u 3:o", 3, 1}, // 3 is surplus
		{"0:u 1:u 3:u", 3, 0},
		{"-1:u 0:u 1:u", 2, 0},
		{"-1:o 0:u 1:u", 2, 0},
	} {
		o := &adapters.Observed{Replicas: tc.replicas, UpdateHash: "u"}
		for _, text := range strings.Fields(tc.members) {
			var r adapters.Replica
			if _, err := fmt.Sscanf(text, "%d:%s", &r.Position, &r.Hash); err != nil {
				t.Fatal(err)
			}
			o.Members = append(o.Members, r)
		}
		if got := updatedFrom(o); got != tc.want {
			t.Errorf("%q of %d: want %d, have %d", tc.members, tc.replicas, tc.want, got)
		}
	}
}

// Paused, whatever the user asks for and however it scales, no replica that
// exists is moved: the partition is above every one that is not updated.
func TestPausedMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scene{newSimulation(t, "Parallel", "a")}
		s.settle()
		s.image("v2")
		s.edit("partition", func(spec *v1alpha1.UnitedDeploymentSpec) { setPartition(spec, "a", pick(t, "partition", partitions)) })
		for range rapid.IntRange(0, 6).Draw(t, "moves") {
			s.everybody()
		}
		s.paused(true).pass()
		s.everybody()
		before := map[string]string{}
		for name, p := range s.api.live.pods {
			if p.DeletionTimestamp == nil {
				before[name] = podContent(p)
			}
		}
		n := rapid.Int32Range(0, 6).Draw(t, "replicas")
		to := pick(t, "partition", partitions)
		s.edit(fmt.Sprintf("replicas %d partition %s", n, to.String()), func(spec *v1alpha1.UnitedDeploymentSpec) {
			spec.Replicas = &n
			setPartition(spec, "a", to)
			spec.Template = templateOf("v3", "Parallel")
		})
		s.settle()
		for name, p := range s.api.live.pods {
			was, is := before[name], podContent(p)
			if is == "v3" || was != "" && was != is {
				s.fail("%s was %q and is %q", name, was, is)
			}
			if was == "" && is != "v1" && ordinalOf("web-a", name) >= int32(len(before)) {
				s.fail("%s is new, and on %s", name, is)
			}
		}
	})
}
