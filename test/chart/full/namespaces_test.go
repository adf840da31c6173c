// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"net/http"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/cluster"
)

// TestWatchNamespaces runs a manager that may work in one namespace, next to a namespace that it
// ignores until an upgrade adds it.
func TestWatchNamespaces(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.NeedCRD()
	const home, inside, outside = "namespaced", "namespaced-in", "namespaced-out"
	for _, name := range []string{home, inside, outside} {
		e.Namespace(name, nil)
	}
	release := func(verb, namespaces string) []string {
		return []string{verb, "namespaced", e.Chart("united"), "--namespace=" + home, "--wait",
			"--set=" + RestIsInstalled + ",rbac.aggregate=false,fullnameOverride=namespaced,replicas=1,watchNamespaces=" + namespaces}
	}
	e.Helm(release("install", "{"+inside+"}")...)
	manager, _ := e.Start(home, "namespaced-manager", "namespaced-1")
	e.Expect(e.Create(e.Ctx, NewParent(outside, WebName, "v1", 2))).To(Succeed())
	e.Expect(e.Create(e.Ctx, NewParent(inside, WebName, "v1", 2))).To(Succeed())

	e.Step("it works in its namespace", func() {
		e.Settle(inside, WebName, 2)
		e.Expect(may(e, "namespaced-manager", home, inside, "delete", "", "pods")).To(BeTrue())
	})
	e.Step("and touches nothing outside", func() {
		e.Expect(requests(e, "namespaced-manager", home, outside)).To(BeEmpty())
		d := &v1alpha1.UnitedDeployment{}
		e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: outside, Name: WebName}, d)).To(Succeed())
		e.Expect(d.Status.ObservedGeneration).To(BeEquivalentTo(-1), "nobody has looked at it")
		children := &appsv1.StatefulSetList{}
		e.Expect(e.List(e.Ctx, children, client.InNamespace(outside))).To(Succeed())
		e.Expect(children.Items).To(BeEmpty())
	})
	e.Step("nor could it", func() {
		for _, right := range [][3]string{
			{"list", "", "pods"}, {"delete", "", "pods"}, {"list", "apps", "statefulsets"}, {"patch", "apps", "statefulsets"},
			{"list", "apps.united.dev", "uniteddeployments"}, {"get", "", "secrets"},
		} {
			for _, namespace := range []string{outside, home, metav1.NamespaceAll} {
				e.Expect(may(e, "namespaced-manager", home, namespace, right[0], right[1], right[2])).To(BeFalse(), "%v in %q", right, namespace)
			}
		}
		e.Expect(clusterWide(e)).To(ConsistOf("tokenreviews", "subjectaccessreviews"))
	})
	e.Step("positive control: with both namespaces it does", func() {
		e.Expect(manager.Stop()).To(Succeed())
		e.Helm(release("upgrade", "{"+inside+","+outside+"}")...)
		manager, _ = e.Start(home, "namespaced-manager", "namespaced-2")
		e.Settle(outside, WebName, 2)
		e.Expect(requests(e, "namespaced-manager", home, outside)).NotTo(BeEmpty())
		e.Expect(may(e, "namespaced-manager", home, outside, "delete", "", "pods")).To(BeTrue())
	})
	e.Step("without metrics nothing is left for the cluster", func() {
		e.Helm(append(release("upgrade", "{"+inside+"}"), "--set=metrics.enabled=false")...)
		e.Expect(clusterWide(e)).To(BeEmpty())
		e.Expect(may(e, "namespaced-manager", home, outside, "delete", "", "pods")).To(BeFalse())
	})
}

// requests returns the API requests of a ServiceAccount that name a namespace, or that cover all
// namespaces at once.
func requests(e *Env, account, home, namespace string) []cluster.Event {
	e.T.Helper()
	mine := cluster.ByServiceAccount(home, account)
	requests, _, err := Shared.Cluster.Requests(e.Ctx, 0, func(event cluster.Event) bool {
		everywhere := event.Namespace == "" && slices.Contains([]string{"get", "list", "watch"}, event.Verb) && event.Resource != ""
		return mine(event) && (event.Namespace == namespace || everywhere) && event.Code != http.StatusNotFound
	})
	e.Expect(err).NotTo(HaveOccurred())
	return requests
}

// may asks the API server whether a ServiceAccount may do something; the namespace "" means everywhere.
func may(e *Env, account, home, namespace, verb, group, resource string) bool {
	e.T.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + home + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: group, Resource: resource,
		},
	}}
	e.Expect(e.Create(e.Ctx, review)).To(Succeed())
	return review.Status.Allowed
}

// clusterWide returns the resources on which the release grants its manager rights in the whole
// cluster.
func clusterWide(e *Env) []string {
	e.T.Helper()
	bindings := &rbacv1.ClusterRoleBindingList{}
	e.Expect(e.List(e.Ctx, bindings, client.MatchingLabels{"app.kubernetes.io/instance": "namespaced"})).To(Succeed())
	var resources []string
	for _, binding := range bindings.Items {
		role := &rbacv1.ClusterRole{}
		e.Expect(e.Get(e.Ctx, client.ObjectKey{Name: binding.RoleRef.Name}, role)).To(Succeed())
		for _, rule := range role.Rules {
			resources = append(resources, rule.Resources...)
		}
	}
	return resources
}
