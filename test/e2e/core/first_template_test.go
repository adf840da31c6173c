// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestFirstTemplateNeverCameUp checks that a template that never worked is not protected, although
// every zone is held.
func TestFirstTemplateNeverCameUp(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"broken-1", "pull-1"} {
		t.Run(tag, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w := e.Create(NewDraft("web", Replicas(6), Policy(p), FirstImage(tag), Zones("", "", ""), Partitions(Parts{"zone-b": "100%", "zone-c": 1})))
				up := Images{"zone-a": tag + " " + tag, "zone-b": tag + " " + tag, "zone-c": tag + " " + tag}
				if p == appsv1.OrderedReadyPodManagement {
					up = Images{"zone-a": tag, "zone-b": tag, "zone-c": tag}
				}
				e.Eventually(w.Images).Should(Equal(up))
				e.Eventually(func() metav1.ConditionStatus {
					return Condition(w.Parent(), v1alpha1.ConditionInitialized).Status
				}).Should(Equal(metav1.ConditionFalse))

				w.SetImage("broken-2")
				e.Eventually(w.Images).Should(HaveKeyWithValue("zone-a", HavePrefix("broken-2")), "one that is no better replaces it too")
				w.SetImage("v1")
				w.Settle()
				v1 := Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}
				e.Expect(w.Images()).To(Equal(v1))
				status := w.Parent().Status
				e.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
				e.Expect(Condition(w.Parent(), v1alpha1.ConditionInitialized).Status).To(Equal(metav1.ConditionTrue))

				none := e.History.Forbid(AnyNewPod)
				w.SetImage("v2")
				w.Settle()
				e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v2"}), "from now on the partitions count")
				e.Expect(none.Broken()).To(HaveLen(1))
			})
		})
	}
}
