// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRejected: a template that fails under onFailure Rollback goes back by itself, and comes again only when it is retried.
// Another one goes out as always.
func TestRejected(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Zones("", "", ""), Rolling(`{maxUnavailable: 2, onFailure: Rollback, steps: [{subsets: [zone-a], partition: "50%"}]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	first := w.Parent().Status.CurrentRevision
	all := func(image string) Images {
		return Images{"zone-a": image + " " + image, "zone-b": image + " " + image, "zone-c": image + " " + image}
	}
	rejected := ""
	isRejected := func(image, for_ string) {
		t.Helper()
		w.StallsWhole(v1alpha1.ReasonRevisionRejected, "("+known.Short(rejected)+") is rejected: ", "united.dev/retry="+rejected+"/$(date +%s)")
		w.Eventually(func(g Gomega) {
			s := w.Parent().Status
			g.Expect(s.Rollout.Phase).To(Equal(v1alpha1.RolloutDone))
			g.Expect([]string{s.UpdateRevision, s.Rollout.RejectedRevision, s.CurrentRevision, s.Rollout.Revision}).To(Equal([]string{rejected, rejected, for_, for_}))
			g.Expect([]int32{s.Replicas, s.AvailableReplicas, s.UpdatedReplicas}).To(Equal([]int32{6, 6, 0}))
		}).Should(Succeed())
		w.Runs(all(image))
	}

	e.Step("it crashes, and goes back", func() {
		ledger := w.Ledger(6)
		w.SetImage("broken-v2")
		w.Eventually(func() string { return w.Parent().Status.UpdateRevision }).ShouldNot(Equal(first))
		rejected = w.Parent().Status.UpdateRevision
		w.AwaitEvent(corev1.EventTypeWarning, v1alpha1.ReasonReplicaFailed, "failed")
		w.AwaitEvent(corev1.EventTypeWarning, v1alpha1.ReasonRevisionRejected, "("+known.Short(rejected)+") is rejected: web-zone-a-1 (")
		isRejected("v1", first)
		e.Expect(ledger.Taken()).To(BeNumerically("<=", 2), "%s", ledger)
	})
	still := e.History.Forbid(AnyNewPod)
	e.Step("the status is lost", func() {
		w.WipeStatus()
		isRejected("v1", first)
		still.Holds()
	})
	e.Step("the template comes again", func() {
		w.SetImage("v1")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		w.SetImage("broken-v2")
		isRejected("v1", first)
		still.Holds()
	})
	e.Step("nothing else brings it back", func() {
		w.SetRolling(`{onFailure: Hold, maxUnavailable: 3}`)
		isRejected("v1", first)
		w.Disturbed()
		w.Patch(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationForceUpdate, rejected)
		isRejected("v1", first)
		ComesToRest(w, "zone-a", "zone-b", "zone-c")
		still.Holds()
		w.Patch(`{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AnnotationForceUpdate)
		w.SetRolling(`{onFailure: Rollback, maxUnavailable: 2}`)
	})
	e.Step("the plugin tells what to do", func() {
		e.Expect(e.Does("status", "web")).To(ContainSubstring("RevisionRejected"))
		e.Expect(e.Does("why", "web")).To(And(ContainSubstring("RevisionRejected"), ContainSubstring("kubectl united retry web -n "+e.Namespace+" rolls it out once more"), ContainSubstring("kubectl united undo web")))
		e.Expect(e.Does("retry", "web")).To(ContainSubstring("is rolled out once more"))
		w.AwaitEvent(corev1.EventTypeNormal, v1alpha1.EventRolloutStarted, "Rolling out "+known.Short(rejected)+" once more, which was rejected")
		isRejected("v1", first)
		still.Fires()
	})
	e.Step("another template goes out", func() {
		w.SetImage("v3")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		w.Runs(all("v3"))
		third := w.Parent().Status.CurrentRevision
		still := e.History.Forbid(AnyNewPod)
		w.SetImage("broken-v2")
		isRejected("v3", third)
		still.Holds()
	})
}
