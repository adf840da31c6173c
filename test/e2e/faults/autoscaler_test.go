// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestAutoscaler lets the real HorizontalPodAutoscaler of kube-controller-manager, with metrics that the test chooses,
// scale a UnitedDeployment in the middle of a canary: up, down, to 1, and by hand to 0 and back, and while the new
// version fails. What is protected stays so, and the split is exact.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	t.Run("Manual", func(t *testing.T) {
		EachPolicy(t, autoscaledByHand)
	})
	t.Run("RollingUpdate", func(t *testing.T) {
		t.Parallel()
		autoscaledRollout(NewEnv(t))
	})
}

// autoscaled is a workload with a HorizontalPodAutoscaler.
type autoscaled struct {
	*Workload
	began int64
}

// newAutoscaled creates a workload of 6 replicas over three zones of 1, 50% and the rest.
func newAutoscaled(e *Env, edits ...Edit) *autoscaled {
	e.T.Helper()
	w := &autoscaled{Workload: e.Create(NewDraft("web", append(edits, Replicas(6), Zones("1", "50%", ""))...)), began: e.AuditMark()}
	w.Settle()
	w.load(6)
	now := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: ptr.To[int32](0),
		Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 100, PeriodSeconds: 1}},
	}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: w.Name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: w.Name},
			MinReplicas:    ptr.To[int32](1), MaxReplicas: 20,
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: now, ScaleDown: now},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("100m"))},
			}}},
		},
	}
	e.Expect(e.Client.Create(e.Ctx, scaler)).To(Succeed())
	e.DeleteAtEnd(scaler)
	return w
}

// load makes the pods use as much CPU as n replicas should.
func (w *autoscaled) load(n int32) {
	w.T.Helper()
	w.Expect(w.Metrics.Use(w.Namespace, v1alpha1.LabelName+"="+w.Name, *resource.NewMilliQuantity(int64(n)*100, resource.DecimalSI))).To(Succeed())
}

// scales waits until the autoscaler has set the replicas for a load. On its way down it may go further for a moment,
// because it leaves out replicas that have just become ready, or are terminating, although these share the load; so it gets
// a minimum where a zone would lose its last replica but one.
func (w *autoscaled) scales(n int32) {
	w.T.Helper()
	if n <= 4 {
		w.atLeast(n)
	}
	w.Disturbed()
	w.load(n)
	w.Eventually(func() int32 { return *w.Parent().Spec.Replicas }).Should(Equal(n))
}

// allCount waits until the autoscaler counts all replicas, except for the broken ones.
func (w *autoscaled) allCount() {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		for _, p := range w.Pods() {
			if !strings.HasPrefix(p.Image, "broken") {
				g.Expect(p.Ready && time.Since(p.ReadySince) > 3*time.Second).To(BeTrue(), p.Name)
			}
		}
		g.Expect(w.Pods()).To(HaveLen(int(*w.Parent().Spec.Replicas)))
	}).Should(Succeed())
}

// autoscalerWrote returns the replicas that the autoscaler has written since a mark.
func (w *autoscaled) autoscalerWrote(since int64) (wrote []int32) {
	w.T.Helper()
	autoscaler := cluster.ByServiceAccount(metav1.NamespaceSystem, "horizontal-pod-autoscaler")
	writes, err := w.Cluster.Writes(w.Ctx, since, func(e cluster.Event) bool {
		return autoscaler(e) && e.Namespace == w.Namespace && e.Resource == "uniteddeployments" && e.Subresource == "scale" && e.Code < 300
	})
	w.Expect(err).NotTo(HaveOccurred())
	for _, write := range writes {
		wrote = append(wrote, FromJSON[autoscalingv1.Scale](w.Env, string(write.Request)).Spec.Replicas)
	}
	return wrote
}

// count returns the replicas of the zones.
func (w *autoscaled) count() [3]int {
	w.T.Helper()
	return [3]int{w.Count("zone-a"), w.Count("zone-b"), w.Count("zone-c")}
}

// atLeast sets below how many replicas the autoscaler does not go. Trap: if it goes further down than the load asks for, a step
// releases the only replica that a zone has then.
func (w *autoscaled) atLeast(n int32) {
	w.T.Helper()
	w.Kubectl("patch", "hpa", w.Name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"minReplicas":%d}}`, n))
}

// toZeroAndBack scales to 0, which the autoscaler leaves alone, and then to some, from where it scales to n.
func (w *autoscaled) toZeroAndBack(some, n int32) {
	w.T.Helper()
	mark := w.AuditMark()
	w.Scale(0)
	w.Eventually(w.count).Should(Equal([3]int{}))
	w.Eventually(func(g Gomega) {
		scaler := &autoscalingv2.HorizontalPodAutoscaler{}
		g.Expect(w.Get(w.Ctx, w.Key("web"), scaler)).To(Succeed())
		for _, c := range scaler.Status.Conditions {
			if c.Type == autoscalingv2.ScalingActive {
				g.Expect(c.Reason).To(Equal("ScalingDisabled"))
			}
		}
	}).Should(Succeed())
	w.Settle()
	w.Expect(w.autoscalerWrote(mark)).To(BeEmpty())
	w.Disturbed()
	w.load(n)
	w.Scale(some)
	w.Eventually(func() int32 { return *w.Parent().Spec.Replicas }).Should(Equal(n))
}

func autoscaledByHand(e *Env, p appsv1.PodManagementPolicyType) {
	w := newAutoscaled(e, Policy(p), Hold())
	canary := e.History.Forbid(Protect("zone-a", Everything, "v1"), Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1"))
	w.SetImage("v2")
	w.SetPartitions(Parts{"zone-b": 2})
	w.Settle()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v1 v2", "zone-c": "v1 v1"}))

	for _, step := range []struct {
		name     string
		replicas int32
		want     Images
	}{
		{"up", 12, Images{"zone-a": "v1", "zone-b": "v1 v1 v2 v2 v2 v2", "zone-c": "v1 v1 v1 v1 v1"}},
		{"down", 4, Images{"zone-a": "v1", "zone-b": "v1 v1", "zone-c": "v1"}},
		{"to one", 1, Images{"zone-a": "v1"}},
		{"and up again", 9, Images{"zone-a": "v1", "zone-b": "v1 v1 v2 v2 v2", "zone-c": "v1 v1 v1"}},
	} {
		e.Step(step.name, func() {
			w.scales(step.replicas)
			w.Settle()
			e.Eventually(w.Images).Should(Equal(step.want))
			canary.Holds()
		})
	}
	e.Step("to zero by hand, which the autoscaler leaves alone, and back", func() {
		w.toZeroAndBack(2, 9)
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v1 v2 v2 v2", "zone-c": "v1 v1 v1"}))
		canary.Holds()
	})
	e.Step("while the canary has failed", func() {
		w.SetImage("broken-v3")
		w.StallsWhole(v1alpha1.ReasonReplicaFailed)
		for _, step := range []struct {
			replicas int32
			want     [3]int
		}{{12, [3]int{1, 6, 5}}, {1, [3]int{1, 0, 0}}, {9, [3]int{1, 5, 3}}} {
			if p == appsv1.OrderedReadyPodManagement { // its controller creates nothing above a broken replica
				step.want[1] = map[int32]int{12: 5, 9: 3}[step.replicas]
			}
			w.load(step.replicas)
			if step.replicas == 1 {
				w.Scale(1) // the autoscaler goes no further down while it cannot measure the broken replicas
			}
			e.Eventually(w.count).Should(Equal(step.want))
			e.Expect(*w.Parent().Spec.Replicas).To(Equal(step.replicas))
			canary.Holds()
		}
	})
	e.Step("to zero by hand, and back to where it fails again", func() {
		w.toZeroAndBack(2, 9)
		w.StallsWhole(v1alpha1.ReasonReplicaFailed)
		want := Images{"zone-a": "v1", "zone-b": "v1 v1 broken-v3 broken-v3 broken-v3", "zone-c": "v1 v1 v1"}
		if p == appsv1.OrderedReadyPodManagement {
			want["zone-b"] = "v1 v1 broken-v3"
		}
		e.Eventually(w.Images).Should(Equal(want))
		canary.Holds()
	})
	e.Step("corrected, the canary is as before", func() {
		w.SetImage("v4")
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v1 v4 v4 v4", "zone-c": "v1 v1 v1"}))
		canary.Holds()
	})
	e.Step("to the end", func() {
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
		w.Settle()
		canary.Fires()
		e.Expect(w.autoscalerWrote(w.began)).To(ContainElement(BeEquivalentTo(12)), "positive control")
	})
}

// autoscaledRollout scales in a step that waits for approval, and while the rollout has failed.
func autoscaledRollout(e *Env) {
	w := newAutoscaled(e, Policy(appsv1.ParallelPodManagement), Rolling(`{maxUnavailable: 2, steps: [{subsets: [zone-b], partition: "50%", pause: {}}]}`))
	// Of two replicas or more, 50% are at least one. Of one, the step would release it: zone-b never has one here.
	canary := e.History.Forbid(Protect("zone-a", Everything, "v1"), Protect("zone-b", 1, "v1"), Protect("zone-c", Everything, "v1"))
	w.SetImage("v2")
	w.AwaitApproval(0)
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v1 v2", "zone-c": "v1 v1"}))
	for _, step := range []struct {
		replicas int32
		want     Images
	}{
		{12, Images{"zone-a": "v1", "zone-b": "v1 v1 v2 v2 v2 v2", "zone-c": "v1 v1 v1 v1 v1"}},
		{4, Images{"zone-a": "v1", "zone-b": "v1 v2", "zone-c": "v1"}},
		{1, Images{"zone-a": "v1"}},
		{8, Images{"zone-a": "v1", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1 v1"}},
	} {
		w.scales(step.replicas)
		if step.replicas > 1 { // at one, the subset of the step has no replicas
			w.AwaitApproval(0)
		}
		w.Settle()
		e.Eventually(w.Images).Should(Equal(step.want), "%d", step.replicas)
		canary.Holds()
	}
	e.Step("to zero by hand, which the autoscaler leaves alone, and back", func() {
		w.atLeast(4)
		defer w.atLeast(1)
		w.toZeroAndBack(4, 4) // what the step has released of 4 stays so with 8, so the autoscaler must not be faster
		w.AwaitApproval(0)
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v2", "zone-c": "v1"}))
		w.scales(8)
		w.AwaitApproval(0)
		w.Settle()
		e.Eventually(w.Images).Should(Equal(Images{"zone-a": "v1", "zone-b": "v1 v2 v2 v2", "zone-c": "v1 v1 v1"}))
		canary.Holds()
	})
	e.Step("while the rollout has failed", func() {
		w.SetImage("broken-v3")
		w.AwaitPhase(v1alpha1.RolloutFailed)
		failing := e.History.Forbid(func(i Incarnation) string {
			if strings.HasPrefix(i.Image, "broken") {
				return "a replica has failed on it"
			}
			return ""
		})
		for _, step := range []struct {
			replicas int32
			want     [3]int
		}{{14, [3]int{1, 7, 6}}, {8, [3]int{1, 4, 3}}} {
			w.allCount()
			w.atLeast(8) // further down, the failed replica, the highest of zone-b, would be gone, and with it the failure
			w.scales(step.replicas)
			e.Eventually(w.count).Should(Equal(step.want))
			w.AwaitPhase(v1alpha1.RolloutFailed)
			failing.Holds()
			canary.Holds()
		}
	})
	e.Step("to one by hand, where what failed is gone, and back to where it fails again", func() {
		w.load(1)
		w.atLeast(1)
		w.Scale(1) // the autoscaler goes no further down while it cannot measure the broken replicas
		e.Eventually(w.Images).Should(Equal(Images{"zone-a": "v1"}))
		w.scales(8)
		w.AwaitPhase(v1alpha1.RolloutFailed)
		// maxUnavailable allows two, unless the first one fails before the second one is released.
		e.Eventually(w.Images).Should(BeElementOf(
			Images{"zone-a": "v1", "zone-b": "v1 v1 v1 broken-v3", "zone-c": "v1 v1 v1"},
			Images{"zone-a": "v1", "zone-b": "v1 v1 broken-v3 broken-v3", "zone-c": "v1 v1 v1"},
		))
		canary.Holds()
	})
	e.Step("to zero by hand, and back to where it fails again", func() {
		w.atLeast(4)
		defer w.atLeast(1)
		w.toZeroAndBack(4, 4)
		w.AwaitPhase(v1alpha1.RolloutFailed)
		e.Eventually(w.Images).Should(Equal(Images{"zone-a": "v1", "zone-b": "v1 broken-v3", "zone-c": "v1"}))
		w.scales(8) // what is added after a failure is protected
		e.Eventually(w.Images).Should(Equal(Images{"zone-a": "v1", "zone-b": "v1 broken-v3 v1 v1", "zone-c": "v1 v1 v1"}))
		w.AwaitPhase(v1alpha1.RolloutFailed)
		canary.Holds()
	})
	e.Step("corrected, it goes on, and the autoscaler too", func() {
		w.SetImage("v4")
		key := w.AwaitApproval(0)
		w.scales(10)
		e.Eventually(func() string { return w.AwaitApproval(0) }).Should(Equal(key))
		canary.Holds()
		w.Approve(key)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Eventually(w.count).Should(Equal([3]int{1, 5, 4}))
		canary.Fires()
	})
}
