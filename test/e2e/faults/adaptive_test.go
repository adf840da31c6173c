// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestAdaptiveMinimum checks that the first subset keeps its minimum, whether its replicas have a node
// or not.
func TestAdaptiveMinimum(t *testing.T) {
	t.Parallel()
	for name, strategy := range AdaptiveStrategies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			b := e.Pool("b")
			w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(3), Adaptive(10, 10), strategy,
				Between("b", "1..2", b), Between("c", "", nil)))
			e.Step("one is pending", func() {
				w.ComeTo("2(2),1")
				w.ComeTo("1(1),2")
				w.IsCapped("b", v1alpha1.ReasonUnschedulable)
				w.ScaleTo(4, "1(1),3")
				w.ScaleTo(3, "1(1),2")
				w.StaysAt("1(1),2", 12)
				w.IsCapped("b", v1alpha1.ReasonUnschedulable)
			})
			e.Step("the manager forgets nothing", func() {
				before := w.Status("b").Cap
				e.Expect(before).NotTo(BeNil())
				w.WipeStatus()
				w.StaysAt("1(1),2", 5)
			})
			e.Step("b gets a node", func() {
				b.Open()
				w.CapsAreOver()
				w.ComeTo("1,2")
				w.Settle()
				w.ScaleTo(5, "2,3")
				w.Settle()
				w.ScaleTo(4, "2,2")
				w.ScaleTo(3, "2,1")
				w.ScaleTo(1, "1,0")
				w.Settle()
			})
		})
	}
}

// reserving keeps replicas without a node.
func reserving(d *Draft) { d.Spec.Topology.ScheduleStrategy.Adaptive.ReserveUnschedulablePods = true }

// runsAll waits until all pods run an image, with a node or without, and the manager is content.
func runsAll(w *Workload, tag string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		for _, p := range w.Pods() {
			g.Expect(p.Image).To(Equal(tag), p.Name)
			g.Expect(p.Terminating).To(BeFalse(), p.Name)
		}
	}).Should(Succeed())
}

// Replicas without a node stay, and substitutes come up elsewhere; a new image reaches all; when there is a node, the
// substitutes go.
func TestAdaptiveReserve(t *testing.T) {
	t.Parallel()
	for name, strategy := range AdaptiveStrategies {
		t.Run(name, func(t *testing.T) { testReserve(t, strategy) })
	}
}

func testReserve(t *testing.T, strategy Edit) {
	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		e := NewEnv(t)
		a, b := e.Pool("a"), e.Pool("b")
		w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(2), Adaptive(20, 1), reserving, strategy,
			Between("a", "", a), Between("b", "", b), Between("c", "", nil)))
		e.Step("a and b have no nodes", func() {
			w.ComeTo("2(2),0,0")
			w.ComeTo("2(2),2(2),0")
			w.ComeTo("2(2),2(2),2")
			w.IsCapped("a", v1alpha1.ReasonUnschedulable)
			w.IsCapped("b", v1alpha1.ReasonUnschedulable)
			w.IsContent()
			w.ScaleTo(4, "2(2),2(2),4")
			w.ScaleTo(2, "2(2),2(2),2")
			w.ScaleTo(4, "2(2),2(2),4")
			w.IsContent()
		})
		e.Step("a new image", func() {
			w.SetImage("v2")
			runsAll(w, "v2")
			w.ComeTo("2(2),2(2),4")
			w.IsContent()
			w.StaysAt("2(2),2(2),4", 25)
		})
		e.Step("a gets a node", func() {
			floor := readyFloor(w, 4)
			a.Open()
			w.ComeTo("4,0,0")
			floor()
			w.Settle()
			w.ScaleTo(5, "5,0,0")
			w.Settle()
		})
	})
	t.Run("with minimums", func(t *testing.T) {
		t.Parallel()
		e := NewEnv(t)
		a, b := e.Pool("a"), e.Pool("b")
		w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(2), Adaptive(10, 1), reserving, strategy,
			Between("a", "1", a), Between("b", "1", b), Between("c", "", nil)))
		e.Step("a and b have no nodes", func() {
			w.ComeTo("1(1),1(1),2")
			w.IsContent()
			w.ScaleTo(4, "1(1),1(1),4")
			w.IsContent()
		})
		e.Step("a gets a node", func() {
			floor := readyFloor(w, 4)
			a.Open()
			w.ComeTo("4,1(1),0")
			floor()
			w.ScaleTo(5, "5,1(1),0")
			w.IsContent()
		})
	})
}

// readyFloor looks from now on whether so many pods are ready, at each moment that it looks; the function that it gives ends that.
func readyFloor(w *Workload, least int) (end func()) {
	stop, done, low := make(chan struct{}), make(chan struct{}), least
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			pods := &corev1.PodList{}
			if w.List(w.Ctx, pods, client.InNamespace(w.Namespace)) != nil {
				continue
			}
			ready := 0
			for i := range pods.Items {
				if p := ReadPod(&pods.Items[i], w.Zones); p.Ready && !p.Terminating {
					ready++
				}
			}
			low = min(low, ready)
		}
	}()
	return func() {
		w.T.Helper()
		close(stop)
		<-done
		w.Expect(low).To(BeNumerically(">=", least), "pods that were ready")
	}
}
