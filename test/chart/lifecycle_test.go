// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/install"
)

const crdName = "uniteddeployments.apps.united.dev"

// TestLifecycle installs, upgrades, rolls back, uninstalls, installs again and removes the chart. It
// needs the CRD exclusively, so it runs before the parallel tests.
func TestLifecycle(t *testing.T) {
	e := newEnv(t)
	const namespace, work = install.Namespace, "lifecycle"
	release := func(verb, chart string, args ...string) []string {
		return append([]string{verb, "united", chart, "--namespace=" + namespace, "--wait", "--timeout=3m",
			"--set=leaderElection.leaseDuration=6s,leaderElection.renewDeadline=4s,leaderElection.retryPeriod=1s",
			"--set=metrics.readers[0].name=prometheus,metrics.readers[0].namespace=" + work}, args...)
	}
	e.namespace(namespace, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	e.namespace(work, nil)

	var manager *install.Manager
	var deployed *install.Deployed
	var before map[string]podState
	unmoved := func() {
		e.t.Helper()
		e.Expect(moved(before, e.pods(work, webName))).To(BeEmpty(), "pods of a UnitedDeployment that moved")
	}

	e.step("install", func() {
		e.helm(release("install", e.chart("united"))...)
		manager, deployed = e.start(namespace, "united-manager", "united-1")
		e.checkRestricted(namespace)
		e.Eventually(func() (int, error) { return fetch(e.ctx, "http://"+deployed.Probes+"/readyz", "") }).Should(Equal(http.StatusOK))
		e.Eventually(func() (int, error) { return fetch(e.ctx, "http://"+deployed.Probes+"/healthz", "") }).Should(Equal(http.StatusOK))
	})
	e.step("it reconciles", func() {
		e.Expect(e.Create(e.ctx, parent(work, webName, "v1", 4))).To(Succeed())
		e.settle(work, webName, 4)
		before = e.pods(work, webName)
		e.Expect(before).To(HaveLen(4))
	})
	e.step("the policy refuses a mistake inside of a template", func() {
		e.Eventually(func() error {
			return patch(e.ctx, work, webName, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"replicas":3}}}}}`)
		}).Should(MatchError(apierrors.IsInvalid, "the policy of the chart"))
	})
	e.step("metrics are for who may read them", func() { e.checkMetrics(deployed, work) })
	e.step("a second replica stands by and takes over", func() {
		second, err := install.FromChart(e.ctx, shared.cluster, namespace, "united-manager")
		e.Expect(err).NotTo(HaveOccurred())
		standby, err := second.Launch(e.ctx, shared.cluster, "united-2")
		e.Expect(err).NotTo(HaveOccurred())
		e.cleanUp(standby)
		e.Eventually(func() (int, error) { return fetch(e.ctx, "http://"+second.Probes+"/readyz", "") }).Should(Equal(http.StatusOK))
		e.Expect(manager.Leads()).To(BeTrue())
		e.Expect(standby.Leads()).To(BeFalse())
		e.Expect(manager.Kill()).To(Succeed())
		e.Eventually(standby.Leads).Should(BeTrue())
		e.Expect(patch(e.ctx, work, webName, `{"spec":{"replicas":6}}`)).To(Succeed())
		e.settle(work, webName, 6)
		before = e.pods(work, webName)
		manager = standby
	})
	e.step("upgrade, with a newer CRD", func() {
		e.helm(release("upgrade", e.chartWithColumn("Newest"), "--set=workers=3,image.tag=v0.2.0")...)
		e.Expect(e.columns()).To(ContainElement("Newest"))
		d := &appsv1.Deployment{}
		e.Expect(e.Get(e.ctx, types.NamespacedName{Namespace: namespace, Name: "united-manager"}, d)).To(Succeed())
		e.Expect(d.Spec.Template.Spec.Containers[0].Args).To(ContainElement("--workers=3"))
		unmoved()
	})
	e.step("roll back", func() {
		e.helm("rollback", "united", "1", "--namespace="+namespace, "--wait")
		e.Expect(e.columns()).To(And(Not(BeEmpty()), Not(ContainElement("Newest"))))
		unmoved()
	})
	e.step("uninstall: the CRD stays, and so does what it holds", func() {
		e.Expect(manager.Stop()).To(Succeed())
		e.helm("uninstall", "united", "--namespace="+namespace, "--wait")
		e.Expect(e.left()).To(BeEmpty())
		e.Expect(e.columns()).NotTo(BeEmpty())
		e.Expect(e.Get(e.ctx, types.NamespacedName{Namespace: work, Name: webName}, &v1alpha1.UnitedDeployment{})).To(Succeed())
		unmoved()
	})
	e.step("install again: it takes over what it finds", func() {
		e.helm(release("install", e.chart("united"), "--set=crds.keep=false")...)
		manager, _ = e.start(namespace, "united-manager", "united-again")
		e.Expect(setImage(e.ctx, work, webName, "v2")).To(Succeed())
		e.settle(work, webName, 6)
		unmoved()
		e.Expect(patch(e.ctx, work, webName, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":2}}}}}`)).To(Succeed())
		e.settle(work, webName, 6)
		e.Expect(moved(before, e.pods(work, webName))).To(Equal([]string{"web-zone-b-2"}))
	})
	e.step("uninstall without crds.keep: nothing stays", func() {
		e.waitUntilCollected(work)
		e.helm("uninstall", "united", "--namespace="+namespace)
		e.Eventually(func() error {
			return e.Get(e.ctx, client.ObjectKey{Name: crdName}, crd())
		}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		e.Eventually(func() map[string]podState { return e.pods(work, webName) }).Should(BeEmpty())
		e.Expect(manager.Kill()).To(Succeed()) // without its rights it cannot even shut down gracefully
		e.Expect(e.left()).To(BeEmpty())
	})
}

// waitUntilCollected waits until the garbage collector watches UnitedDeployments. The collector looks
// for new kinds only every 30 seconds. If it has not seen a deletion because the CRD was deleted
// together with the objects, it never collects their dependents.
func (e *env) waitUntilCollected(namespace string) {
	e.t.Helper()
	probe := parent(namespace, "probe", "v1", 0)
	e.Expect(e.Create(e.ctx, probe)).To(Succeed())
	// Only a collector that watches the kind can remove the finalizer that this sets.
	e.Expect(e.Delete(e.ctx, probe, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	e.Eventually(func() error {
		return e.Get(e.ctx, client.ObjectKeyFromObject(probe), probe)
	}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
}

func crd() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return u
}

// columns returns the printer columns of the CRD.
func (e *env) columns() []string {
	e.t.Helper()
	u := crd()
	e.Expect(e.Get(e.ctx, client.ObjectKey{Name: crdName}, u)).To(Succeed())
	versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
	e.Expect(err).NotTo(HaveOccurred())
	columns, _, err := unstructured.NestedSlice(versions[0].(map[string]any), "additionalPrinterColumns")
	e.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, column := range columns {
		names = append(names, column.(map[string]any)["name"].(string))
	}
	return names
}

// chartWithColumn returns a copy of the chart whose CRD has one more column.
func (e *env) chartWithColumn(name string) string {
	e.t.Helper()
	dir := filepath.Join(e.t.TempDir(), "united")
	e.Expect(os.CopyFS(dir, os.DirFS(e.chart("united")))).To(Succeed())
	file := filepath.Join(dir, "generated", "crds", crdName+".yaml")
	content, err := os.ReadFile(file)
	e.Expect(err).NotTo(HaveOccurred())
	before, after, found := strings.Cut(string(content), "  - additionalPrinterColumns:\n")
	e.Expect(found).To(BeTrue())
	content = []byte(before + "  - additionalPrinterColumns:\n    - {name: " + name + ", type: string, jsonPath: .metadata.name}\n" + after)
	e.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return dir
}

// left lists what the release has left behind, except for the CRD.
func (e *env) left() []string {
	e.t.Helper()
	var left []string
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&corev1.ServiceList{}, &corev1.ServiceAccountList{}, &appsv1.DeploymentList{}, &policyv1.PodDisruptionBudgetList{},
		&admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{},
		&admissionv1.MutatingAdmissionPolicyList{}, &admissionv1.MutatingAdmissionPolicyBindingList{},
	} {
		e.Expect(e.List(e.ctx, list, client.MatchingLabels{"app.kubernetes.io/instance": "united"})).To(Succeed())
		e.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			left = append(left, fmt.Sprintf("%T %s", o, o.(client.Object).GetName()))
			return nil
		})).To(Succeed())
	}
	return left
}

// checkRestricted checks that the pods of the chart exist in a namespace that admits only restricted
// pods.
func (e *env) checkRestricted(namespace string) {
	e.t.Helper()
	list := &corev1.PodList{}
	e.Expect(e.List(e.ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/component": "manager"})).To(Succeed())
	e.Expect(list.Items).To(HaveLen(2))
	privileged := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "privileged"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
		}}},
	}
	e.Expect(e.Create(e.ctx, privileged)).To(MatchError(ContainSubstring("PodSecurity \"restricted")), "positive control")
}

// checkMetrics requests the metrics without a token, with the token of an unrelated account, and with
// that of the reader that the release names.
func (e *env) checkMetrics(d *install.Deployed, namespace string) {
	e.t.Helper()
	status := func(token string) func() (int, error) {
		return func() (int, error) { return fetch(e.ctx, "https://"+d.Metrics+"/metrics", token) }
	}
	e.Eventually(status("")).Should(Equal(http.StatusUnauthorized))
	for name, code := range map[string]int{"somebody": http.StatusForbidden, "prometheus": http.StatusOK} {
		e.Expect(e.Create(e.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
		e.Eventually(status(e.token(namespace, name))).Should(Equal(code), name)
	}
}
