// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// shut removes the label from the node. Pods that are there stay.
func (p *nodePool) shut() {
	p.t.Helper()
	node := slices.Sorted(maps.Keys(p.zones))[0]
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, p.label))
	p.Expect(p.Client.Patch(p.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch)).To(Succeed())
}

// TestAdaptiveDisturbed checks that nodes which come and go, edits of a capped subset, and a killed manager do not keep
// a rollout from ending, nor a split from being what the spec asks for.
func TestAdaptiveDisturbed(t *testing.T) {
	t.Parallel()
	e := newPlaneOf(t).newEnv(t)
	a := e.pool("a")
	a.open()
	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(3), adaptive(3, 3), rolling(`{maxUnavailable: 1}`),
		between("a", "..3", a), between("b", "1..", nil)))
	e.Step("the node is full during a rollout", func() {
		w.comeTo("2,1")
		w.Settle()
		a.shut()
		w.SetImage("v2")
		w.comeTo("0,3")
		w.runsAll("v2")
		w.isContent()
		w.capsAreOver()
		w.staysAt("0,3", 3)
	})
	e.Step("it has room now and then", func() {
		for i := range int32(2) {
			a.open()
			w.capsAreOver()
			w.scaleTo(4+2*i, fmt.Sprintf("%d,%d", 1+i, 3+i))
			w.Settle()
			a.shut()
			w.scaleTo(5+2*i, fmt.Sprintf("%d(1),%d", 2+i, 3+i))
			w.comeTo(fmt.Sprintf("%d,%d", 1+i, 4+i))
			w.isContent()
		}
	})
	e.Step("the subset is removed while it is capped, and comes back", func() {
		w.isCapped("a", v1alpha1.ReasonRetryLater)
		spec := w.Parent().Spec.Topology.Subsets[0]
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0"}]`)
		w.comeTo("7")
		w.Settle()
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0","value":%s}]`, asJSON(spec))
		w.comeTo("0,7")
		w.Settle()
		w.staysAt("0,7", 3)
		a.open()
		w.scaleTo(8, "1,7")
	})
	e.Step("Fixed during a rollout, and a killed manager", func() {
		w.SetImage("v3")
		w.JSONPatch(`[{"op":"replace","path":"/spec/topology/scheduleStrategy","value":{"type":"Fixed"}}]`)
		e.killManager()
		w.comeTo("3,5")
		w.runsAll("v3")
		w.Settle()
	})
	e.Step("a minimum above what is placed", func() {
		a.shut()
		w.JSONPatch(`[{"op":"replace","path":"/spec/topology/scheduleStrategy","value":{"type":"Adaptive","adaptive":{"rescheduleAfterSeconds":3,"retryAfterSeconds":3}}},
			{"op":"replace","path":"/spec/topology/subsets/0/maxReplicas","value":5},{"op":"add","path":"/spec/topology/subsets/0/minReplicas","value":5}]`)
		w.comeTo("5(2),4") // the ledger keeps seven available
		w.isCapped("a", v1alpha1.ReasonUnschedulable)
		w.staysAt("5(2),4", 8)
		a.open()
		w.comeTo("5,3")
		w.capsAreOver()
		w.Settle()
	})
}

// TestReserveDisturbed checks the same of replicas that are kept without a node, and that enough replicas are always ready.
func TestReserveDisturbed(t *testing.T) {
	t.Parallel()
	e := newPlaneOf(t).newEnv(t)
	a := e.pool("a")
	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(2), adaptive(3, 1), reserving, rolling(`{maxUnavailable: 1}`),
		between("a", "", a), between("b", "", nil)))
	w.comeTo("2(2),2")
	w.isContent()
	e.Step("reserved replicas are deleted, and the manager is killed", func() {
		floor := w.readyFloor(2)
		for _, p := range w.podsOf("a") {
			e.Expect(e.Client.Delete(e.ctx, &p)).To(Succeed())
		}
		e.killManager()
		w.comeTo("2(2),2")
		w.isContent()
		w.staysAt("2(2),2", 5)
		floor()
	})
	e.Step("a new image, and the manager is killed", func() {
		floor := w.readyFloor(1)
		w.SetImage("v2")
		e.killManager()
		w.runsAll("v2")
		w.comeTo("2(2),2")
		w.isContent()
		floor()
	})
	e.Step("they get a node while the manager is down", func() {
		floor := w.readyFloor(2)
		e.restartManager(a.open)
		w.comeTo("2,0")
		floor()
		w.Settle()
	})
}
