// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestAllUnreleased checks a child that runs the update revision in all of its replicas, although two
// are protected: somebody lowered its partition while United could not write. The StatefulSet has then
// finished its update, so it would forget the seeded revision again at once. United deletes only the
// two protected replicas, even if a replica is gone and ready again within a tenth of a second.
func TestAllUnreleased(t *testing.T) {
	t.Parallel()
	for _, image := range []string{"v2", "slow-2"} {
		t.Run(image, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w, lift := allUnreleased(e, image, p)
				mark := e.AuditMark()
				lift()
				w.Disturbed()
				w.Runs(Images{"zone-a": "v1 v1 " + image, "zone-b": "v1 v1 v1"})
				w.Settle()
				deletedSince(w, mark, 2)
			})
		})
	}
}

// TestAllUnreleasedAndBack checks the same if the spec asks for the previous template, or for a third
// one, by the time United can write again.
func TestAllUnreleasedAndBack(t *testing.T) {
	t.Parallel()
	for asked, tc := range map[string]struct {
		runs    string
		deletes int // when everything goes back, the StatefulSet replaces them
	}{"v1": {"v1 v1 v1", 0}, "v3": {"v1 v1 v3", 2}} {
		t.Run(asked, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w, lift := allUnreleased(e, "v2", p)
				w.SetImage(asked)
				mark := e.AuditMark()
				lift()
				w.Disturbed()
				w.Runs(Images{"zone-a": tc.runs, "zone-b": "v1 v1 v1"})
				w.Settle()
				deletedSince(w, mark, tc.deletes)
			})
		})
	}
}

// TestAllUnreleasedAndOrphaned checks the same if the StatefulSet is deleted without its pods while the
// template goes back. The next StatefulSet knows what its pods run, and repairs them.
func TestAllUnreleasedAndOrphaned(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w, lift := allUnreleased(e, "v2", p)
		w.DeleteChild("zone-a", metav1.DeletePropagationOrphan)
		w.SetImage("v1")
		mark := e.AuditMark()
		lift()
		w.Disturbed()
		w.Runs(Images{"zone-a": "v1 v1 v1", "zone-b": "v1 v1 v1"})
		w.Settle()
		e.Expect(len(e.Writes(mark, "pods"))).To(BeNumerically("<=", 2))
	})
}

// TestAllUnreleasedAndReleased checks the same if one of the two replicas is released in the meantime.
func TestAllUnreleasedAndReleased(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w, lift := allUnreleased(e, "v2", p)
		w.SetPartitions(Parts{"zone-a": 1})
		mark := e.AuditMark()
		lift()
		w.Disturbed()
		w.Runs(Images{"zone-a": "v1 v2 v2", "zone-b": "v1 v1 v1"})
		w.Settle()
		deletedSince(w, mark, 1)
	})
}

// TestAllUnreleasedAndScaled checks the same under RollingUpdate with a scale-up. The new replicas use
// what maxUnavailable allows, and come before the repair.
func TestAllUnreleasedAndScaled(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		canary := Rolling(`{steps: [{subsets: [zone-a], partition: 2, pause: {}}]}`)
		w, lift := allUnreleasedUnder(e, canary, "v2", p)
		w.Scale(7)
		mark := e.AuditMark()
		lift()
		w.Disturbed()
		w.Runs(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v1"})
		w.Settle()
		deletedSince(w, mark, 2)
	})
}

// allUnreleased returns a Workload in which all replicas of zone-a run the image and are ready,
// although two are protected. United cannot write that child until lift is called.
func allUnreleased(e *Env, image string, p appsv1.PodManagementPolicyType) (w *Workload, lift func()) {
	return allUnreleasedUnder(e, Partitions(Parts{"zone-a": 2}), image, p)
}

// allUnreleasedUnder is allUnreleased with a strategy that releases one replica of zone-a.
func allUnreleasedUnder(e *Env, strategy Edit, image string, p appsv1.PodManagementPolicyType) (w *Workload, lift func()) {
	w = e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("", ""), strategy))
	w.Settle()
	w.SetImage(image)
	w.Runs(Images{"zone-a": "v1 v1 " + image, "zone-b": "v1 v1 v1"})
	w.Settle()

	lift = e.Deny("web-zone-a")
	w.PatchChild("zone-a", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	w.Runs(Images{"zone-a": image + " " + image + " " + image, "zone-b": "v1 v1 v1"})
	e.Eventually(func(g Gomega) {
		status := w.Child("zone-a").Status
		g.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
	}).Should(Succeed())
	return w, lift
}

// deletedSince checks how many pods United has deleted.
func deletedSince(w *Workload, mark int64, want int) {
	w.T.Helper()
	w.Expect(w.Writes(mark, "pods")).To(HaveLen(want))
}
