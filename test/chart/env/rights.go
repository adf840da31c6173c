// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// RightsPrefix is the prefix of the namespaces of these tests.
const RightsPrefix = "rights-"

// ClassicInformers disables informers that read with a watch alone. API servers before 1.34 do not
// support that, and informers then list.
const ClassicInformers = "KUBE_FEATURE_WatchListClient=false"

// StartAudit follows the audit log until the test ends.
func StartAudit(t *testing.T) *auditTail {
	t.Helper()
	audit := &auditTail{byUser: map[string][]cluster.Event{}}
	following, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	go audit.follow(following, Shared.Cluster)
	return audit
}

// Unused returns the rights that the manager has not used. It checks that nothing was refused.
func (s *scenario) Unused(all []right) []right {
	s.T.Helper()
	events, err := s.audit.wholly(s.Ctx, Shared.Cluster, s.Namespace, install.ServiceAccount)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(Refusals(events)).To(BeEmpty(), "with all rights nothing is refused")
	return slices.DeleteFunc(slices.Clone(all), func(r right) bool {
		return r.Resource == "uniteddeployments/finalizers" || slices.ContainsFunc(events, r.usedBy)
	})
}

func Refusals(events []cluster.Event) []cluster.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e cluster.Event) bool { return e.Code != http.StatusForbidden })
}

// Render returns the objects of the chart that concern rights, for a manager that works in its own
// namespace.
func (e *Env) Render(namespace string) []*unstructured.Unstructured {
	e.T.Helper()
	out := e.Helm("template", "united", e.Chart("united"), "--namespace="+namespace,
		"--set="+RestIsInstalled+",rbac.aggregate=false,watchNamespaces={"+namespace+"}",
		"--set=metrics.readers[0].name=reader,metrics.readers[0].namespace="+namespace)
	var objects []*unstructured.Unstructured
	for _, object := range e.Decode([]byte(out)) {
		if object.GroupVersionKind().Group != rbacv1.GroupName && object.GetKind() != "ServiceAccount" && object.GetKind() != "Deployment" {
			continue
		}
		if object.GetNamespace() == "" {
			// Each namespace here gets its own copy of a cluster-scoped object, and references to that
			// copy.
			object.SetName(namespace + "-" + object.GetName())
			if name, found, _ := unstructured.NestedString(object.Object, "roleRef", "name"); found {
				e.Expect(unstructured.SetNestedField(object.Object, namespace+"-"+name, "roleRef", "name")).To(Succeed())
			}
		}
		objects = append(objects, object)
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetKind()+a.GetName(), b.GetKind()+b.GetName())
	})
	return objects
}

// LeaveChildren puts the policy of authorization.children in force in a namespace, for all but its manager, the controllers, and
// these tests.
func (e *Env) LeaveChildren(namespace string) {
	e.T.Helper()
	out := e.Helm("template", namespace, e.Chart("united"), "--namespace="+namespace, "--show-only=templates/authorization-children.yaml",
		"--set=authorization.children=true,authorization.writers={admin,kruise-manager,lws-manager},watchNamespaces={"+namespace+"}",
		"--set=serviceAccount.name="+install.ServiceAccount)
	for _, object := range e.Decode([]byte(out)) {
		e.T.Cleanup(func() { _ = e.Delete(context.WithoutCancel(e.Ctx), object) })
		e.Expect(e.Create(e.Ctx, object)).To(Succeed())
	}
	config := rest.CopyConfig(Shared.Cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: "another-administrator", Groups: []string{"system:masters"}}
	another, err := kubernetes.NewForConfig(config)
	e.Expect(err).NotTo(HaveOccurred())
	labels := map[string]string{v1alpha1.LabelSubset: "a"}
	child := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "parent", UID: "none", Controller: ptr.To(true),
		}}},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}},
	}
	e.Eventually(func() error {
		_, err := another.AppsV1().StatefulSets(namespace).Create(e.Ctx, child, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(MatchError(ContainSubstring("only United and the controllers of Kubernetes may create child")))
}

// rulesOf returns the rules of a role; nil for any other object.
func rulesOf(object *unstructured.Unstructured) []rbacv1.PolicyRule {
	role := &rbacv1.ClusterRole{}
	isRole := slices.Contains([]string{"Role", "ClusterRole"}, object.GetKind()) && !strings.HasSuffix(object.GetName(), "-metrics-reader")
	if !isRole || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role) != nil {
		return nil
	}
	return role.Rules
}

// RightsOf lists the rights that roles give, one by one.
func RightsOf(objects []*unstructured.Unstructured) []right {
	var all []right
	for _, object := range objects {
		_, role, _ := strings.Cut(object.GetName(), "united-")
		for _, rule := range rulesOf(object) {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, right{role: role, Verb: verb, Group: rule.APIGroups[0], Resource: resource})
				}
			}
		}
	}
	return all
}

// without removes a right from the roles.
func without(objects []*unstructured.Unstructured, r right) error {
	for _, object := range objects {
		_, role, _ := strings.Cut(object.GetName(), "united-")
		rules := rulesOf(object)
		if rules == nil || role != r.role {
			continue
		}
		var reduced []any
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				one := rule.DeepCopy()
				one.Resources = []string{resource}
				if rule.APIGroups[0] == r.Group && resource == r.Resource {
					one.Verbs = slices.DeleteFunc(one.Verbs, func(verb string) bool { return verb == r.Verb })
				}
				if len(one.Verbs) == 0 {
					continue
				}
				u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(one)
				if err != nil {
					return err
				}
				reduced = append(reduced, u)
			}
		}
		object.Object["rules"] = reduced
		return nil
	}
	return fmt.Errorf("no role %s", r.role)
}
