// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// budgetTimeout is how long a PodDisruptionBudget may forbid evictions for no reason that can be seen; see allows.
const budgetTimeout = 2 * WaitTimeout

// TestDrain runs kubectl drain in the middle of a release, on one node, and then on all nodes of a zone, with and
// without a PodDisruptionBudget. Evicted replicas come back as what they were; without a node they wait, and a
// coordinated rollout with them.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(d *drained){
		"Manual": drainByHand, "RollingUpdate": drainRollout,
		"Manual with a budget": drainByHandWithBudget, "RollingUpdate with a budget": drainRolloutWithBudget,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			run(&drained{Env: e, zone: newDarkZone(e, 2)})
		})
	}
}

// drained has three replicas in a zone of two nodes that only this test uses, and three in "far".
type drained struct {
	*Env
	zone *darkZone
	w    *Workload
}

func (d *drained) create(strategy Edit) {
	d.T.Helper()
	d.w = d.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Subset(d.zone.subset), Plain("far", ""), strategy))
	d.w.Settle()
}

// canary brings zone-dark to a partition of 2.
func (d *drained) canary() (line *Ban) {
	d.T.Helper()
	d.create(Hold())
	d.w.SetImage("v2")
	d.w.SetPartitions(Parts{"zone-dark": 2})
	d.w.Settle()
	d.isCanary()
	reverted := func(i Incarnation) string {
		if i.Subset == "zone-dark" && i.Ordinal == 2 && i.Image != "v2" {
			return "it ran v2 already"
		}
		return ""
	}
	return d.History.Forbid(Protect("zone-dark", 2, "v1"), Protect("far", Everything, "v1"), reverted)
}

func (d *drained) isCanary() {
	d.T.Helper()
	d.Expect(d.w.Images()).To(Equal(Images{"zone-dark": "v1 v1 v2", "far": "v1 v1 v1"}))
}

// node returns the node of a replica in the zone.
func (d *drained) node(ordinal int) string {
	d.T.Helper()
	for _, p := range d.w.PodsOf("zone-dark") {
		if p.Name == fmt.Sprintf("web-zone-dark-%d", ordinal) {
			return p.Spec.NodeName
		}
	}
	d.T.Fatalf("web-zone-dark-%d does not exist", ordinal)
	return ""
}

// try runs kubectl drain as an administrator does.
func (d *drained) try(timeout string, nodes ...string) error {
	d.T.Helper()
	d.w.Disturbed()
	_, err := d.Cluster.Kubectl(d.Ctx, append([]string{"drain", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=" + timeout}, nodes...)...)
	return err
}

// empty drains a node, and checks that its replicas are on the other one.
func (d *drained) empty(node string) {
	d.T.Helper()
	d.Expect(d.try(budgetTimeout.String(), node)).To(Succeed())
	d.w.Eventually(func(g Gomega) {
		for _, p := range d.w.PodsOf("zone-dark") {
			g.Expect(p.Spec.NodeName).NotTo(BeElementOf("", node), p.Name)
		}
	}).Should(Succeed())
}

func (d *drained) uncordon() {
	d.T.Helper()
	d.Kubectl(append([]string{"uncordon"}, d.zone.nodes...)...)
}

// budget lets one replica of the workload be unavailable, and waits until it allows so many evictions.
func (d *drained) budget(allowed int32) {
	d.T.Helper()
	one := intstr.FromInt32(1)
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelName: "web"}},
	}}
	d.Expect(d.Client.Create(d.Ctx, pdb)).To(Succeed())
	d.allows(allowed)
}

// allows waits until the budget allows so many evictions. Trap: if an evicted replica is back, with its name, before the
// disruption controller has seen it go, that counts the new one as evicted for two minutes.
func (d *drained) allows(n int32) {
	d.T.Helper()
	d.Eventually(func(g Gomega) {
		pdb := &policyv1.PodDisruptionBudget{}
		g.Expect(d.Get(d.Ctx, d.Key("web"), pdb)).To(Succeed())
		g.Expect(pdb.Status.ObservedGeneration).To(Equal(pdb.Generation))
		g.Expect(pdb.Status.ExpectedPods).To(BeEquivalentTo(6), "of all subsets")
		g.Expect(pdb.Status.DisruptionsAllowed).To(Equal(n))
	}).WithTimeout(budgetTimeout).Should(Succeed())
}

// waiting waits until so many replicas of the zone have no node, and the status has counted them.
func (d *drained) waiting(n int) {
	d.T.Helper()
	d.Eventually(func(g Gomega) {
		without := 0
		for _, p := range d.w.PodsOf("zone-dark") {
			if p.Spec.NodeName == "" {
				without++
			}
		}
		g.Expect(without).To(Equal(n))
		g.Expect(d.w.Parent().Status.ReadyReplicas).To(BeEquivalentTo(6 - n))
	}).Should(Succeed())
}

func drainByHand(d *drained) {
	line := d.canary()
	rest, whole := d.w.Ledger(3).Of("far"), d.w.Ledger(6)
	d.Step("a node", func() {
		d.empty(d.node(0))
		d.w.Settle()
		d.isCanary()
	})
	d.Step("the zone", func() {
		d.uncordon()
		d.Expect(d.try("60s", d.zone.nodes...)).To(Succeed())
		d.waiting(3)
		d.Expect(Condition(d.w.Parent(), v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
		d.isCanary()
		line.Holds()
		rest.TookNothing()
		whole.Within(3)
	})
	d.Step("a release by hand in another zone is not held back", func() {
		far := d.History.Forbid(Protect("zone-dark", 2, "v1"), Protect("far", 2, "v1"))
		d.w.SetPartitions(Parts{"far": 2})
		d.Eventually(d.w.Images).Should(Equal(Images{"zone-dark": "v1 v1 v2", "far": "v1 v1 v2"}))
		rest.TakenWithin(1)
		whole.Within(4)
		d.uncordon()
		d.w.Settle()
		far.Holds()
		line.Fires()
		d.Expect(d.w.Images()).To(Equal(Images{"zone-dark": "v1 v1 v2", "far": "v1 v1 v2"}))
	})
}

// drainByHandWithBudget: evictions one by one, also of the zone, where none follows the first one.
func drainByHandWithBudget(d *drained) {
	line := d.canary()
	d.budget(1)
	ledger := d.w.Ledger(6)
	d.Step("a node", func() {
		d.empty(d.node(0))
		d.w.Settle()
		d.isCanary()
	})
	d.Step("the zone", func() {
		d.uncordon()
		d.allows(1)
		d.Expect(d.try("3s", d.zone.nodes...)).To(MatchError(ContainSubstring("disruption budget")))
		d.waiting(1)
		line.Holds()
		d.uncordon()
		d.w.Settle()
		d.isCanary()
		ledger.Within(1)
	})
	d.Step("the zone, with a budget of all its replicas", func() {
		d.Kubectl("-n", d.Namespace, "patch", "pdb", "web", "--type=merge", "-p", `{"spec":{"maxUnavailable":3}}`)
		d.allows(3)
		d.Expect(d.try(budgetTimeout.String(), d.zone.nodes...)).To(Succeed())
		d.waiting(3)
		line.Holds()
		d.uncordon()
		d.w.Settle()
		d.isCanary()
	})
	d.Step("to the end", func() {
		d.w.SetPartitions(Parts{"zone-dark": 0, "far": 0})
		d.w.Settle()
		line.Fires()
	})
}

// drainRollout: a replica of the zone is being updated, and maxUnavailable allows no other one.
func drainRollout(d *drained) {
	far := d.inFlight()
	line := d.History.Forbid(Protect("zone-dark", 2, "v1"), Protect("far", Everything, "v1"))
	rest, whole := d.w.Ledger(3).Of("far"), d.w.Ledger(6)
	d.Step("a node", func() {
		d.empty(d.node(0))
		d.w.AwaitWaiting("web-zone-dark-2")
		d.Expect(d.w.Images()).To(Equal(Images{"zone-dark": "v1 v1 quiet-v2", "far": "v1 v1 v1"}))
	})
	d.Step("the zone", func() {
		d.uncordon()
		d.Expect(d.try("60s", d.zone.nodes...)).To(Succeed())
		d.waiting(3)
		d.w.AwaitPhase(v1alpha1.RolloutProgressing, "web-zone-dark-2")
		ComesToRest(d.w, "zone-dark")
		line.Holds()
		far.Holds()
		rest.TookNothing()
		whole.Within(3) // the zone: maxUnavailable is used up, so the rollout took nothing more
	})
	d.Step("it goes on when the zone is back", func() {
		d.uncordon()
		d.w.AwaitWaiting("web-zone-dark-2")
		line.Holds()
		ledger := d.w.Ledger(6)
		d.w.Waves(1, nil)
		d.w.IsReady(v1alpha1.ReasonRolloutComplete)
		ledger.Within(1)
		rest.TakenWithin(1)
		line.Fires()
		far.Fires()
	})
}

// inFlight waits until the rollout of quiet-v2 has released a replica of the zone.
func (d *drained) inFlight() (far *Ban) {
	d.T.Helper()
	d.create(Rolling(`{maxUnavailable: 1, order: Sequential}`)) // in Parallel, the first is the one that is staged first
	far = d.History.Forbid(Outside("zone-dark"))
	d.w.SetImage("quiet-v2")
	d.w.AwaitWaiting("web-zone-dark-2")
	return far
}

// drainRolloutWithBudget: the rollout uses up the budget, so the drain waits for it, unless it is paused; and the rollout
// waits for what the drain has evicted.
func drainRolloutWithBudget(d *drained) {
	far := d.inFlight()
	line := d.History.Forbid(Protect("zone-dark", 2, "v1"), Protect("far", Everything, "v1"))
	d.budget(0)
	node := d.node(0)
	d.Step("the drain waits for the replica that is being updated", func() {
		still := d.History.Forbid(Remade(slices.DeleteFunc(d.w.Pods(), func(p Pod) bool { return !p.Ready })))
		d.Expect(d.try("2s", node)).To(MatchError(ContainSubstring("disruption budget")))
		still.Holds()
	})
	d.w.AwaitWaiting("web-zone-dark-2") // a budget does not protect what is not ready, while the others are
	d.Step("while the rollout is paused, the node is emptied, one replica at a time", func() {
		d.w.Patch(`{"spec":{"paused":true}}`)
		observed(d.w)
		d.w.MarkReady("zone-dark", 2)
		d.allows(1)
		ledger := d.w.Ledger(6)
		drained := make(chan error, 1)
		go func() { drained <- d.try(budgetTimeout.String(), node) }()
		d.Eventually(func() chan error {
			d.w.RemindKubeletsOf("zone-dark") // of the quiet image
			return drained
		}).WithTimeout(budgetTimeout).Should(Receive(BeNil()))
		d.w.RemindKubeletsUntil("zone-dark", 1)
		ledger.Within(1)
		line.Holds()
	})
	d.Step("the rollout waits for what was evicted", func() {
		d.uncordon()
		d.allows(1)
		d.Expect(d.try("2s", d.zone.nodes...)).To(MatchError(ContainSubstring("disruption budget")))
		d.waiting(1)
		d.w.Patch(`{"spec":{"paused":false}}`)
		observed(d.w) // from here on an evicted replica may be released: it is down anyway
		ComesToRest(d.w, "zone-dark")
		d.waiting(1)
		far.Holds()
	})
	d.Step("a budget of the whole zone lets the drain end, and the rollout waits", func() {
		d.Kubectl("-n", d.Namespace, "patch", "pdb", "web", "--type=merge", "-p", `{"spec":{"maxUnavailable":3}}`)
		d.Expect(d.try(budgetTimeout.String(), d.zone.nodes...)).To(Succeed())
		d.waiting(3)
		ComesToRest(d.w, "zone-dark")
		far.Holds()
	})
	d.Step("to the end", func() {
		d.uncordon()
		d.w.RemindKubeletsUntil("zone-dark", strings.Count(d.w.Images()["zone-dark"], "quiet")) // they have been started anew
		d.w.Waves(1, nil)
		d.w.IsReady(v1alpha1.ReasonRolloutComplete)
		far.Fires()
		line.Fires()
	})
}

// observed waits until the status is that of the current spec.
func observed(w *Workload) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
	}).Should(Succeed())
}
