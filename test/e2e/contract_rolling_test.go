// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestContractRolling checks the built-in kinds in a coordinated rollout.
func TestContractRolling(t *testing.T) { eachKind(t, builtIn(), contractRolling) }

// TestContractRollingOfInstalled checks the other kinds in a coordinated rollout.
func TestContractRollingOfInstalled(t *testing.T) { eachKind(t, installed(), contractRolling) }

// contractRolling checks what United promises for every kind in a coordinated rollout: no more than
// maxUnavailable replicas are down over all subsets, steps are kept, a failure stops everything, and
// going back repairs it.
func contractRolling(t *testing.T, k kind) {
	strategy := rolling(`{"maxUnavailable":2,"steps":[{"subsets":["zone-a"],"partition":"0%","pause":{}}]}`)
	w := k.contractOf(t, replicas(9), zones("", "", ""), strategy)
	w.Step("comes up", func() { w.comesTo("3 v1", "3 v1", "3 v1") })
	w.Step("a zone, then all, within maxUnavailable", func() {
		before := w.uids("zone-b", "zone-c")
		ledger := w.Ledger(9)
		w.setImage("v2")
		key := w.AwaitPhase(v1alpha1.RolloutAwaitingApproval).ApprovalKey
		w.comesTo("3 v2", "3 v1", "3 v1")
		w.Expect(w.uids("zone-b", "zone-c")).To(Equal(before))
		w.Approve(key)
		w.comesTo("3 v2", "3 v2", "3 v2")
		ledger.Within(2)
		w.Expect(w.Parent().Status.CurrentRevision).To(Equal(w.Parent().Status.UpdateRevision))
	})
	w.Step("a failure stops all", func() {
		before := w.uids("zone-b", "zone-c")
		w.setImage("broken")
		w.Eventually(func(g Gomega) {
			g.Expect(condition(w.Parent(), v1alpha1.ConditionStalled).Reason).To(Equal(v1alpha1.ReasonReplicaFailed))
		}).Should(Succeed())
		w.Expect(w.uids("zone-b", "zone-c")).To(Equal(before))
		w.Expect(w.ready()).To(BeNumerically(">=", 7))
		if w.whole {
			w.Eventually(func(g Gomega) {
				paused, _, err := unstructured.NestedBool(w.child("zone-a").Object, "spec", "paused")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(paused).To(BeTrue(), "what is on its way stops too")
			}).Should(Succeed())
		}
	})
	w.Step("the way back", func() {
		before := w.uids("zone-b", "zone-c")
		w.setImage("v2")
		w.comesTo("3 v2", "3 v2", "3 v2")
		w.Expect(w.uids("zone-b", "zone-c")).To(Equal(before))
		w.Expect(condition(w.Parent(), v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
	})
	w.Step("one zone after the other", func() {
		w.SetRolling(`{"maxUnavailable":1,"order":"Sequential","steps":null}`)
		ledger, from := w.Ledger(9), len(w.History.Events(w.Name))
		w.setImage("v3")
		w.comesTo("3 v3", "3 v3", "3 v3")
		ledger.Within(1)
		w.Expect(outOfOrder(w.History.Events(w.Name), from, "v3", 3, "zone-a", "zone-b", "zone-c")).To(BeEmpty())
	})
	w.Step("moves between zones keep to it", func() {
		ledger := w.Ledger(9)
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0/replicas","value":5}]`)
		w.comesTo("5 v3", "2 v3", "2 v3")
		w.Expect(ledger.Most()).To(BeNumerically("<=", 1))
	})
	w.keepsTheFloor()
}

// keepsTheFloor checks that no replica below the partition of the strategy moves, in a workload with 5,
// 2 and 2 replicas on v3.
func (w *contracted) keepsTheFloor() {
	if w.whole {
		return // it is refused, see TestKindsAdmission
	}
	w.Step("no replica below the floor moves", func() {
		w.SetRolling(`{"maxUnavailable":2,"partition":2}`)
		before := w.uids("zone-b", "zone-c")
		from, below := len(w.History.Events(w.Name)), w.History.Forbid(protect("zone-a", 2, "v3"), outside("zone-a"))
		w.setImage("v4")
		w.comesTo("2 v3, 3 v4", "2 v3", "2 v3")
		w.Expect(w.uids("zone-b", "zone-c")).To(Equal(before))
		atLeast, _ := extremes(w.History.Events(w.Name), from, "v3")
		w.Expect(atLeast).To(Equal(map[string]int{"zone-a": 2, "zone-b": 2, "zone-c": 2}))
		if !w.counts {
			below.Holds()
		}
		w.Step("the control: a lower floor", func() {
			w.SetRolling(`{"partition":1}`)
			w.comesTo("1 v3, 4 v4", "1 v3, 1 v4", "1 v3, 1 v4")
			atLeast, _ := extremes(w.History.Events(w.Name), from, "v3")
			w.Expect(atLeast).To(Equal(map[string]int{"zone-a": 1, "zone-b": 1, "zone-c": 1}))
			below.Fires()
		})
	})
}

// outOfOrder returns where a zone lost a replica, or got one of an image, before all replicas of the
// zone before it were ready on that image; "" if that did not happen since a place in the events.
func outOfOrder(events []podEvent, from int, image string, size int, zones ...string) string {
	living, begun := map[types.UID]pod{}, map[string]bool{}
	for i, event := range events {
		at := slices.Index(zones, event.Subset)
		begins := event.Gone || event.Terminating || strings.HasPrefix(event.Image, image)
		if i >= from && begins && !begun[event.Subset] {
			begun[event.Subset] = true
			ready := 0
			for _, p := range living {
				if at > 0 && p.Subset == zones[at-1] && p.Image == image && p.Ready && !p.Terminating {
					ready++
				}
			}
			if at > 0 && ready < size {
				return fmt.Sprintf("%s on %s moves while %d of %d replicas of %s are ready on %s", event.Name, event.Image, ready, size, zones[at-1], image)
			}
		}
		living[event.UID] = event.pod
		if event.Gone {
			delete(living, event.UID)
		}
	}
	if len(begun) != len(zones) {
		return fmt.Sprintf("only %d of %d zones moved", len(begun), len(zones))
	}
	return ""
}

// extremes returns the smallest and the largest number of replicas that ran an image at once, of each
// subset, since a place in the events. Replicas that are being deleted do not count.
func extremes(events []podEvent, from int, image string) (least, most map[string]int) {
	living := map[types.UID]pod{}
	least, most = map[string]int{}, map[string]int{}
	for i, event := range events {
		if i >= from {
			note(living, image, least, most)
		}
		living[event.UID] = event.pod
		if event.Gone || event.Terminating {
			delete(living, event.UID)
		}
	}
	note(living, image, least, most)
	return least, most
}

func note(living map[types.UID]pod, image string, least, most map[string]int) {
	now := map[string]int{}
	for _, p := range living {
		if p.Image == image {
			now[p.Subset]++
		}
	}
	for subset := range now {
		if _, known := least[subset]; !known {
			least[subset] = now[subset]
		}
	}
	for subset := range least {
		least[subset], most[subset] = min(least[subset], now[subset]), max(most[subset], now[subset])
	}
}

// TestOrderIsSeen checks that outOfOrder and extremes see what they should see.
func TestOrderIsSeen(t *testing.T) {
	t.Parallel()
	at := func(name, uid, image string, ready bool) podEvent {
		return podEvent{pod: pod{Name: name, UID: types.UID(uid), Subset: name[:1], Image: image, Ready: ready}}
	}
	gone := func(e podEvent) podEvent { e.Gone = true; return e }
	a0, a1, b0 := at("a0", "1", "v1", true), at("a1", "2", "v1", true), at("b0", "3", "v1", true)
	before := []podEvent{a0, a1, b0}
	first := []podEvent{gone(a1), at("a1", "4", "v2", false), at("a1", "4", "v2", true), gone(a0), at("a0", "5", "v2", false)}
	ready := at("a0", "5", "v2", true)
	for name, tc := range map[string]struct {
		more []podEvent
		want string
	}{
		"in order":           {[]podEvent{ready, gone(b0), at("b0", "6", "v2", true)}, ""},
		"deleted too early":  {[]podEvent{gone(b0), ready}, "b0 on v1 moves while 1 of 2 replicas of a are ready on v2"},
		"beside the old one": {[]podEvent{at("b0", "6", "v2", false)}, "b0 on v2 moves while 1 of 2 replicas of a are ready on v2"},
		"not at all":         {[]podEvent{ready}, "only 1 of 2 zones moved"},
	} {
		events := slices.Concat(before, first, tc.more)
		if got := outOfOrder(events, len(before), "v2", 2, "a", "b"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	least, most := extremes(slices.Concat(before, first), len(before), "v1")
	if least["a"] != 0 || most["a"] != 2 || least["b"] != 1 || most["b"] != 1 {
		t.Error(least, most)
	}
}

// ready returns how many pods are ready.
func (w *contracted) ready() (n int) {
	w.t.Helper()
	for _, p := range w.Pods() {
		if p.Ready && !p.Terminating {
			n++
		}
	}
	return n
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
			e := newEnv(t)
			w := e.deploymentsOf(replicas(3), zones(""), hold(), slowly())
			w.comesTo("3 v1", "", "")
			w.setImage("quiet")
			w.SetPartitions(parts{"zone-a": 0})
			w.Eventually(w.mix).Should(Equal(map[string]string{"zone-a": "1 quiet?, 2 v1"}))
			w.Patch(`{"spec":%s}`, patches[0])
			if name == "not" {
				w.becomeReady("quiet")
				w.Eventually(w.mix).Should(Equal(map[string]string{"zone-a": "1 quiet, 1 quiet?, 1 v1"}), "it goes on by itself")
				return
			}
			w.Eventually(func() bool {
				paused, _, _ := unstructured.NestedBool(w.child("zone-a").Object, "spec", "paused")
				return paused
			}).Should(BeTrue())
			w.becomeReady("quiet")
			w.Eventually(func(g Gomega) {
				g.Expect(w.Status("zone-a").ReadyReplicas).To(Equal(int32(3)), "the manager has seen it")
				g.Expect(w.observedByItsController("zone-a")).To(BeTrue())
			}).Should(Succeed())
			w.Expect(w.mix()).To(Equal(map[string]string{"zone-a": "1 quiet, 2 v1"}))
			w.Patch(`{"spec":%s}`, patches[1])
			w.Eventually(w.mix).Should(Equal(map[string]string{"zone-a": "1 quiet, 1 quiet?, 1 v1"}))
			w.setImage("v1") // and back
			w.comesTo("3 v1", "", "")
		})
	}
}

// becomeReady reports, as the kubelet, all pods of an image as ready.
func (w *contracted) becomeReady(tag string) {
	w.t.Helper()
	w.Disturbed()
	for _, p := range w.Pods() {
		if p.Image == tag {
			w.markPod(p.Name, corev1.ConditionTrue)
		}
	}
}

// observedByItsController reports whether the status of a child covers all of its pods.
func (w *contracted) observedByItsController(subset string) bool {
	w.t.Helper()
	child := w.child(subset)
	observed, _, _ := unstructured.NestedInt64(child.Object, "status", "observedGeneration")
	ready, _, _ := unstructured.NestedInt64(child.Object, "status", "readyReplicas")
	return observed == child.GetGeneration() && ready == 3
}
