// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestOverruledInARollout checks a policy that begins, in the middle of a coordinated rollout, to set a
// field of the child of zone-b to another value. The rollout goes on within its limit, in both zones,
// and each replica is replaced once. The status names the field. The repetitions of all writes of the
// rollout together are spaced: before, there were ten at once after each of them.
func TestOverruledInARollout(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]overruled{
		"minReadySeconds": {0, `{op: "add", path: "/spec/minReadySeconds", value: 1}`, "spec.minReadySeconds", "1", false},
		"maxUnavailable": {
			0, `{op: "add", path: "/spec/updateStrategy/rollingUpdate/maxUnavailable", value: 5}`,
			"spec.updateStrategy.rollingUpdate.maxUnavailable", "5", false,
		},
		"maxSurge": {1, `{op: "add", path: "/spec/strategy/rollingUpdate/maxSurge", value: 2}`, "spec.strategy.rollingUpdate.maxSurge", "2", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const replicasOfAll, limit = 12, 1
			e, k := NewEnv(t), Kinds()[o.kind]
			w := e.Create(NewDraft("web", Replicas(replicasOfAll), k.Draft, Zones("", ""), Rolling(`{maxUnavailable: 1}`))).Of(k)
			w.ComesTo("6 v1", "6 v1", "")
			control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
			control.Settle()
			from, mark := e.History.Mark(), e.AuditMark()
			w.SetImages("quiet-v2") // so the rollout waits in its middle until the policy is in force
			e.Eventually(func() int32 { return w.Parent().Status.UpdatedReplicas }).Should(BeNumerically(">", 0))
			lift := e.OverrideOn([]admissionv1.OperationType{admissionv1.Update}, k.Resource, "",
				`object.metadata.name == "web-zone-a" ? [] : [JSONPatch`+o.patch+"]", func() bool {
					probe := w.LiveChild("zone-b")
					probe.SetAnnotations(map[string]string{"probe": "1"})
					probe.SetManagedFields(nil)
					err := e.Update(e.Ctx, probe, client.DryRunAll)
					return err == nil && o.fieldOf(w, probe) == o.to
				})
			e.Eventually(func(g Gomega) {
				g.Expect(w.Unavailable()).To(BeNumerically("<=", limit))
				w.RemindKubeletsOf("")
				g.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": "6 quiet-v2", "zone-b": "6 quiet-v2"}))
			}).WithTimeout(RolloutTimeout).Should(Succeed())
			w.Stalls("zone-b", v1alpha1.ReasonOverridden, o.says+" was changed by admission")
			e.Expect(o.fieldOf(w, w.LiveChild("zone-b"))).To(Equal(o.to), "positive control")
			control.Reacts()
			e.Expect(e.History.Since(from)).To(HaveLen(replicasOfAll), "each replica was replaced once")
			e.Expect(len(e.Writes(mark, k.Resource))).To(BeNumerically("<=", Spaced+2*replicasOfAll))
			lift()
			w.Patch(`{"spec":{"minReadySeconds":0,"progressDeadlineSeconds":601}}`) // an edit is written at once
			e.Eventually(func(g Gomega) {
				g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
				g.Expect(o.fieldOf(w, w.LiveChild("zone-b"))).NotTo(Equal(o.to))
			}, 2*time.Minute).Should(Succeed())
		})
	}
}

// TestRecreateByPolicy checks a policy that turns a Deployment into one that replaces all of its replicas at once. In a
// coordinated rollout that Deployment is not released, and others are.
func TestRecreateByPolicy(t *testing.T) {
	t.Parallel()
	e, k, o := NewEnv(t), Kinds()[1], overruledFields()["strategy"]
	lift := o.impose(e, k, admissionv1.Create, admissionv1.Update)
	w := e.Create(NewDraft("web", Replicas(6), k.Draft, Zones("", ""), Rolling(`{maxUnavailable: 1, order: Parallel}`))).Of(k)
	w.Stalls("zone-a", v1alpha1.ReasonOverridden, o.says+" was changed by admission")
	e.Eventually(w.Unavailable).Should(BeZero())
	w.SetImages("v2")
	e.Eventually(func(g Gomega) {
		g.Expect(w.Unavailable()).To(BeNumerically("<=", 1))
		g.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": "3 v1", "zone-b": "3 v2"}))
		g.Expect(w.Parent().Status.Subsets[0].Message).To(Or(
			ContainSubstring("must allow at most 1 replica to be unavailable before it is released"), ContainSubstring(o.says+" was changed by admission")))
	}).WithTimeout(RolloutTimeout).Should(Succeed())
	e.Expect(o.fieldOf(w, w.LiveChild("zone-a"))).To(Equal(o.to), "positive control")
	lift()
	w.Patch(`{"spec":{"progressDeadlineSeconds":601}}`) // an edit is written at once
	e.Eventually(func(g Gomega) {
		g.Expect(w.Unavailable()).To(BeNumerically("<=", 1))
		g.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": "3 v2", "zone-b": "3 v2"}))
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).WithTimeout(RolloutTimeout).Should(Succeed())
}
