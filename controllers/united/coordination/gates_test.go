// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// A gate that is added to the table, as CONTRIBUTING.md explains, holds what its line says, reports why, requeues
// the rollout, and is passed only by what its line says.

const closedFor = "waiting: the error budget is spent"

// gated adds a closed gate.
func (w *world) gated(g coordination.Gate) *world {
	g.Reason = closedFor
	w.extraGates = append(w.extraGates, g)
	return w
}

// open removes the gates of the test.
func (w *world) open() *world {
	w.extraGates = nil
	return w
}

// TestGatesAreAsDocumented: the table in docs/design.md has the same lines.
func TestGatesAreAsDocumented(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, line := range coordination.Gates() {
		want = append(want, strings.Join(line, ": "))
	}
	_, table, _ := strings.Cut(string(raw), "| gate | closed while | holds | passed by |\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 4 {
			break
		}
		clean := func(cell string) string {
			words := strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune(" ,`|–", r) })
			return strings.Join(words, " ")
		}
		if name := clean(cells[0]); name != "---" {
			got = append(got, name+": "+clean(cells[2])+": "+clean(cells[3]))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-gates() +docs/design.md\n%s", diff)
	}
}

// heldScopes are the three ways to hold a release.
var heldScopes = []string{"allReleases", "oneSubset", "nextReplica"}

func TestAGateHoldsEveryRelease(t *testing.T) {
	for _, scope := range heldScopes {
		t.Run(scope, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := randomWorld(t).gated(coordination.Gate{Holds: []string{scope}})
				w.roll("v2").settle()
				if n := w.running("v2"); n > 0 {
					t.Fatalf("%d replicas were updated\n%s", n, strings.Join(w.narrative, "\n"))
				}
				for i, d := range w.last.Subsets {
					c := w.subsets[i]
					if toRelease := floorOf(w.strategy.Partition.StrVal, c.desired) < c.desired; toRelease && d.WaitReason == "" {
						t.Fatalf("%s does not say why it waits: %s", c.Name, w.picture())
					}
				}
				w.forced = "" // so that broken replicas may end or block it
				w.open().settle()
				if w.state.Phase != v1alpha1.RolloutDone && w.state.Phase != v1alpha1.RolloutBlocked {
					t.Fatalf("it does not go on when the gate is open: %s", w.picture())
				}
			})
		})
	}
}

// randomWorld has broken replicas, and everything else that may let a release pass a gate.
func randomWorld(t *rapid.T) *world {
	sizes := rapid.SliceOfN(rapid.Int32Range(0, 6), 1, 4).Filter(some).Draw(t, "sizes")
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Partition = amount(rapid.SampledFrom([]string{"0%", "0%", "50%"}).Draw(t, "floor"))
		s.MaxUnavailable = amount(fmt.Sprint(rapid.IntRange(1, 6).Draw(t, "maxUnavailable")))
		switch rapid.IntRange(0, 2).Draw(t, "order") {
		case 0:
			s.Order = v1alpha1.SequentialOrder
		case 1:
			s.MaxSkew = "10%"
		}
	}), sizes...)
	if rapid.Bool().Draw(t, "ordered") {
		w.ordered()
	}
	for i, size := range sizes {
		for p := range size {
			if rapid.IntRange(0, 3).Draw(t, "sick") == 0 {
				w.fail(i, p)
			}
		}
	}
	if rapid.Bool().Draw(t, "forced") {
		w.forced = "v2"
	}
	return w
}

// TestAGateIsTold: the subsets and the rollout report its reason, and the rollout is requeued for its time.
func TestAGateIsTold(t *testing.T) {
	for _, scope := range heldScopes {
		for _, stall := range []bool{false, true} {
			t.Run(fmt.Sprint(scope, " stall ", stall), func(t *testing.T) {
				w := newWorld(nil, 3, 3).roll("v2")
				again := w.now.Add(time.Hour)
				w.gated(coordination.Gate{Holds: []string{scope}, Again: again, Stall: stall}).settle()
				for _, d := range w.last.Subsets {
					if d.WaitReason != closedFor {
						t.Errorf("a subset says %q", d.WaitReason)
					}
				}
				phase := v1alpha1.RolloutProgressing
				if stall {
					phase = v1alpha1.RolloutBlocked
				}
				if w.state.Phase != phase || w.last.Stalled != stall || !strings.Contains(w.state.Message, closedFor) {
					t.Errorf("stalled %v: %+v", w.last.Stalled, w.state)
				}
				if !w.last.Wake.Equal(again) {
					t.Errorf("it is looked at again at %s, not at %s", w.last.Wake, again)
				}
			})
		}
	}
}

// TestAGateHoldsWhatIsOfItsScope: a gate for the end of a step holds no release, and a gate for all releases also
// holds deletions.
func TestAGateHoldsWhatIsOfItsScope(t *testing.T) {
	t.Run("endOfStep", func(t *testing.T) {
		w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
			s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("1")}}
		}), 3).roll("v2")
		again := w.now.Add(time.Hour)
		w.gated(coordination.Gate{Holds: []string{"endOfStep"}, Again: again}).settle()
		if fmt.Sprint(w.updated()) != "[2]" || w.state.Step != 0 || w.state.Message != closedFor || !w.last.Wake.Equal(again) {
			t.Errorf("%s, again at %s", w.picture(), w.last.Wake)
		}
		w.forced = "v2"
		if w.settle(); w.state.Step != 0 {
			t.Errorf("force ends a step: %s", w.picture())
		}
		w.extraGates[0].Open = true
		if w.settle(); !w.complete() {
			t.Error(w.picture())
		}
	})
	t.Run("deletions", func(t *testing.T) {
		for name, scene := range map[string]func() *world{"to replace": toReplace, "to take back": toTakeBack} {
			if p := scene().decide(); len(p.Subsets[0].Delete) == 0 {
				t.Fatalf("%s: nothing would be deleted without a gate", name)
			}
			p := scene().gated(coordination.Gate{Holds: []string{"allReleases"}}).decide()
			if d := p.Subsets[0].Delete; len(d) > 0 {
				t.Errorf("%s: %s is deleted", name, d[0].Name)
			}
		}
	})
}

// toReplace returns a world with a released replica that is broken and not updated.
func toReplace() *world {
	w := staged(newWorld(nil, 2))
	w.fail(0, 1)
	w.subsets[0].Observed.Partition = 1
	return w
}

// toTakeBack returns a world with a replica that was updated without having been released.
func toTakeBack() *world {
	w := staged(newWorld(nil, 2))
	c := w.subsets[0]
	w.drop(0, 1).make(c, 1, "v2")
	w.ready()
	c.Unreleased = []adapters.Replica{*c.member(1)}
	return w
}

// TestAGateIsPassedByWhatItsLineSays: each exemption lets a release that has it pass, and the others do not.
func TestAGateIsPassedByWhatItsLineSays(t *testing.T) {
	for exemption, scene := range map[string]struct {
		scope string
		make  func() *world
		also  []string // the other exemptions of the same release
	}{
		"byForce": {"nextReplica", func() *world {
			w := staged(newWorld(nil, 3))
			w.forced = "v2"
			return w
		}, nil},
		"goingBack": {"nextReplica", func() *world {
			return staged(halfWay().roll("v1"))
		}, nil},
		"downGoingBack": {"nextReplica", func() *world {
			w := staged(halfWay().roll("v1"))
			c := w.subsets[0].member(2)
			c.Ready, c.ReadySince, c.Since = false, time.Time{}, w.now
			return w
		}, []string{"goingBack"}},
		"isBroken": {"nextReplica", func() *world {
			w := staged(newWorld(nil, 3))
			w.fail(0, 2)
			return w
		}, nil},
		"updatedAlready": {"nextReplica", func() *world {
			w := staged(newWorld(nil, 3))
			w.drop(0, 2).make(w.subsets[0], 2, "v2")
			w.ready()
			return w
		}, nil},
		"unlocking": {"nextReplica", func() *world {
			w := staged(newWorld(nil, 3).ordered())
			w.fail(0, 0)
			w.forced = "v2"
			return w
		}, []string{"byForce"}},
		"neverUp": {"allReleases", neverUp, nil},
	} {
		t.Run(exemption, func(t *testing.T) {
			passes := func(passedBy []string) bool {
				w := scene.make().gated(coordination.Gate{Holds: []string{scene.scope}, PassedBy: passedBy})
				before := w.subsets[0].Observed.Partition
				after := w.decide().Subsets[0].Partition
				return after < before || exemption == "neverUp" && after == 0
			}
			if !passes([]string{exemption}) {
				t.Errorf("%s does not pass", exemption)
			}
			others := slices.DeleteFunc(coordination.Exemptions(), func(name string) bool {
				return name == exemption || slices.Contains(scene.also, name)
			})
			if passes(others) {
				t.Errorf("it passes by one of %s", others)
			}
		})
	}
}

// staged puts every child on the update revision, with nothing released.
func staged(w *world) *world {
	if w.update == "v1" && w.current == "v1" && w.running("v2") == 0 {
		w.roll("v2")
	}
	w.extraGates = []coordination.Gate{{Holds: heldScopes}}
	w.decide()
	w.decide()
	w.decide()
	return w.open()
}

// halfWay returns a world with a rollout to v2 in which one replica is updated.
func halfWay() *world {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Steps = []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount("2"), Pause: &v1alpha1.RolloutPause{}}}
	}), 3).roll("v2")
	w.settle()
	return w
}

// neverUp returns a world with a child whose first template was corrected and did not come up.
func neverUp() *world {
	w := newWorld(nil, 2)
	c := w.subsets[0]
	c.FirstRolloutPending, c.Observed.CurrentHash, c.Observed.Partition = true, "v0", 0
	w.fail(0, 0, 1)
	w.roll("v2")
	w.state = &v1alpha1.RolloutStatus{Revision: "v2", Phase: v1alpha1.RolloutProgressing}
	c.Recorded = ptr.To(int32(0))
	return w
}

// drop removes a replica.
func (w *world) drop(subset int, position int32) *world {
	w.subsets[subset].drop(position)
	return w
}
