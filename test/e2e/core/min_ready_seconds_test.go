// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestMinReadySeconds checks that a ready replica is not yet available; time alone makes it available,
// and the status follows.
func TestMinReadySeconds(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	mark := e.AuditMark()
	w := e.Create(NewDraft("web", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), func(d *Draft) { d.Spec.MinReadySeconds = 5 }))
	e.Eventually(func() metav1.ConditionStatus { return Condition(w.Parent(), v1alpha1.ConditionReady).Status }).Should(Equal(metav1.ConditionTrue))
	w.HasTold(mark, "ready replicas that are not available yet, and Ready was False", func(told *v1alpha1.UnitedDeployment) bool {
		return told.Status.ReadyReplicas == 2 && told.Status.AvailableReplicas < 2 && Condition(told, v1alpha1.ConditionReady).Status == metav1.ConditionFalse
	})
	parent := w.Parent()
	e.Expect(parent.Status.AvailableReplicas).To(BeEquivalentTo(2))
	e.Expect(Condition(parent, v1alpha1.ConditionAvailable).Status).To(Equal(metav1.ConditionTrue))
	for _, p := range w.PodsOf("zone-a") {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				turned := Condition(parent, v1alpha1.ConditionAvailable).LastTransitionTime
				e.Expect(turned.Sub(c.LastTransitionTime.Time).Seconds()).To(BeNumerically(">=", 4), "to the second that the API keeps")
			}
		}
	}
}

// TestRaisedMinReadySeconds goes back and raises minReadySeconds in one write: all replicas are ready and none is available, and a
// StatefulSet of Kubernetes 1.37 with Parallel replaces all that are not available at once. The partition goes down one by one.
func TestRaisedMinReadySeconds(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(3), Policy(appsv1.ParallelPodManagement), Zones("")))
	w.Settle()
	w.SetPartitions(Parts{"zone-a": 0})
	w.SetImage("v2")
	w.Settle()
	taken := w.Ledger(3)
	w.JSONPatch(`[{"op":"add","path":"/spec/minReadySeconds","value":20},
		{"op":"replace","path":%q,"value":%q}]`, ImagePath, Image("v1"))
	w.Settle()
	w.Runs(Images{"zone-a": "v1 v1 v1"})
	e.Expect(taken.Most()).To(Equal(1), "%s", taken)
}
