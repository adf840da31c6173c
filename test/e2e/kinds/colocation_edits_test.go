// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestColocationOtherRatios checks that a user can get other ratios by removing the groups: pods of the
// earlier ones do not determine where those of the new ones run.
func TestColocationOtherRatios(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Colocated(), Plain(Prefill, ""), Plain(Decode, ""), Rolling(`{maxUnavailable: 1}`)))
	w.Settle()
	again := func(replicas int, ratios, want string, groups int) {
		w.Patch(`{"spec":{"replicas":%d,"topology":{"colocation":null}}}`, replicas)
		w.Patch(`{"spec":{"topology":{"colocation":{"topologyKey":"kubernetes.io/hostname","ratios":%s}}}}`, ratios)
		w.ComeTo(want)
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(HaveLen(groups))
	}
	again(12, `{"prefill":1,"decode":2}`, "4,8", 4)
	again(6, `{"prefill":1,"decode":1}`, "3,3", 3)
}

// TestColocationBrokenTemplate checks that a failed rollout stops the growth, and that a scale-down, and
// then a corrected template, get out of that. The order is Sequential because otherwise the subset whose controller is
// faster begins.
func TestColocationBrokenTemplate(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Colocated(), Plain(Prefill, ""), Plain(Decode, ""), Rolling(`{maxUnavailable: 1, order: Sequential}`)))
	w.Settle()
	w.SetImage("broken")
	w.StallsWhole(v1alpha1.ReasonReplicaFailed, "web-prefill-5 (", "fix the template, or go back")
	w.Scale(12)
	e.Eventually(func() string { return w.Status(Decode).Message }).Should(ContainSubstring("group 3 is created when group 2 is ready: waiting for web-prefill-5 ("))
	w.StaysAt("6,3", 3)
	w.Scale(6)
	w.ComeTo("4,2")
	w.StallsWhole(v1alpha1.ReasonReplicaFailed, "web-prefill-3 (")
	w.SetImage("v3")
	w.Settle()
	e.Expect(w.Groups(OnNode)).To(HaveLen(2))
}

// TestColocationPolicyInGrowth checks a policy that is removed while groups wait, and comes back in
// mid-rollout. The policy is that of the whole control plane.
func TestColocationPolicyInGrowth(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	binding := &admissionv1.MutatingAdmissionPolicyBinding{}
	e.Expect(e.Get(e.Ctx, client.ObjectKey{Name: "united-colocation"}, binding)).To(Succeed())
	restore := func(ctx context.Context) error {
		again := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels, Annotations: binding.Annotations}, Spec: binding.Spec}
		return client.IgnoreAlreadyExists(e.Client.Create(ctx, again))
	}
	t.Cleanup(func() { e.Expect(restore(context.WithoutCancel(e.Ctx))).To(Succeed()) })
	addRoom(e, "1", "zone-a")
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Colocated(stallsSoon), inRoom(e, "300"), Rolling(`{maxUnavailable: 1}`)))
	w.ComeTo("4(2),2(1)")
	e.Expect(e.Client.Delete(e.Ctx, binding)).To(Succeed())
	policyIs(e, false)
	addRoom(e, "2", "zone-a")
	addRoom(e, "3", "zone-a")
	ungrouped := func(want, first string) {
		w.ComeTo(want)
		w.StallsWhole(v1alpha1.ReasonUngrouped, first, "cannot be scheduled: without the MutatingAdmissionPolicy united-colocation")
	}
	e.Step("what has a group comes up, the next group does not", func() { ungrouped("6(2),3(1)", "web-prefill-4 and 2 more replicas") })
	e.Step("a scale-down gets out of it", func() {
		w.ScaleTo(6, "4,2")
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(HaveLen(2))
	})
	e.Step("a rollout takes down nothing that runs", func() {
		still := e.History.Forbid(RestartOf(w.Pods(), "v1"))
		w.Scale(9)
		w.SetImage("v2")
		ungrouped("6(2),3(1)", "web-prefill-4 and 2 more replicas")
		w.Consistently(w.Unavailable, 3*time.Second).Should(Equal(3), "those without a group, which may be replaced")
		still.Holds()
		w.DeletePod(Prefill, 0)
		still.Fires()
		ungrouped("6(3),3(1)", "web-prefill-0 and 3 more replicas")
	})
	e.Step("the command in the message", func() {
		e.Expect(restore(e.Ctx)).To(Succeed())
		policyIs(e, true)
		said := meta.FindStatusCondition(w.Parent().Status.Conditions, v1alpha1.ConditionStalled).Message
		_, command, found := strings.Cut(said, "run: kubectl ")
		e.Expect(found).To(BeTrue(), said)
		e.Kubectl(strings.Fields(strings.ReplaceAll(command, "'", ""))...)
		w.ComeTo("6,3")
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(HaveLen(3))
	})
}
