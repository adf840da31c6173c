// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestAdaptiveOrder checks that the subsets are filled in order, and that replicas which fit on no node
// move on to the next subset. A replica that has a node stays.
func TestAdaptiveOrder(t *testing.T) {
	t.Parallel()
	for name, strategy := range AdaptiveStrategies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			b := e.Pool("b")
			w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(3), Adaptive(10, 10), strategy,
				Between("a", "..2", nil), Between("b", "..2", b), Between("c", "", nil)))
			e.Step("b has no nodes", func() {
				w.ComeTo("2,1(1),0")
				w.ComeTo("2,0,1")
				w.IsCapped("b", v1alpha1.ReasonRetryLater)
				w.ScaleTo(5, "2,0,3")
				w.ScaleTo(4, "2,0,2")
			})
			e.Step("the cap is over, and moves nothing", func() {
				w.CapsAreOver()
				w.StaysAt("2,0,2", 3)
				w.Settle()
			})
			e.Step("a scale-up tries b again", func() {
				w.ScaleTo(5, "2,1(1),2")
				w.ComeTo("2,0,3")
				w.Scale(4)
				w.CapsAreOver()
				w.ComeTo("2,0,2")
			})
			e.Step("what has no node goes first", func() {
				w.ScaleTo(5, "2,1(1),2")
				w.ScaleTo(4, "2,0,2")
				w.ScaleTo(3, "2,0,1")
			})
			e.Step("another subset", func() {
				w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"d","minReplicas":2}},{"op":"replace","path":"/spec/replicas","value":6}]`)
				w.ComeTo("2,0,2,2")
				w.Settle()
			})
			e.Step("b gets a node, and d goes", func() {
				b.Open()
				w.CapsAreOver()
				w.StaysAt("2,0,2,2", 3)
				w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/3"}]`)
				w.ComeTo("2,2,2")
				w.Settle()
				w.ScaleTo(3, "2,1,0")
				w.ScaleTo(5, "2,2,1")
				w.Settle()
			})
		})
	}
}

// TestAdaptiveGap checks that a replica without a node below one that runs stays, for removing it would remove that one, and that
// its substitute comes up in another subset, until it has a node.
func TestAdaptiveGap(t *testing.T) {
	t.Parallel()
	for name, strategy := range AdaptiveStrategies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			a := e.Pool("a")
			a.Open()
			w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(6), Adaptive(5, 10), strategy,
				Between("a", "..3", a), Between("b", "..3", nil), Between("c", "", nil)))
			w.ComeTo("3,3,0")
			w.Settle()
			a.Close()
			w.DeletePod("a", 1)
			w.ComeTo("3(1),3,0")
			w.ComeTo("3(1),3,1")
			w.IsContent()
			a.Open()
			w.ComeTo("3,3,0")
			w.Settle()
		})
	}
}
