// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestContractRolling checks the built-in kinds in a coordinated rollout.
func TestContractRolling(t *testing.T) { EachKind(t, BuiltIn(), ContractRolling) }

// TestOrderIsSeen checks that outOfOrder and extremes see what they should see.
func TestOrderIsSeen(t *testing.T) {
	t.Parallel()
	at := func(name, uid, image string, ready bool) PodEvent {
		return PodEvent{Pod: Pod{Name: name, UID: types.UID(uid), Subset: name[:1], Image: image, Ready: ready}}
	}
	gone := func(e PodEvent) PodEvent { e.Gone = true; return e }
	a0, a1, b0 := at("a0", "1", "v1", true), at("a1", "2", "v1", true), at("b0", "3", "v1", true)
	before := []PodEvent{a0, a1, b0}
	first := []PodEvent{gone(a1), at("a1", "4", "v2", false), at("a1", "4", "v2", true), gone(a0), at("a0", "5", "v2", false)}
	ready := at("a0", "5", "v2", true)
	for name, tc := range map[string]struct {
		more []PodEvent
		want string
	}{
		"in order":           {[]PodEvent{ready, gone(b0), at("b0", "6", "v2", true)}, ""},
		"deleted too early":  {[]PodEvent{gone(b0), ready}, "b0 on v1 moves while 1 of 2 replicas of a are ready on v2"},
		"beside the old one": {[]PodEvent{at("b0", "6", "v2", false)}, "b0 on v2 moves while 1 of 2 replicas of a are ready on v2"},
		"not at all":         {[]PodEvent{ready}, "only 1 of 2 zones moved"},
	} {
		events := slices.Concat(before, first, tc.more)
		if got := OutOfOrder(events, len(before), "v2", 2, "a", "b"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	least, most := Extremes(slices.Concat(before, first), len(before), "v1")
	if least["a"] != 0 || most["a"] != 2 || least["b"] != 1 || most["b"] != 1 {
		t.Error(least, most)
	}
}

// TestDeploymentStopsInTheMiddle checks that a Deployment which is held, or paused, in the middle of an
// update keeps its mix of versions, and continues when it may.
func TestDeploymentStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, patches := range map[string][2]string{
		"held":   {`{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":"100%"}}}}`, `{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0}}}}`},
		"paused": {`{"paused":true}`, `{"paused":false}`},
		"not":    {`{"minReadySeconds":0}`, `{"minReadySeconds":0}`}, // the control
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(Replicas(3), Zones(""), Hold(), Slowly())
			w.ComesTo("3 v1", "", "")
			w.SetImages("quiet")
			w.SetPartitions(Parts{"zone-a": 0})
			w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet?, 2 v1"}))
			w.Patch(`{"spec":%s}`, patches[0])
			if name == "not" {
				w.BecomeReady("quiet")
				w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet, 1 quiet?, 1 v1"}), "it goes on by itself")
				return
			}
			w.Eventually(func() bool {
				paused, _, _ := unstructured.NestedBool(w.LiveChild("zone-a").Object, "spec", "paused")
				return paused
			}).Should(BeTrue())
			w.BecomeReady("quiet")
			w.Eventually(func(g Gomega) {
				g.Expect(w.Status("zone-a").ReadyReplicas).To(Equal(int32(3)), "the manager has seen it")
				g.Expect(observedByItsController(w, "zone-a")).To(BeTrue())
			}).Should(Succeed())
			w.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": "1 quiet, 2 v1"}))
			w.Patch(`{"spec":%s}`, patches[1])
			w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet, 1 quiet?, 1 v1"}))
			w.SetImages("v1") // and back
			w.ComesTo("3 v1", "", "")
		})
	}
}

// observedByItsController reports whether the status of a child covers all of its pods.
func observedByItsController(w *Contracted, subset string) bool {
	w.T.Helper()
	child := w.LiveChild(subset)
	observed, _, _ := unstructured.NestedInt64(child.Object, "status", "observedGeneration")
	ready, _, _ := unstructured.NestedInt64(child.Object, "status", "readyReplicas")
	return observed == child.GetGeneration() && ready == 3
}
