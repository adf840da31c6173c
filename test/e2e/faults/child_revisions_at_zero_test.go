// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestSlowGarbageCollection deletes a child in mid-canary while the garbage collector is slow to delete
// the ControllerRevisions of the child; finalizers simulate that.
//
// The next child of that name creates ControllerRevisions with the same content, so with the same
// names. The StatefulSet controller then reuses the existing ones without owning them, and names one in
// status.currentRevision. On its next sync it finds no ControllerRevision that it owns, and forgets the
// seeded revision.
func TestSlowGarbageCollection(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(4), Policy(p), Plain("one", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(Parts{"one": 2})
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"one": "v1 v1 v2 v2"}))
		line := e.History.Forbid(Protect("one", 2, "v1"))

		holdChildRevisions(w, "one", `["united.dev/e2e"]`)
		w.Disturbed()
		w.Expect(w.Delete(w.Ctx, w.Child("one"), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		// Nothing shows when the manager has done everything that it can do now.
		e.Consistently(line.Broken, 3*time.Second).Should(BeEmpty())

		holdChildRevisions(w, "one", `[]`)
		w.Settle()
		line.Holds()
		e.Expect(w.Images()).To(Equal(Images{"one": "v1 v1 v2 v2"}))
		w.SetPartitions(Parts{"one": 0})
		w.Settle()
		line.Fires()
	})
}

// holdChildRevisions sets the finalizers of the ControllerRevisions that the child of a subset created.
func holdChildRevisions(w *Workload, subset, finalizers string) {
	w.T.Helper()
	list := &appsv1.ControllerRevisionList{}
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace),
		client.MatchingLabels{v1alpha1.LabelName: w.Name, v1alpha1.LabelSubset: subset})).To(Succeed())
	w.Expect(list.Items).NotTo(BeEmpty())
	for i := range list.Items {
		w.SetFinalizers(&list.Items[i], finalizers)
	}
}

// TestRevertFromZero goes back to the first template and scales up from 0 replicas in one patch. While
// there are no replicas, a StatefulSet forgets the template before its current one, here v2, which
// nobody ever released.
func TestRevertFromZero(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(4), Policy(p), Plain("one", ""), Plain("two", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
		w.Scale(0)
		w.Settle()
		never := e.History.Forbid(Protect("one", Everything, "v1"), Protect("two", Everything, "v1"))
		w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"/spec/replicas","value":4}]`, ImagePath, Image("v1"))
		w.Settle()
		never.Holds()
		e.Expect(w.Images()).To(Equal(Images{"one": "v1 v1", "two": "v1 v1"}))
		w.SetImage("v3")
		w.SetPartitions(Parts{"one": 0})
		w.Settle()
		never.Fires()
	})
}
