// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRolloutWrites checks that a child is written once when a revision is staged and once for each
// wave of its replicas, and that no write is refused.
func TestRolloutWrites(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("", "", ""), Rolling(`{}`)))
		w.Settle()
		roll := func(tag string) map[string]int {
			e.T.Helper()
			BringToRest(w, "zone-a", "zone-b", "zone-c")
			mark := e.AuditMark()
			w.SetImage(tag)
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			count := map[string]int{}
			for _, write := range e.Writes(mark) {
				e.Expect(write.Code).To(BeNumerically("<", 300), "%s %s/%s", write.Verb, write.Resource, write.Name)
				if write.Resource == Children {
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
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(4), Policy(p), Zones("2", "2"), Rolling(`{order: Sequential}`)))
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
		still := e.History.Forbid(AnyNewPod)
		w.MarkReady("zone-a", 0)
		w.Eventually(func() string { return w.Rollout().Message }).Should(ContainSubstring("web-zone-a-1"))
		ComesToRest(w, "zone-a", "zone-b")
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
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(4), Policy(p), Zones("2", "2"), Rolling(`{}`), MinReadySeconds(3)))
		w.Settle()
		ledger := w.Ledger(4).MinReady(3 * time.Second)
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		ledger.Within(1)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2"}))
	})
}

// TestRolloutSkew checks that the shares of two zones of different sizes differ by at most maxSkew and
// one replica of the smaller zone.
func TestRolloutSkew(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(15), Policy(p), Zones("10", "5"), Rolling(`{maxUnavailable: "100%", maxSkew: "20%"}`)))
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
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(15), Policy(p), Zones("10", "5"), Rolling(`{partition: "80%", maxUnavailable: 3}`)))
		w.Settle()
		line := e.History.Forbid(Protect("zone-a", 8, "v1"), Protect("zone-b", 4, "v1"))
		ledger := w.Ledger(15)
		tags := func(old, updated int, tag string) string {
			return strings.Join(append(slices.Repeat([]string{"v1"}, old), slices.Repeat([]string{tag}, updated)...), " ")
		}
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutHeld)
		held := Images{"zone-a": tags(8, 2, "v2"), "zone-b": tags(4, 1, "v2")}
		e.Expect(w.Images()).To(Equal(held))
		e.Expect(Condition(w.Parent(), v1alpha1.ConditionReady).Message).To(HaveSuffix("; partitions hold 12"))
		e.Expect(w.Rollout().Phase).To(Equal(v1alpha1.RolloutDone))
		ExpectRest(w, "zone-a", "zone-b")

		e.Step("a pod that is deleted comes back on its own side", func() {
			w.DeletePod("zone-a", 7)
			w.DeletePod("zone-a", 8)
			w.Settle()
			e.Expect(w.Images()).To(Equal(held))
		})
		e.Step("100% holds all, whatever comes", func() {
			still := e.History.Forbid(AnyNewPod)
			w.SetRolling(`{partition: "100%"}`)
			w.IsReady(v1alpha1.ReasonRolloutHeld)
			w.SetImage("v3")
			w.IsReady(v1alpha1.ReasonRolloutHeld)
			ExpectRest(w, "zone-a", "zone-b")
			still.Holds()
			e.Expect(w.Images()).To(Equal(held))
		})
		line.Holds()
		w.SetRolling(`{partition: 0}`)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		line.Fires()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": tags(0, 10, "v3"), "zone-b": tags(0, 5, "v3")}))
		e.Expect(ledger.Taken()).To(BeNumerically("<=", 3), "%s", ledger)
	})
}

// TestRolloutTwo checks that two parents in one namespace do not wait for each other, and that problems
// of one do not affect the other.
func TestRolloutTwo(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		var all []*Workload
		for i := range 2 {
			all = append(all, e.Create(NewDraft(fmt.Sprintf("web-%d", i), Replicas(6), Policy(p), Zones("", "", ""), Rolling(`{maxUnavailable: 2}`))))
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
		e.Expect(sound.Images()).To(Equal(ThreeZones("v2 v2")))
		e.Expect(ledgers[0].Most()).To(And(BeNumerically(">=", 1), BeNumerically("<=", 2)))
		e.Expect(ledgers[1].Most()).To(And(BeNumerically(">=", 1), BeNumerically("<=", 2)))
		ComesToRest(broken, "zone-a", "zone-b", "zone-c") // its counts may still change
		broken.SetImage("v3")
		sound.SetImage("v3")
		for _, w := range all {
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			e.Expect(w.Images()).To(Equal(ThreeZones("v3 v3")))
		}
		for _, l := range ledgers {
			e.Expect(l.Taken()).To(BeNumerically("<=", 2), "%s", l)
		}
	})
}
