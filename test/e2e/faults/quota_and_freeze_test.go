// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestQuota checks a third child that exceeds the quota. That may pass without action, so it counts as
// Stalled only after a while; when the quota is lifted, the child is created.
func TestQuota(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "two"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("2")}},
	}
	e.Expect(e.Client.Create(e.Ctx, quota)).To(Succeed())
	e.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.Ctx, e.Key("two"), quota)).To(Succeed())
		g.Expect(quota.Status.Used).To(HaveLen(1), "it is in force")
	}).Should(Succeed())

	mark := e.AuditMark()
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", "")))
	w.Runs(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"})
	w.SetImage("v2")
	w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v2 v2"})
	w.Stalls("zone-c", v1alpha1.ReasonApplyFailed, `"web-zone-c" is forbidden: exceeded quota: two`)

	var told, stalled int
	e.Eventually(func() int { // what can already be read is not always logged yet
		told, stalled = 0, 0
		for _, write := range e.Writes(mark, Statuses) {
			if bytes.Contains(write.Request, []byte("exceeded quota")) {
				told++
			}
			if bytes.Contains(write.Request, []byte(`"phase":"Stalled"`)) {
				stalled++
			}
		}
		return stalled
	}).Should(BeNumerically(">", 0), "positive control: Stalled is found in the writes")
	e.Expect(told).To(BeNumerically(">", stalled), "it is told of before it is Stalled")

	e.Expect(e.Delete(e.Ctx, quota)).To(Succeed())
	w.Disturbed()
	w.Settle()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2", "zone-c": "v2 v2"}))
}

// TestFrozenChild checks a policy of the cluster's owner that forbids changes of one child for a while.
// No watch reports the end of that.
func TestFrozenChild(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Zones("", "", "")))
	w.Settle()
	kept := e.History.Forbid(Outside("zone-a", "zone-c"))
	lift := e.Deny("web-zone-b")
	w.SetImage("v2")
	w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2"})
	w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, "change freeze")
	kept.Holds()
	lift()
	w.Disturbed()
	w.Settle()
	kept.Fires()
	e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v2 v2"))
}
