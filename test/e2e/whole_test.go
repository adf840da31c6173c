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
// finished then, and would forget again as soon as it is reminded. Just the two are
// deleted, also where a replica is gone and ready again within a tenth of a second.
func TestAllUnreleased(t *testing.T) {
	for _, image := range []string{"v2", "slow-2"} {
		t.Run(image, func(t *testing.T) {
			eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
				w, lift := e.allUnreleased(image, p)
				mark := e.AuditMark()
				lift()
				w.Disturbed()
				w.Runs(images{"zone-a": "v1 v1 " + image, "zone-b": "v1 v1 v1"})
				w.Settle()
				w.deletedSince(mark, 2)
			})
		})
	}
}

// TestAllUnreleasedAndBack: the same, and what is asked for is the template before, or a
// third one, when United can write again.
func TestAllUnreleasedAndBack(t *testing.T) {
	for asked, runs := range map[string]string{"v1": "v1 v1 v1", "v3": "v1 v1 v3"} {
		t.Run(asked, func(t *testing.T) {
			eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
				w, lift := e.allUnreleased("v2", p)
				w.SetImage(asked)
				mark := e.AuditMark()
				lift()
				w.Disturbed()
				w.Runs(images{"zone-a": runs, "zone-b": "v1 v1 v1"})
				w.Settle()
				w.deletedSince(mark, 2)
			})
		})
	}
}

// allUnreleased is a Workload all of whose replicas in zone-a run the image and are ready,
// though two are protected, and of which United may not write that child until lift.
func (e *env) allUnreleased(image string, p appsv1.PodManagementPolicyType) (w *Workload, lift func()) {
	w = e.Create(draft("web", replicas(6), policy(p), zones("", ""), hold()))
	w.Settle()
	w.SetImage(image)
	w.SetPartitions(parts{"zone-a": 2})
	w.Runs(images{"zone-a": "v1 v1 " + image, "zone-b": "v1 v1 v1"})
	w.Settle()

	lift = e.Deny("web-zone-a")
	w.PatchChild("zone-a", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	w.Runs(images{"zone-a": image + " " + image + " " + image, "zone-b": "v1 v1 v1"})
	e.Eventually(func(g Gomega) {
		status := w.Child("zone-a").Status
		g.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
	}).Should(Succeed())
	return w, lift
}

// deletedSince checks how many pods United has deleted.
func (w *Workload) deletedSince(mark int64, want int) {
	w.t.Helper()
	w.Expect(w.Writes(mark, "pods")).To(HaveLen(want))
}
