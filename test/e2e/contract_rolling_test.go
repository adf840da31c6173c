// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestContractRolling checks what United promises for every kind in a coordinated rollout: no more than
// maxUnavailable replicas are down over all subsets, steps are kept, a failure stops everything, and
// going back repairs it.
func TestContractRolling(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
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
				ledger := w.Ledger(9)
				w.setImage("v3")
				w.comesTo("3 v3", "3 v3", "3 v3")
				ledger.Within(1)
				var order []string
				for _, event := range w.History.Events(w.Name) {
					if event.Image == "v3" && !slices.Contains(order, event.Subset) {
						order = append(order, event.Subset)
					}
				}
				w.Expect(order).To(Equal([]string{"zone-a", "zone-b", "zone-c"}))
			})
			w.Step("moves between zones keep to it", func() {
				ledger := w.Ledger(9)
				w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0/replicas","value":5}]`)
				w.comesTo("5 v3", "2 v3", "2 v3")
				w.Expect(ledger.Most()).To(BeNumerically("<=", 1))
			})
		})
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
