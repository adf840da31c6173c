// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/install"
)

// TestQuota checks a third child that exceeds the quota. That may pass without action, so it counts as
// Stalled only after a while; when the quota is lifted, the child is created.
func TestQuota(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "two"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("2")}},
	}
	e.Expect(e.Client.Create(e.ctx, quota)).To(Succeed())
	e.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.ctx, e.key("two"), quota)).To(Succeed())
		g.Expect(quota.Status.Used).To(HaveLen(1), "it is in force")
	}).Should(Succeed())

	mark := e.AuditMark()
	w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", "", "")))
	w.Runs(images{"zone-a": "v1 v1", "zone-b": "v1 v1"})
	w.SetImage("v2")
	w.Runs(images{"zone-a": "v2 v2", "zone-b": "v2 v2"})
	w.Stalls("zone-c", v1alpha1.ReasonApplyFailed, `"web-zone-c" is forbidden: exceeded quota: two`)

	var told, stalled int
	e.Eventually(func() int { // what can already be read is not always logged yet
		told, stalled = 0, 0
		for _, write := range e.Writes(mark, statuses) {
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

	e.Expect(e.Delete(e.ctx, quota)).To(Succeed())
	w.Disturbed()
	w.Settle()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v2 v2", "zone-c": "v2 v2"}))
}

// TestFrozenChild checks a policy of the cluster's owner that forbids changes of one child for a while.
// No watch reports the end of that.
func TestFrozenChild(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(6), zones("", "", "")))
	w.Settle()
	kept := e.History.Forbid(outside("zone-a", "zone-c"))
	lift := e.Deny("web-zone-b")
	w.SetImage("v2")
	w.Runs(images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2"})
	w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, "change freeze")
	kept.Holds()
	lift()
	w.Disturbed()
	w.Settle()
	kept.Fires()
	e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v2 v2"))
}

// Deny makes the API server refuse the manager's writes to an existing StatefulSet until lift is
// called, as a policy of the cluster's owner can.
func (e *env) Deny(name string) (lift func()) {
	e.t.Helper()
	account := "system:serviceaccount:" + install.Namespace + ":" + install.ServiceAccount
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "freeze-" + e.Namespace}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{children}},
		},
	}}}
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: fmt.Sprintf("object.metadata.name != %q || request.userInfo.username != %q", name, account),
		Message:    "change freeze",
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: policy.ObjectMeta}
	binding.Spec.PolicyName = policy.Name
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	binding.Spec.MatchResources = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}},
	}
	e.Expect(e.Client.Create(e.ctx, policy)).To(Succeed())
	e.Expect(e.Client.Create(e.ctx, binding)).To(Succeed())
	e.Eventually(func() error {
		_, err := e.cluster.Kubectl(e.ctx, "-n", e.Namespace, "patch", children, name, "--as="+account, "--dry-run=server",
			"--type=merge", "-p", `{"metadata":{"annotations":{"example.com/probe":"x"}}}`)
		return err
	}).Should(MatchError(ContainSubstring("change freeze")))
	return func() {
		e.t.Helper()
		e.Expect(e.Delete(e.ctx, binding)).To(Succeed())
		e.Expect(e.Delete(e.ctx, policy)).To(Succeed())
	}
}
