// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

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
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// shut removes the label from the node. Pods that are there stay.
func shut(p *NodePool) {
	p.T.Helper()
	node := slices.Sorted(maps.Keys(p.Zones))[0]
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, p.Label))
	p.Expect(p.Client.Patch(p.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch)).To(Succeed())
}

// TestAdaptiveDisturbed checks that nodes which come and go, edits of a capped subset, and a killed manager do not keep
// a rollout from ending, nor a split from being what the spec asks for.
func TestAdaptiveDisturbed(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	a := e.Pool("a")
	a.Open()
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(3), Adaptive(8, 3), Rolling(`{maxUnavailable: 1}`),
		Between("a", "..3", a), Between("b", "1..", nil)))
	e.Step("the node is full during a rollout", func() {
		w.ComeTo("2,1")
		w.Settle()
		shut(a)
		w.SetImage("v2")
		w.ComeTo("0,3")
		runsAll(w, "v2")
		w.IsContent()
		w.CapsAreOver()
		w.StaysAt("0,3", 3)
	})
	e.Step("it has room now and then", func() {
		for i := range int32(2) {
			a.Open()
			w.CapsAreOver()
			w.ScaleTo(4+2*i, fmt.Sprintf("%d,%d", 1+i, 3+i))
			w.Settle()
			shut(a)
			w.ScaleTo(5+2*i, fmt.Sprintf("%d(1),%d", 2+i, 3+i))
			w.ComeTo(fmt.Sprintf("%d,%d", 1+i, 4+i))
			w.IsContent()
		}
	})
	e.Step("the subset is removed while it is capped, and comes back", func() {
		w.IsCapped("a", v1alpha1.ReasonRetryLater)
		spec := w.Parent().Spec.Topology.Subsets[0]
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0"}]`)
		w.ComeTo("7")
		w.Settle()
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0","value":%s}]`, AsJSON(spec))
		w.ComeTo("0,7")
		w.Settle()
		w.StaysAt("0,7", 3)
		a.Open()
		w.ScaleTo(8, "1,7")
	})
	e.Step("Fixed during a rollout, and a killed manager", func() {
		w.SetImage("v3")
		w.JSONPatch(`[{"op":"replace","path":"/spec/topology/scheduleStrategy","value":{"type":"Fixed"}}]`)
		killManager(e)
		w.ComeTo("3,5")
		runsAll(w, "v3")
		w.Settle()
	})
	e.Step("a minimum above what is placed", func() {
		shut(a)
		w.JSONPatch(`[{"op":"replace","path":"/spec/topology/scheduleStrategy","value":{"type":"Adaptive","adaptive":{"rescheduleAfterSeconds":3,"retryAfterSeconds":3}}},
			{"op":"replace","path":"/spec/topology/subsets/0/maxReplicas","value":5},{"op":"add","path":"/spec/topology/subsets/0/minReplicas","value":5}]`)
		w.ComeTo("5(2),4") // the ledger keeps seven available
		w.IsCapped("a", v1alpha1.ReasonUnschedulable)
		w.StaysAt("5(2),4", 8)
		a.Open()
		w.ComeTo("5,3")
		w.CapsAreOver()
		w.Settle()
	})
}

// TestReserveDisturbed checks the same of replicas that are kept without a node, and that enough replicas are always ready.
func TestReserveDisturbed(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	a := e.Pool("a")
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(2), Adaptive(3, 1), reserving, Rolling(`{maxUnavailable: 1}`),
		Between("a", "", a), Between("b", "", nil)))
	w.ComeTo("2(2),2")
	w.IsContent()
	e.Step("reserved replicas are deleted, and the manager is killed", func() {
		floor := readyFloor(w, 2)
		for _, p := range w.PodsOf("a") {
			e.Expect(e.Client.Delete(e.Ctx, &p)).To(Succeed())
		}
		killManager(e)
		w.ComeTo("2(2),2")
		w.IsContent()
		w.StaysAt("2(2),2", 5)
		floor()
	})
	e.Step("a new image, and the manager is killed", func() {
		floor := readyFloor(w, 1)
		w.SetImage("v2")
		killManager(e)
		runsAll(w, "v2")
		w.ComeTo("2(2),2")
		w.IsContent()
		floor()
	})
	e.Step("they get a node while the manager is down", func() {
		floor := readyFloor(w, 2)
		e.RestartManager(a.Open)
		w.ComeTo("2,0")
		floor()
		w.Settle()
	})
}
