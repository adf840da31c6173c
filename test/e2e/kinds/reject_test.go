// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRejected: for every kind, a template that fails goes back by itself, stays away, and another one goes out.
func TestRejected(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		w := k.ContractOf(t, Replicas(4), Zones("2", "2"), Rolling(`{maxUnavailable: 1, onFailure: Rollback}`))
		w.ComesTo("2 v1", "2 v1", "")
		w.Eventually(func(g Gomega) {
			status := w.Parent().Status
			g.Expect(status.CurrentRevision).To(And(Not(BeEmpty()), Equal(status.UpdateRevision)))
		}).Should(Succeed())
		first := w.Parent().Status.UpdateRevision
		w.SetImages("broken-v2")
		w.Eventually(func() string { return w.Parent().Status.UpdateRevision }).ShouldNot(Equal(first))
		rejected := w.Parent().Status.UpdateRevision
		isRejected := func() {
			t.Helper()
			w.StallsWhole(v1alpha1.ReasonRevisionRejected, "("+known.Short(rejected)+") is rejected: ")
			w.Eventually(func() map[string]string { return w.Mix() }).Should(Equal(map[string]string{"zone-a": "2 v1", "zone-b": "2 v1"}))
			w.Eventually(func() v1alpha1.RolloutPhase { return w.Parent().Status.Rollout.Phase }).Should(Equal(v1alpha1.RolloutDone))
		}
		isRejected()
		still := w.History.Forbid(AnyNewPod)
		w.WipeStatus()
		isRejected()
		still.Holds()
		w.SetImages("v3")
		w.ComesTo("2 v3", "2 v3", "")
	})
}
