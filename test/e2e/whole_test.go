// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
)

// TestAllUnreleased: all replicas of a child come up on the update revision, though two
// are protected: somebody opened its partition while United could not write. It has
// finished then, and is to be reminded while one of them is away or not ready: none may be
// deleted in vain again and again. A replica takes some seconds to get ready, as most do.
// (One that is away and ready again within a tenth of a second leaves too little time: then
// the reminder can be in vain, and comes again after a back-off.)
func TestAllUnreleased(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(6), policy(p), zones("", ""), hold()))
		w.Settle()
		w.SetImage("slow-2")
		w.SetPartitions(parts{"zone-a": 2})
		w.Runs(images{"zone-a": "v1 v1 slow-2", "zone-b": "v1 v1 v1"})
		w.Settle()

		lift := e.Deny("web-zone-a")
		w.PatchChild("zone-a", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
		w.Runs(images{"zone-a": "slow-2 slow-2 slow-2", "zone-b": "v1 v1 v1"})
		e.Eventually(func(g Gomega) {
			status := w.Child("zone-a").Status
			g.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
		}).Should(Succeed())
		mark := e.AuditMark()
		lift()
		w.Disturbed()
		w.Runs(images{"zone-a": "v1 v1 slow-2", "zone-b": "v1 v1 v1"})
		w.Settle()
		// One or two of them when it was reminded in vain, as can happen.
		e.Expect(len(e.Writes(mark, "pods"))).To(BeNumerically("<=", 6))
	})
}
