// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRolloutAndScale changes template and replicas in one patch, and checks that no healthy replica is
// taken down before the new replicas are up.
func TestRolloutAndScale(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("", ""), Rolling(`{}`)))
		w.Settle()
		grown := w.Ledger(10)
		w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"/spec/replicas","value":10}]`, ImagePath, Image("v2"))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		grown.GrownWithin(1, 3)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2 v2 v2", "zone-b": "v2 v2 v2 v2 v2"}))
		for _, p := range w.Pods() {
			// A replica that does not exist yet may be released like any replica that is down: then it
			// comes up on v2.
			created := e.History.CreatedOn(p.Name)
			e.Expect(created == "v1 v2" || created == "v2" && p.Ordinal >= 3).To(BeTrue(), "%s: %s", p.Name, created)
		}

		e.Step("and down", func() {
			shrunk := w.Ledger(4)
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"/spec/replicas","value":4}]`, ImagePath, Image("v3"))
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			shrunk.Within(1)
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v3 v3", "zone-b": "v3 v3"}))
		})
		e.Step("a broken image, with new replicas", func() {
			ledger := w.Ledger(6)
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"/spec/replicas","value":6}]`, ImagePath, Image("broken-v4"))
			w.StallsWhole(v1alpha1.ReasonReplicaFailed, "CrashLoopBackOff")
			ComesToRest(w, "zone-a", "zone-b")
			for _, m := range ledger.Moments() {
				e.Expect(m.Taken && m.Down > 1 && m.Event.Ordinal < 2).To(BeFalse(), "%s:\n%s", m, ledger)
			}
			w.SetImage("v5")
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v5 v5 v5", "zone-b": "v5 v5 v5"}))
		})
	})
}

// TestRolloutMove moves replicas from one zone to another, and checks that the number of available
// replicas is never more than maxUnavailable below the wanted number, although pods start slowly.
func TestRolloutMove(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), FirstImage("slow-v1"), Zones("6", "3"), Rolling(`{}`)))
		w.Settle()
		const move = `{"op":"replace","path":"/spec/topology/subsets/0/replicas","value":%d},{"op":"replace","path":"/spec/topology/subsets/1/replicas","value":%d}`
		ledger := w.Ledger(9)
		w.JSONPatch(`[`+move+`]`, 3, 6)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		ledger.Within(1)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "slow-v1 slow-v1 slow-v1", "zone-b": "slow-v1 slow-v1 slow-v1 slow-v1 slow-v1 slow-v1"}))

		e.Step("and back, with a new image", func() {
			ledger := w.Ledger(9)
			w.JSONPatch(`[`+move+`,{"op":"replace","path":%q,"value":%q}]`, 6, 3, ImagePath, Image("v2"))
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			ledger.Within(1)
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2 v2 v2 v2", "zone-b": "v2 v2 v2"}))
		})
	})
}

// TestRolloutRemoval checks that the replicas of a removed zone go as others come, and that its child
// follows.
func TestRolloutRemoval(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), FirstImage("slow-v1"), Zones("", "", ""), Rolling(`{maxUnavailable: 2}`)))
		w.Settle()
		ledger := w.Ledger(9)
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/2"}]`)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		ledger.Within(2)
		e.Expect(apierrors.IsNotFound(e.Get(e.Ctx, e.Key("web-zone-c"), &appsv1.StatefulSet{}))).To(BeTrue())
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "slow-v1 slow-v1 slow-v1 slow-v1 slow-v1", "zone-b": "slow-v1 slow-v1 slow-v1 slow-v1"}))

		e.Step("in mid-rollout, and together with another image", func() {
			w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":%s}]`, AsJSON(Zone(2, "")))
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			ledger := w.Ledger(9)
			w.SetImage("quiet-v2")
			w.Eventually(func() []string { names, _ := w.Waiting(); return names }).Should(HaveLen(2))
			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0"},{"op":"replace","path":%q,"value":%q}]`, ImagePath, Image("v3"))
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			ledger.Within(2)
			e.Expect(apierrors.IsNotFound(e.Get(e.Ctx, e.Key("web-zone-a"), &appsv1.StatefulSet{}))).To(BeTrue())
			e.Expect(w.Images()).To(Equal(Images{"zone-b": "v3 v3 v3 v3 v3", "zone-c": "v3 v3 v3 v3"}))
		})
	})
}

// TestRolloutNewSubset checks that a zone which is added in mid-rollout starts protected, and takes
// part from then on.
func TestRolloutNewSubset(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("3", "3"), Rolling(`{steps: [{subsets: [zone-a], partition: 1, pause: {}}]}`)))
		w.Settle()
		w.SetImage("v2")
		key := w.AwaitApproval(0)
		line := e.History.Forbid(Protect("zone-a", 1, "v1"), Protect("zone-b", Everything, "v1"), Protect("zone-c", Everything, "v1"))
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":%s},{"op":"replace","path":"/spec/replicas","value":8}]`, AsJSON(Zone(2, "2")))
		e.Expect(w.AwaitApproval(0)).To(Equal(key), "the step is the same")
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v2 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1"}))
		line.Holds()
		w.Approve(key)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		line.Fires()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2"}))
	})
}
