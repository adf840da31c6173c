// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestFirstTemplateNeverCameUpLate checks that a correction also reaches zone-b if zone-a is already up
// on it. zone-b never had a working template, so it must not be held on its current one.
func TestFirstTemplateNeverCameUpLate(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), FirstImage("broken-1"), Zones("", "", ""), Hold()))
		e.Eventually(w.Images).Should(And(HaveKey("zone-a"), HaveKey("zone-b"), HaveKey("zone-c")))
		lift := e.Deny("web-zone-b")
		w.SetImage("v1")
		w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, "change freeze")
		e.Eventually(w.Images).Should(And(HaveKeyWithValue("zone-a", "v1 v1"), HaveKeyWithValue("zone-c", "v1 v1")))
		e.Eventually(func() metav1.ConditionStatus {
			return Condition(w.Parent(), v1alpha1.ConditionInitialized).Status
		}).Should(Equal(metav1.ConditionTrue))
		lift()
		w.Disturbed()
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
		none := e.History.Forbid(AnyNewPod)
		w.SetImage("v2")
		w.Settle()
		none.Holds()
		w.SetPartitions(Parts{"zone-b": 0})
		w.Settle()
		none.Fires()
	})
}
