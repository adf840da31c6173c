// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/install"
)

// TestLifecycle installs, upgrades, rolls back, uninstalls, installs again and removes the chart. It
// needs the CRD exclusively, so it runs before the parallel tests.
func TestLifecycle(t *testing.T) {
	e := NewEnv(t)
	const namespace, work = install.Namespace, "lifecycle"
	release := func(verb, chart string, args ...string) []string {
		return append([]string{verb, "united", chart, "--namespace=" + namespace, "--wait", "--timeout=3m",
			"--set=leaderElection.leaseDuration=15s,leaderElection.renewDeadline=13s,leaderElection.retryPeriod=500ms",
			"--set=metrics.readers[0].name=prometheus,metrics.readers[0].namespace=" + work}, args...)
	}
	e.Namespace(namespace, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	e.Namespace(work, nil)

	var manager *install.Manager
	var deployed *install.Deployed
	var before map[string]PodState
	unmoved := func() {
		e.T.Helper()
		e.Expect(Moved(before, e.Pods(work, WebName))).To(BeEmpty(), "pods of a UnitedDeployment that moved")
	}

	e.Step("install", func() {
		e.Helm(release("install", e.Chart("united"))...)
		manager, deployed = e.Start(namespace, "united-manager", "united-1")
		checkRestricted(e, namespace)
		_, err := install.Helm(e.Ctx, Shared.Cluster, "install", "second", e.Chart("united"), "--namespace="+work, "--set="+RestIsInstalled+",rbac.aggregate=false")
		e.Expect(err).To(MatchError(ContainSubstring("watchNamespaces: another release of United, the Deployment united-manager in namespace " + namespace +
			", watches all namespaces already; only one controller may watch a namespace")))
		e.Eventually(func() (int, error) { return Fetch(e.Ctx, "http://"+deployed.Probes+"/readyz", "") }).Should(Equal(http.StatusOK))
		e.Eventually(func() (int, error) { return Fetch(e.Ctx, "http://"+deployed.Probes+"/healthz", "") }).Should(Equal(http.StatusOK))
	})
	e.Step("it reconciles", func() {
		e.Expect(e.Create(e.Ctx, NewParent(work, WebName, "v1", 4))).To(Succeed())
		e.Settle(work, WebName, 4)
		before = e.Pods(work, WebName)
		e.Expect(before).To(HaveLen(4))
	})
	e.Step("the policy refuses a mistake inside of a template", func() {
		e.Eventually(func() error {
			return Patch(e.Ctx, work, WebName, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"replicas":3}}}}}`)
		}).Should(MatchError(apierrors.IsInvalid, "the policy of the chart"))
	})
	e.Step("metrics are for who may read them", func() { checkMetrics(e, deployed, work) })
	e.Step("a second replica stands by and takes over", func() {
		second, err := install.FromChart(e.Ctx, Shared.Cluster, namespace, "united-manager")
		e.Expect(err).NotTo(HaveOccurred())
		standby, err := second.Launch(e.Ctx, Shared.Cluster, "united-2")
		e.Expect(err).NotTo(HaveOccurred())
		e.CleanUp(standby)
		e.Eventually(func() (int, error) { return Fetch(e.Ctx, "http://"+second.Probes+"/readyz", "") }).Should(Equal(http.StatusOK))
		e.Expect(manager.Leads()).To(BeTrue())
		e.Expect(standby.Leads()).To(BeFalse())
		e.Expect(manager.Kill()).To(Succeed())
		e.Eventually(standby.Leads).Should(BeTrue())
		e.Expect(Patch(e.Ctx, work, WebName, `{"spec":{"replicas":6}}`)).To(Succeed())
		e.Settle(work, WebName, 6)
		before = e.Pods(work, WebName)
		manager = standby
	})
	e.Step("upgrade, with a newer CRD", func() {
		e.Helm(release("upgrade", chartWithColumn(e, "Newest"), "--set=workers=3,image.tag=v0.2.0")...)
		e.Expect(columns(e)).To(ContainElement("Newest"))
		d := &appsv1.Deployment{}
		e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: namespace, Name: "united-manager"}, d)).To(Succeed())
		e.Expect(d.Spec.Template.Spec.Containers[0].Args).To(ContainElement("--workers=3"))
		unmoved()
	})
	e.Step("roll back", func() {
		e.Helm("rollback", "united", "1", "--namespace="+namespace, "--wait")
		e.Expect(columns(e)).To(And(Not(BeEmpty()), Not(ContainElement("Newest"))))
		unmoved()
	})
	e.Step("uninstall: the CRD stays, and so does what it holds", func() {
		e.Expect(manager.Stop()).To(Succeed())
		e.Helm("uninstall", "united", "--namespace="+namespace, "--wait")
		e.Expect(left(e)).To(BeEmpty())
		e.Expect(columns(e)).NotTo(BeEmpty())
		e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: work, Name: WebName}, &v1alpha1.UnitedDeployment{})).To(Succeed())
		unmoved()
	})
	e.Step("install again: it takes over what it finds", func() {
		e.Helm(release("install", e.Chart("united"), "--set=crds.keep=false")...)
		manager, _ = e.Start(namespace, "united-manager", "united-again")
		e.Expect(SetImage(e.Ctx, work, WebName, "v2")).To(Succeed())
		e.Settle(work, WebName, 6)
		unmoved()
		e.Expect(Patch(e.Ctx, work, WebName, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":2}}}}}`)).To(Succeed())
		e.Settle(work, WebName, 6)
		e.Expect(Moved(before, e.Pods(work, WebName))).To(Equal([]string{"web-zone-b-2"}))
	})
	cache := e.T.TempDir() // what it keeps of the API server has the kind
	e.Step("the plugin", func() {
		said, err := Shared.Cluster.Plugin(e.Ctx, work, cache, "status", WebName)
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(said.Code).To(BeZero(), said.Err)
	})
	e.Step("uninstall without crds.keep: nothing stays", func() {
		waitUntilCollected(e, work)
		e.Helm("uninstall", "united", "--namespace="+namespace)
		e.Eventually(func() error {
			return e.Get(e.Ctx, client.ObjectKey{Name: CRDName}, CRD())
		}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		e.Eventually(func() map[string]PodState { return e.Pods(work, WebName) }).Should(BeEmpty())
		e.Expect(manager.Kill()).To(Succeed()) // without its rights it cannot even shut down gracefully
		e.Expect(left(e)).To(BeEmpty())
	})
	e.Step("the plugin says that United is not installed", func() {
		for _, verb := range [][]string{{"status"}, {"status", WebName}, {"wait", WebName}, {"why", WebName}, {"pause", WebName}, {"history", WebName}} {
			said, err := Shared.Cluster.Plugin(e.Ctx, work, cache, verb...)
			e.Expect(err).NotTo(HaveOccurred())
			code := 1
			if verb[0] == "wait" {
				code = 4 // 1 is a rollout that failed
			}
			e.Expect(said.Code).To(Equal(code), "%v", verb)
			e.Expect(said.Err).To(Equal("error: this cluster has no CustomResourceDefinition uniteddeployments.apps.united.dev: United is not installed\n"), "%v", verb)
		}
		said, err := Shared.Cluster.Plugin(e.Ctx, work, cache, "version")
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(said.Out).To(ContainSubstring("Fit:     no: this cluster has no CustomResourceDefinition"), said.Err)
	})
}

// waitUntilCollected waits until the garbage collector watches UnitedDeployments. The collector looks
// for new kinds only every 30 seconds. If it has not seen a deletion because the CRD was deleted
// together with the objects, it never collects their dependents.
func waitUntilCollected(e *Env, namespace string) {
	e.T.Helper()
	probe := NewParent(namespace, "probe", "v1", 0)
	e.Expect(e.Create(e.Ctx, probe)).To(Succeed())
	// Only a collector that watches the kind can remove the finalizer that this sets.
	e.Expect(e.Delete(e.Ctx, probe, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	e.Eventually(func() error {
		return e.Get(e.Ctx, client.ObjectKeyFromObject(probe), probe)
	}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
}

// columns returns the printer columns of the CRD.
func columns(e *Env) []string {
	e.T.Helper()
	u := CRD()
	e.Expect(e.Get(e.Ctx, client.ObjectKey{Name: CRDName}, u)).To(Succeed())
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
func chartWithColumn(e *Env, name string) string {
	e.T.Helper()
	dir := filepath.Join(e.T.TempDir(), "united")
	e.Expect(os.CopyFS(dir, os.DirFS(e.Chart("united")))).To(Succeed())
	file := filepath.Join(dir, "generated", "crds", CRDName+".yaml")
	content, err := os.ReadFile(file)
	e.Expect(err).NotTo(HaveOccurred())
	before, after, found := strings.Cut(string(content), "  - additionalPrinterColumns:\n")
	e.Expect(found).To(BeTrue())
	content = []byte(before + "  - additionalPrinterColumns:\n    - {name: " + name + ", type: string, jsonPath: .metadata.name}\n" + after)
	e.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return dir
}

// left lists what the release has left behind, except for the CRD.
func left(e *Env) []string {
	e.T.Helper()
	var left []string
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&corev1.ServiceList{}, &corev1.ServiceAccountList{}, &appsv1.DeploymentList{}, &policyv1.PodDisruptionBudgetList{},
		&admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{},
		&admissionv1.MutatingAdmissionPolicyList{}, &admissionv1.MutatingAdmissionPolicyBindingList{},
	} {
		e.Expect(e.List(e.Ctx, list, client.MatchingLabels{"app.kubernetes.io/instance": "united"})).To(Succeed())
		e.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			left = append(left, fmt.Sprintf("%T %s", o, o.(client.Object).GetName()))
			return nil
		})).To(Succeed())
	}
	return left
}

// checkRestricted checks that the pods of the chart exist in a namespace that admits only restricted
// pods.
func checkRestricted(e *Env, namespace string) {
	e.T.Helper()
	list := &corev1.PodList{}
	e.Expect(e.List(e.Ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/component": "manager"})).To(Succeed())
	e.Expect(list.Items).To(HaveLen(2))
	privileged := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "privileged"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)},
		}}},
	}
	e.Expect(e.Create(e.Ctx, privileged)).To(MatchError(ContainSubstring("PodSecurity \"restricted")), "positive control")
}

// checkMetrics requests the metrics without a token, with the token of an unrelated account, and with
// that of the reader that the release names.
func checkMetrics(e *Env, d *install.Deployed, namespace string) {
	e.T.Helper()
	status := func(token string) func() (int, error) {
		return func() (int, error) { return Fetch(e.Ctx, "https://"+d.Metrics+"/metrics", token) }
	}
	e.Eventually(status("")).Should(Equal(http.StatusUnauthorized))
	for name, code := range map[string]int{"somebody": http.StatusForbidden, "prometheus": http.StatusOK} {
		e.Expect(e.Create(e.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})).To(Succeed())
		e.Eventually(status(e.Token(namespace, name))).Should(Equal(code), name)
	}
}
