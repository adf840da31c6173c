// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united"
)

// planned returns a plan in the order of execution, a line for each child.
func (s *scene) planned() string {
	s.T.Helper()
	s.API.Refresh()
	lines, err := united.Planned(s.T.Context(), s.Reconciler, s.Parent().DeepCopy())
	if err != nil {
		s.Fail("%v", err)
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
			s.API.DeletePod(s.API.Live.Pods["web-a-1"])
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
		{"all subsets are gone", func(s *scene) *scene { return s.settled().replicas(0).comeOrGo("a").comeOrGo("b") }, `
a Remove
b Remove`},
		{"all subsets are gone, and the replicas are not", func(s *scene) *scene { return s.settled().comeOrGo("a").comeOrGo("b") }, `
a Wait
b Wait`},
		{"one that is being deleted is not deleted again", func(s *scene) *scene { return s.settled().comeOrGo("b").dying("b") }, `
a Apply v1 x4 p4 protects v1
b Wait`},
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
	u := s.API.Live.Sets["web-"+subset].DeepCopy()
	now := s.API.Now()
	u.SetDeletionTimestamp(&now)
	s.API.PutSet(u)
	return s
}

func (s *scene) writtenFrom(subset, generation string) *scene {
	u := s.API.Live.Sets["web-"+subset].DeepCopy()
	annotations := u.GetAnnotations()
	annotations[v1alpha1.AnnotationParentGeneration] = generation
	annotations[v1alpha1.AnnotationRecordChecksum] = adapters.RecordChecksum(u.GetNamespace(), u.GetName(), annotations)
	u.SetAnnotations(annotations)
	s.API.PutSet(u)
	return s
}

// If the status is lost, for example because the object was restored from a backup, it is rebuilt from the children:
// the protected revision of each subset, and that there is something to protect.
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
			parent := s.Parent().DeepCopy()
			parent.Status = v1alpha1.UnitedDeploymentStatus{ObservedGeneration: -1}
			s.API.Live.Parents["web"] = parent
			s.Restart()
			before := len(s.API.Writes)
			s.pass()
			if diff := cmp.Diff(want, s.told()); diff != "" {
				t.Error("want -, have +\n", diff)
			}
			for _, w := range s.API.Writes[before:] {
				if strings.HasPrefix(w, "apply") {
					t.Error(w)
				}
			}
		})
	}
}
