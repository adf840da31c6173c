// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestNoHistory checks that with revisionHistoryLimit 0 only the revisions in use are kept.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Hold(), func(d *Draft) { d.Spec.RevisionHistoryLimit = new(int32(0)) }))
	w.Settle()
	first := w.Parent().Status.UpdateRevision
	for _, tag := range []string{"v2", "v3", "v4"} {
		w.SetImage(tag)
		w.Settle()
		e.Eventually(w.Revisions).Should(ConsistOf(first, w.Parent().Status.UpdateRevision))
	}
	kept := e.History.Forbid(Protect("zone-a", Everything, "v1"), Protect("zone-b", 1, "v1"))
	w.SetPartitions(Parts{"zone-b": 1})
	w.Settle()
	w.DeleteChild("zone-a", metav1.DeletePropagationBackground)
	w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
	w.Settle()
	kept.Holds()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v4"}))
	w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0})
	w.Settle()
	kept.Fires()
	// The end of a rollout does not cause a write to the children: until the next one they name the
	// revision that they protected, so it is kept too.
	e.Eventually(w.Revisions).Should(ConsistOf(first, w.Parent().Status.UpdateRevision))
	w.SetImage("v5")
	w.Settle()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v5 v5", "zone-b": "v5 v5"}))
	e.Eventually(w.Revisions).ShouldNot(ContainElement(first))
}

// TestRevisionHistory checks that revisions are truncated to the limit while a partition is held, but
// never a revision that a replica runs.
func TestRevisionHistory(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	limit := int32(2)
	w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Hold(), func(d *Draft) { d.Spec.RevisionHistoryLimit = &limit }))
	w.Settle()
	mark := e.AuditMark()
	first := w.Parent().Status.UpdateRevision
	w.SetImage("v2")
	w.SetPartitions(Parts{"zone-a": 0})
	w.Settle()
	second := w.Parent().Status.UpdateRevision
	w.SetPartitions(Parts{"zone-a": nil})
	w.Settle()

	var staged []string
	for _, tag := range []string{"v3", "v4", "v5", "v6", "v7"} {
		w.SetImage(tag)
		w.Settle()
		staged = append(staged, w.Parent().Status.UpdateRevision)
	}
	want := append([]string{first, second}, staged[2:]...) // v5 and v6 are unused, v7 is the update revision
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
	// The log may not show a deletion yet that a list already shows.
	e.Eventually(deleted).Should(And(ContainElements(staged[0], staged[1], staged[3]), Not(ContainElement(first)), Not(ContainElement(second))))

	e.Step("what is kept still works", func() {
		w.DeleteChild("zone-a", metav1.DeletePropagationBackground)
		w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1"}))
	})

	e.Step("what is not in use any more goes", func() {
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0})
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v8 v8", "zone-b": "v8 v8"}))
		// The children still name v1 and v2: the end of the rollout did not cause a write to them. The
		// next template does.
		last := w.Parent().Status.UpdateRevision
		w.SetPartitions(Parts{"zone-a": nil, "zone-b": nil})
		w.SetImage("v9")
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v8 v8", "zone-b": "v8 v8"}))
		want := []string{staged[2], staged[4], last, w.Parent().Status.UpdateRevision}
		slices.Sort(want)
		w.Eventually(w.Revisions).Should(Equal(want))
		w.Eventually(deleted).Should(ContainElements(first, second), "the control of the same filter")
	})
}
