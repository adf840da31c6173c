// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/install"
)

// Deny makes the API server refuse the manager's writes to an existing StatefulSet until lift is
// called, as a policy of the cluster's owner can.
func (e *Env) Deny(name string) (lift func()) {
	e.T.Helper()
	account := "system:serviceaccount:" + install.Namespace + ":" + install.ServiceAccount
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "freeze-" + e.Namespace}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{Children}},
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
	e.Expect(e.Client.Create(e.Ctx, policy)).To(Succeed())
	e.Expect(e.Client.Create(e.Ctx, binding)).To(Succeed())
	e.Eventually(func() error {
		_, err := e.Cluster.Kubectl(e.Ctx, "-n", e.Namespace, "patch", Children, name, "--as="+account, "--dry-run=server",
			"--type=merge", "-p", `{"metadata":{"annotations":{"example.com/probe":"x"}}}`)
		return err
	}).Should(MatchError(ContainSubstring("change freeze")))
	return func() {
		e.T.Helper()
		e.Expect(e.Delete(e.Ctx, binding)).To(Succeed())
		e.Expect(e.Delete(e.Ctx, policy)).To(Succeed())
	}
}

// IsKubernetes136 reports whether the tests run on the oldest Kubernetes.
func IsKubernetes136(t *testing.T) bool {
	t.Helper()
	server, err := Shared.Cluster.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	return server.Major == "1" && server.Minor == "36"
}

// Unfinished exempts the namespace from the admission policy, as if the policy were not installed.
func (e *Env) Unfinished() {
	e.T.Helper()
	const label = "united.dev/e2e-unchecked"
	_, err := e.Cluster.Kubectl(e.Ctx, "label", "namespace", e.Namespace, label+"=")
	e.Expect(err).NotTo(HaveOccurred())
	_, err = e.Cluster.Kubectl(e.Ctx, "patch", "validatingadmissionpolicybinding", "united-templates", "--type=merge", "-p",
		`{"spec":{"matchResources":{"namespaceSelector":{"matchExpressions":[{"key":"`+label+`","operator":"DoesNotExist"}]}}}}`)
	e.Expect(err).NotTo(HaveOccurred())
	e.Eventually(func() error {
		parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "probe"}}
		parent.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
		parent.Spec.Template.StatefulSetTemplate = &runtime.RawExtension{Raw: []byte(`{}`)}
		return e.Client.Create(e.Ctx, parent, client.DryRunAll)
	}).Should(Succeed(), "until the API server has seen the change")
}
