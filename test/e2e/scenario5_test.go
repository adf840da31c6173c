// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Revisions gives the names of the revisions that are kept, sorted.
func (w *Workload) Revisions() []string {
	w.t.Helper()
	list := &appsv1.ControllerRevisionList{}
	w.Expect(w.List(w.ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
	var names []string
	for _, r := range list.Items {
		if _, ofChild := r.Labels[v1alpha1.LabelSubset]; !ofChild {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestRevert stages a third template in mid-canary and goes back.
func TestRevert(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(9), policy(p), zones("2", "4", ""), hold()))
		w.Settle()
		first := w.Parent().Status.UpdateRevision
		w.SetImage("v2")
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 2})
		w.Settle()
		second := w.Parent().Status.UpdateRevision

		e.Step("a second template moves what is released", func() {
			line := e.History.Forbid(protect("zone-a", 0, ""), protect("zone-b", 2, "v1"), protect("zone-c", everything, "v1"))
			w.SetImage("v3")
			w.Settle()
			line.Holds()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v3 v3", "zone-b": "v1 v1 v3 v3", "zone-c": "v1 v1 v1"}))
		})

		e.Step("there and back at once moves nothing that matches", func() {
			ran := e.History.Forbid(restartOf(w.Pods(), "v1"))
			w.SetImage("v4")
			w.SetImage("v2")
			w.SetImage("v3")
			w.Settle()
			ran.Holds()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v3 v3", "zone-b": "v1 v1 v3 v3", "zone-c": "v1 v1 v1"}))
		})

		e.Step("back to the second re-uses its revision", func() {
			w.SetImage("v2")
			w.Settle()
			e.Expect(w.Parent().Status.UpdateRevision).To(Equal(second))
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1 v1"}))
		})

		e.Step("back to the first restarts no pod that runs it", func() {
			ran := e.History.Forbid(restartOf(w.Pods(), "v1"))
			others := e.History.Forbid(restartOf(w.Pods(), "v2"))
			w.SetImage("v1")
			w.Settle()
			ran.Holds()
			others.Fires()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": "v1 v1 v1 v1", "zone-c": "v1 v1 v1"}))
			status := w.Parent().Status
			e.Expect(status.UpdateRevision).To(Equal(first))
			e.Expect(status.CurrentRevision).To(Equal(first))
			e.Expect(status.UpdatedReadyReplicas).To(BeEquivalentTo(9), "held zones count too: they match")
		})

		e.Step("and the way on is open again", func() {
			line := e.History.Forbid(protect("zone-b", 2, "v1"), protect("zone-c", everything, "v1"))
			w.SetImage("v2")
			w.Settle()
			line.Holds()
			e.Expect(w.Parent().Status.UpdateRevision).To(Equal(second))
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1 v1"}))
		})
	})
}

// TestRevertHeld: all is held in mid-canary, and the first template comes back.
// A hold is a hold: what runs the second stays until its partition falls.
func TestRevertHeld(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(6), policy(p), zones("", "", ""), hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 1})
		w.Settle()
		w.SetPartitions(parts{"zone-a": nil, "zone-b": nil})
		w.Settle()
		nothing := e.History.Forbid(anyNewPod)
		w.SetImage("v1")
		w.Settle()
		nothing.Holds()
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v1 v2", "zone-c": "v1 v1"}))
		w.DeleteChild("zone-a", metav1.DeletePropagationBackground)
		w.Settle()
		e.Expect(w.Images()).To(HaveKeyWithValue("zone-a", "v2 v2"), "zone-a had finished v2 and protects it")

		ran := e.History.Forbid(restartOf(w.Pods(), "v1"))
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
		w.Settle()
		ran.Holds()
		nothing.Fires()
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
	})
}

// TestRevisionHistory: revisions are truncated to the limit while a partition is
// held, and never one that something runs.
func TestRevisionHistory(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	limit := int32(2)
	w := e.Create(draft("web", replicas(4), zones("", ""), hold(), func(d *Draft) { d.Spec.RevisionHistoryLimit = &limit }))
	w.Settle()
	mark := e.AuditMark()
	first := w.Parent().Status.UpdateRevision
	w.SetImage("v2")
	w.SetPartitions(parts{"zone-a": 0})
	w.Settle()
	second := w.Parent().Status.UpdateRevision
	w.SetPartitions(parts{"zone-a": nil})
	w.Settle()

	var staged []string
	for _, tag := range []string{"v3", "v4", "v5", "v6", "v7"} {
		w.SetImage(tag)
		w.Settle()
		staged = append(staged, w.Parent().Status.UpdateRevision)
	}
	want := append([]string{first, second}, staged[2:]...) // v5 and v6 are idle, v7 is the update revision
	slices.Sort(want)
	w.Eventually(w.Revisions).Should(Equal(want))

	e.Step("used again, a revision is the youngest", func() {
		w.SetImage("v5")
		w.Settle()
		e.Expect(w.Parent().Status.UpdateRevision).To(Equal(staged[2]))
		w.SetImage("v8")
		w.Settle()
		want := []string{first, second, staged[2], staged[4], w.Parent().Status.UpdateRevision}
		slices.Sort(want)
		w.Eventually(w.Revisions).Should(Equal(want))
	})

	deleted := func() []string {
		var names []string
		for _, write := range e.Writes(mark, "controllerrevisions") {
			if write.Verb == "delete" {
				names = append(names, write.Name)
			}
		}
		return names
	}
	// What a list does not show any more may not be logged yet.
	e.Eventually(deleted).Should(And(ContainElements(staged[0], staged[1], staged[3]), Not(ContainElement(first)), Not(ContainElement(second))))

	e.Step("what is kept still works", func() {
		w.DeleteChild("zone-a", metav1.DeletePropagationBackground)
		w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
		w.Settle()
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v1 v1"}))
	})

	e.Step("what is not in use any more goes", func() {
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 0})
		w.Settle()
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v8 v8", "zone-b": "v8 v8"}))
		// The children still name v1 and v2: that the rollout is over was not worth
		// a write to them. The next template is.
		last := w.Parent().Status.UpdateRevision
		w.SetPartitions(parts{"zone-a": nil, "zone-b": nil})
		w.SetImage("v9")
		w.Settle()
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v8 v8", "zone-b": "v8 v8"}))
		want := []string{staged[2], staged[4], last, w.Parent().Status.UpdateRevision}
		slices.Sort(want)
		w.Eventually(w.Revisions).Should(Equal(want))
		w.Eventually(deleted).Should(ContainElements(first, second), "the control of the same filter")
	})
}
