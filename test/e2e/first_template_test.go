// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestFirstTemplateNeverCameUp checks that a template that never worked is not protected, although
// every zone is held.
func TestFirstTemplateNeverCameUp(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"broken-1", "pull-1"} {
		t.Run(tag, func(t *testing.T) {
			eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
				w := e.Create(draft("web", replicas(6), policy(p), firstImage(tag), zones("", "", ""), partitions(parts{"zone-b": "100%", "zone-c": 1})))
				up := images{"zone-a": tag + " " + tag, "zone-b": tag + " " + tag, "zone-c": tag + " " + tag}
				if p == appsv1.OrderedReadyPodManagement {
					up = images{"zone-a": tag, "zone-b": tag, "zone-c": tag}
				}
				e.Eventually(w.Images).Should(Equal(up))
				e.Eventually(func() metav1.ConditionStatus {
					return condition(w.Parent(), v1alpha1.ConditionInitialized).Status
				}).Should(Equal(metav1.ConditionFalse))

				w.SetImage("broken-2")
				e.Eventually(w.Images).Should(HaveKeyWithValue("zone-a", HavePrefix("broken-2")), "one that is no better replaces it too")
				w.SetImage("v1")
				w.Settle()
				v1 := images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}
				e.Expect(w.Images()).To(Equal(v1))
				status := w.Parent().Status
				e.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
				e.Expect(condition(w.Parent(), v1alpha1.ConditionInitialized).Status).To(Equal(metav1.ConditionTrue))

				none := e.History.Forbid(anyNewPod)
				w.SetImage("v2")
				w.Settle()
				e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v2"}), "from now on the partitions count")
				e.Expect(none.Broken()).To(HaveLen(1))
			})
		})
	}
}

// TestFirstTemplateNeverCameUpLate checks that a correction also reaches zone-b if zone-a is already up
// on it. zone-b never had a working template, so it must not be held on its current one.
func TestFirstTemplateNeverCameUpLate(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(6), policy(p), firstImage("broken-1"), zones("", "", ""), hold()))
		e.Eventually(w.Images).Should(And(HaveKey("zone-a"), HaveKey("zone-b"), HaveKey("zone-c")))
		lift := e.Deny("web-zone-b")
		w.SetImage("v1")
		w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, "change freeze")
		e.Eventually(w.Images).Should(And(HaveKeyWithValue("zone-a", "v1 v1"), HaveKeyWithValue("zone-c", "v1 v1")))
		e.Eventually(func() metav1.ConditionStatus {
			return condition(w.Parent(), v1alpha1.ConditionInitialized).Status
		}).Should(Equal(metav1.ConditionTrue))
		lift()
		w.Disturbed()
		w.Settle()
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
		none := e.History.Forbid(anyNewPod)
		w.SetImage("v2")
		w.Settle()
		none.Holds()
		w.SetPartitions(parts{"zone-b": 0})
		w.Settle()
		none.Fires()
	})
}
