// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

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

// ContractRolling checks what United promises for every kind in a coordinated rollout: no more than
// maxUnavailable replicas are down over all subsets, steps are kept, a failure stops everything, and
// going back repairs it.
func ContractRolling(t *testing.T, k Kind) {
	strategy := Rolling(`{"maxUnavailable":2,"steps":[{"subsets":["zone-a"],"partition":"0%","pause":{}}]}`)
	w := k.ContractOf(t, Replicas(9), Zones("", "", ""), strategy)
	w.Step("comes up", func() { w.ComesTo("3 v1", "3 v1", "3 v1") })
	w.Step("a zone, then all, within maxUnavailable", func() {
		before := w.Uids("zone-b", "zone-c")
		ledger := w.Ledger(9)
		w.SetImages("v2")
		key := w.AwaitPhase(v1alpha1.RolloutAwaitingApproval).ApprovalKey
		w.ComesTo("3 v2", "3 v1", "3 v1")
		w.Expect(w.Uids("zone-b", "zone-c")).To(Equal(before))
		w.Approve(key)
		w.ComesTo("3 v2", "3 v2", "3 v2")
		ledger.Within(2)
		w.Expect(w.Parent().Status.CurrentRevision).To(Equal(w.Parent().Status.UpdateRevision))
	})
	w.Step("a failure stops all", func() {
		before := w.Uids("zone-b", "zone-c")
		w.SetImages("broken")
		w.Eventually(func(g Gomega) {
			g.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Reason).To(Equal(v1alpha1.ReasonReplicaFailed))
		}).Should(Succeed())
		w.Expect(w.Uids("zone-b", "zone-c")).To(Equal(before))
		w.Expect(w.Ready()).To(BeNumerically(">=", 7))
		if w.Whole {
			w.Eventually(func(g Gomega) {
				paused, _, err := unstructured.NestedBool(w.LiveChild("zone-a").Object, "spec", "paused")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(paused).To(BeTrue(), "what is on its way stops too")
			}).Should(Succeed())
		}
	})
	w.Step("the way back", func() {
		before := w.Uids("zone-b", "zone-c")
		w.SetImages("v2")
		w.ComesTo("3 v2", "3 v2", "3 v2")
		w.Expect(w.Uids("zone-b", "zone-c")).To(Equal(before))
		w.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
	})
	w.Step("one zone after the other", func() {
		w.SetRolling(`{"maxUnavailable":1,"order":"Sequential","steps":null}`)
		ledger, from := w.Ledger(9), len(w.History.Events(w.Name))
		w.SetImages("v3")
		w.ComesTo("3 v3", "3 v3", "3 v3")
		ledger.Within(1)
		w.Expect(OutOfOrder(w.History.Events(w.Name), from, "v3", 3, "zone-a", "zone-b", "zone-c")).To(BeEmpty())
	})
	w.Step("moves between zones keep to it", func() {
		ledger := w.Ledger(9)
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0/replicas","value":5}]`)
		w.ComesTo("5 v3", "2 v3", "2 v3")
		w.Expect(ledger.Most()).To(BeNumerically("<=", 1))
	})
	w.keepsTheFloor()
}

// keepsTheFloor checks that no replica below the partition of the strategy moves, in a workload with 5,
// 2 and 2 replicas on v3.
func (w *Contracted) keepsTheFloor() {
	if w.Whole {
		return // it is refused, see TestKindsAdmission
	}
	w.Step("no replica below the floor moves", func() {
		w.SetRolling(`{"maxUnavailable":2,"partition":2}`)
		before := w.Uids("zone-b", "zone-c")
		from, below := len(w.History.Events(w.Name)), w.History.Forbid(Protect("zone-a", 2, "v3"), Outside("zone-a"))
		w.SetImages("v4")
		w.ComesTo("2 v3, 3 v4", "2 v3", "2 v3")
		w.Expect(w.Uids("zone-b", "zone-c")).To(Equal(before))
		atLeast, _ := Extremes(w.History.Events(w.Name), from, "v3")
		w.Expect(atLeast).To(Equal(map[string]int{"zone-a": 2, "zone-b": 2, "zone-c": 2}))
		if !w.Counts {
			below.Holds()
		}
		w.Step("the control: a lower floor", func() {
			w.SetRolling(`{"partition":1}`)
			w.ComesTo("1 v3, 4 v4", "1 v3, 1 v4", "1 v3, 1 v4")
			atLeast, _ := Extremes(w.History.Events(w.Name), from, "v3")
			w.Expect(atLeast).To(Equal(map[string]int{"zone-a": 1, "zone-b": 1, "zone-c": 1}))
			below.Fires()
		})
	})
}

// OutOfOrder returns where a zone lost a replica, or got one of an image, before all replicas of the
// zone before it were ready on that image; "" if that did not happen since a place in the events.
func OutOfOrder(events []PodEvent, from int, image string, size int, zones ...string) string {
	living, begun := map[types.UID]Pod{}, map[string]bool{}
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
		living[event.UID] = event.Pod
		if event.Gone {
			delete(living, event.UID)
		}
	}
	if len(begun) != len(zones) {
		return fmt.Sprintf("only %d of %d zones moved", len(begun), len(zones))
	}
	return ""
}

// Extremes returns the smallest and the largest number of replicas that ran an image at once, of each
// subset, since a place in the events. Replicas that are being deleted do not count.
func Extremes(events []PodEvent, from int, image string) (least, most map[string]int) {
	living := map[types.UID]Pod{}
	least, most = map[string]int{}, map[string]int{}
	for i, event := range events {
		if i >= from {
			note(living, image, least, most)
		}
		living[event.UID] = event.Pod
		if event.Gone || event.Terminating {
			delete(living, event.UID)
		}
	}
	note(living, image, least, most)
	return least, most
}

func note(living map[types.UID]Pod, image string, least, most map[string]int) {
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

// Ready returns how many pods are ready.
func (w *Contracted) Ready() (n int) {
	w.T.Helper()
	for _, p := range w.Pods() {
		if p.Ready && !p.Terminating {
			n++
		}
	}
	return n
}

// BecomeReady reports, as the kubelet, all pods of an image as ready.
func (w *Contracted) BecomeReady(tag string) {
	w.T.Helper()
	w.Disturbed()
	for _, p := range w.Pods() {
		if p.Image == tag {
			w.MarkPod(p.Name, corev1.ConditionTrue)
		}
	}
}
