// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestRollout checks that a full rollout over 3 zones has up to maxUnavailable replicas down at once,
// and never one more.
func TestRollout(t *testing.T) {
	t.Parallel()
	for _, most := range []struct {
		value string
		// The number of replicas in an update at once, with Parallel, and with OrderedReady, where each
		// zone moves one.
		parallel, ordered int
	}{{"1", 1, 1}, {"2", 2, 2}, {"50%", 4, 3}} {
		t.Run(most.value, func(t *testing.T) {
			eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
				width := most.parallel
				if p == appsv1.OrderedReadyPodManagement {
					width = most.ordered
				}
				w := e.Create(draft("web", replicas(9), policy(p), zones("", "", ""), rolling(`{maxUnavailable: `+most.value+`}`)))
				w.IsReady(v1alpha1.ReasonRolloutComplete)
				ledger := w.Ledger(9)
				w.SetImage("quiet-v2")
				w.Waves(width, nil)
				w.IsReady(v1alpha1.ReasonRolloutComplete)
				ledger.Within(width)
				e.Expect(w.Images()).To(Equal(threeZones("quiet-v2 quiet-v2 quiet-v2")))
				for _, p := range w.Pods() {
					e.Expect(e.History.CreatedOn(p.Name)).To(Equal("v1 quiet-v2"), "%s is replaced once", p.Name)
				}

				e.Step("and with pods that take their time", func() {
					ledger := w.Ledger(9)
					w.SetImage("slow-v3")
					w.IsReady(v1alpha1.ReasonRolloutComplete)
					ledger.Within(width)
				})
			})
		})
	}
}

func threeZones(tags string) images {
	return images{"zone-a": tags, "zone-b": tags, "zone-c": tags}
}

// TestRolloutSequential checks that no zone begins before the previous one is done.
func TestRolloutSequential(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		width := 2
		if p == appsv1.OrderedReadyPodManagement {
			width = 1
		}
		w := e.Create(draft("web", replicas(6), policy(p), zones("", "", ""), rolling(`{maxUnavailable: 2, order: Sequential}`)))
		w.Settle()
		ledger := w.Ledger(6)
		others := e.History.Forbid(outside("zone-a"))
		w.SetImage("quiet-v2")
		var waves [][]string
		w.Waves(width, func(wave []string) {
			waves = append(waves, wave)
			if strings.HasPrefix(wave[0], "web-zone-a") {
				others.Holds()
			}
		})
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		others.Fires()
		ledger.Within(width)
		if width == 2 {
			e.Expect(waves).To(Equal([][]string{
				{"web-zone-a-0", "web-zone-a-1"}, {"web-zone-b-0", "web-zone-b-1"}, {"web-zone-c-0", "web-zone-c-1"},
			}))
		} else {
			e.Expect(waves).To(Equal([][]string{
				{"web-zone-a-1"}, {"web-zone-a-0"}, {"web-zone-b-1"}, {"web-zone-b-0"}, {"web-zone-c-1"}, {"web-zone-c-0"},
			}))
		}
	})
}

// TestRolloutWrites checks that a child is written once when a revision is staged and once for each
// wave of its replicas, and that no write is refused.
func TestRolloutWrites(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(6), policy(p), zones("", "", ""), rolling(`{}`)))
		w.Settle()
		roll := func(tag string) map[string]int {
			e.t.Helper()
			bringToRest(w, "zone-a", "zone-b", "zone-c")
			mark := e.AuditMark()
			w.SetImage(tag)
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			count := map[string]int{}
			for _, write := range e.Writes(mark) {
				e.Expect(write.Code).To(BeNumerically("<", 300), "%s %s/%s", write.Verb, write.Resource, write.Name)
				if write.Resource == children {
					count[write.Name]++
				}
			}
			return count
		}
		e.Expect(roll("v2")).To(Equal(map[string]int{"web-zone-a": 3, "web-zone-b": 3, "web-zone-c": 3}), "one by one")
		if p == appsv1.ParallelPodManagement {
			w.SetRolling(`{maxUnavailable: "100%"}`)
			w.Settle()
			e.Expect(roll("v3")).To(Equal(map[string]int{"web-zone-a": 2, "web-zone-b": 2, "web-zone-c": 2}), "all at once")
		}
	})
}

// TestRolloutFlapping checks that a replica which was ready on the new revision and is no longer ready
// counts, so that nothing is released in the meantime.
func TestRolloutFlapping(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(4), policy(p), zones("2", "2"), rolling(`{order: Sequential}`)))
		w.Settle()
		ledger := w.Ledger(4)
		w.SetImage("quiet-v2")
		w.AwaitWaiting("web-zone-a-1")
		w.MarkReady("zone-a", 1)
		w.AwaitWaiting("web-zone-a-0")
		for range 3 {
			w.MarkUnready("zone-a", 1)
			w.MarkReady("zone-a", 1)
		}
		w.MarkUnready("zone-a", 1)
		still := e.History.Forbid(anyNewPod)
		w.MarkReady("zone-a", 0)
		w.Eventually(func() string { return w.Rollout().Message }).Should(ContainSubstring("web-zone-a-1"))
		comesToRest(w, "zone-a", "zone-b")
		still.Holds()
		w.MarkReady("zone-a", 1)
		w.AwaitWaiting("web-zone-b-1")
		still.Fires()
		w.MarkReady("zone-b", 1)
		w.AwaitWaiting("web-zone-b-0")
		w.MarkReady("zone-b", 0)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		ledger.TakenWithin(1)
	})
}

// TestRolloutMinReadySeconds checks that a replica counts as unavailable until it has been ready for
// minReadySeconds.
func TestRolloutMinReadySeconds(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(4), policy(p), zones("2", "2"), rolling(`{}`), minReadySeconds(3)))
		w.Settle()
		ledger := w.Ledger(4).MinReady(3 * time.Second)
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		ledger.Within(1)
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v2 v2"}))
	})
}

func minReadySeconds(seconds int32) edit {
	return func(d *Draft) { d.Spec.MinReadySeconds = seconds }
}

// TestRolloutSkew checks that the shares of two zones of different sizes differ by at most maxSkew and
// one replica of the smaller zone.
func TestRolloutSkew(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(15), policy(p), zones("10", "5"), rolling(`{maxUnavailable: "100%", maxSkew: "20%"}`)))
		w.Settle()
		sizes := map[string]int{"zone-a": 10, "zone-b": 5}
		ledger := w.Ledger(15)
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(ledger.Shares("v2", sizes)).To(And(BeNumerically("<=", 20+20+0.01), BeNumerically(">", 0)), "%s", ledger)

		e.Step("positive control: one zone after the other is seen", func() {
			ledger := w.Ledger(15)
			w.SetRolling(`{order: Sequential, maxSkew: null}`)
			w.SetImage("v3")
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			e.Expect(ledger.Shares("v3", sizes)).To(BeNumerically("==", 100))
		})
	})
}

// TestRolloutFloor checks that a percentage protects a share of each zone, and that no replica below it
// ever moves.
func TestRolloutFloor(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(15), policy(p), zones("10", "5"), rolling(`{partition: "80%", maxUnavailable: 3}`)))
		w.Settle()
		line := e.History.Forbid(protect("zone-a", 8, "v1"), protect("zone-b", 4, "v1"))
		ledger := w.Ledger(15)
		tags := func(old, updated int, tag string) string {
			return strings.Join(append(slices.Repeat([]string{"v1"}, old), slices.Repeat([]string{tag}, updated)...), " ")
		}
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutHeld)
		held := images{"zone-a": tags(8, 2, "v2"), "zone-b": tags(4, 1, "v2")}
		e.Expect(w.Images()).To(Equal(held))
		e.Expect(condition(w.Parent(), v1alpha1.ConditionReady).Message).To(And(ContainSubstring("8 of 10 in zone-a"), ContainSubstring("4 of 5 in zone-b")))
		e.Expect(w.Rollout().Phase).To(Equal(v1alpha1.RolloutComplete))
		expectRest(w, "zone-a", "zone-b")

		e.Step("a pod that is deleted comes back on its own side", func() {
			w.DeletePod("zone-a", 7)
			w.DeletePod("zone-a", 8)
			w.Settle()
			e.Expect(w.Images()).To(Equal(held))
		})
		e.Step("100% holds all, whatever comes", func() {
			still := e.History.Forbid(anyNewPod)
			w.SetRolling(`{partition: "100%"}`)
			w.IsReady(v1alpha1.ReasonRolloutHeld)
			w.SetImage("v3")
			w.IsReady(v1alpha1.ReasonRolloutHeld)
			expectRest(w, "zone-a", "zone-b")
			still.Holds()
			e.Expect(w.Images()).To(Equal(held))
		})
		line.Holds()
		w.SetRolling(`{partition: 0}`)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		line.Fires()
		e.Expect(w.Images()).To(Equal(images{"zone-a": tags(0, 10, "v3"), "zone-b": tags(0, 5, "v3")}))
		e.Expect(ledger.Taken()).To(BeNumerically("<=", 3), "%s", ledger)
	})
}

// TestRolloutTwo checks that two parents in one namespace do not wait for each other, and that problems
// of one do not affect the other.
func TestRolloutTwo(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		var all []*Workload
		for i := range 2 {
			all = append(all, e.Create(draft(fmt.Sprintf("web-%d", i), replicas(6), policy(p), zones("", "", ""), rolling(`{maxUnavailable: 2}`))))
		}
		for _, w := range all {
			w.Settle()
		}
		broken, sound := all[0], all[1]
		ledgers := []*Ledger{broken.Ledger(6), sound.Ledger(6)}
		broken.SetImage("broken-v2")
		sound.SetImage("v2")
		broken.StallsWhole(v1alpha1.ReasonReplicaFailed, "CrashLoopBackOff")
		sound.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(sound.Images()).To(Equal(threeZones("v2 v2")))
		e.Expect(ledgers[0].Most()).To(And(BeNumerically(">=", 1), BeNumerically("<=", 2)))
		e.Expect(ledgers[1].Most()).To(And(BeNumerically(">=", 1), BeNumerically("<=", 2)))
		comesToRest(broken, "zone-a", "zone-b", "zone-c") // its counts may still change
		broken.SetImage("v3")
		sound.SetImage("v3")
		for _, w := range all {
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			e.Expect(w.Images()).To(Equal(threeZones("v3 v3")))
		}
		for _, l := range ledgers {
			e.Expect(l.Taken()).To(BeNumerically("<=", 2), "%s", l)
		}
	})
}
