// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/install"
)

// MySQLClusters serves the kind MySQLCluster of MOCO, with a CustomResourceDefinition of the tests' own: its status has what
// the test writes into it. The manager may read it (checks.objects).
func (e *Env) MySQLClusters() {
	e.T.Helper()
	e.Serve("moco.cybozu.com", "v1beta2", "MySQLCluster")
}

// Serve serves a kind with a status that has what the test writes into it.
func (e *Env) Serve(group, version, kind string) {
	e.T.Helper()
	plural := strings.ToLower(kind) + "s"
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": open, "status": open},
				}},
			}},
		},
	}}
	if err := e.Client.Create(e.Ctx, crd); !apierrors.IsAlreadyExists(err) {
		e.Expect(err).NotTo(HaveOccurred())
	}
	e.Eventually(func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
		return e.List(e.Ctx, list, client.InNamespace(e.Namespace))
	}).Should(Succeed())
}

// Conditioned is an object with conditions that the test sets.
type Conditioned struct {
	*Env
	APIVersion, Kind, Name string
}

// MySQLCluster returns an object of that kind, which need not exist yet.
func (e *Env) MySQLCluster(name string) *Conditioned {
	return &Conditioned{e, "moco.cybozu.com/v1beta2", "MySQLCluster", name}
}

func (c *Conditioned) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(c.APIVersion)
	u.SetKind(c.Kind)
	u.SetNamespace(c.Namespace)
	u.SetName(c.Name)
	return u
}

// Create creates it, without a status.
func (c *Conditioned) Create() {
	c.T.Helper()
	c.Expect(c.Client.Create(c.Ctx, c.object())).To(Succeed())
}

// Delete deletes it.
func (c *Conditioned) Delete() {
	c.T.Helper()
	c.Expect(c.Client.Delete(c.Ctx, c.object())).To(Succeed())
}

// Set sets its condition Healthy, as its controller does when it has observed its spec.
func (c *Conditioned) Set(status metav1.ConditionStatus, reason string) {
	c.T.Helper()
	c.Expect(c.TrySet(status, reason)).To(Succeed())
}

// TrySet is Set for an object that may be gone.
func (c *Conditioned) TrySet(status metav1.ConditionStatus, reason string) error {
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Healthy","status":%q,"reason":%q,"message":"","lastTransitionTime":%q}]}}`,
		status, reason, time.Now().UTC().Format(time.RFC3339))
	return c.Client.Status().Patch(c.Ctx, c.object(), client.RawPatch(types.MergePatchType, patch))
}

// Patch changes it, or its status.
func (c *Conditioned) Patch(patch string, subresource ...string) {
	c.T.Helper()
	raw := client.RawPatch(types.MergePatchType, []byte(patch))
	if len(subresource) > 0 {
		c.Expect(c.Client.SubResource(subresource[0]).Patch(c.Ctx, c.object(), raw)).To(Succeed())
		return
	}
	c.Expect(c.Client.Patch(c.Ctx, c.object(), raw)).To(Succeed())
}

// Check returns a check on the condition Healthy of it, as YAML.
func (c *Conditioned) Check(name string) string {
	return fmt.Sprintf(`{name: %s, objectCondition: {apiVersion: %s, kind: %s, name: %s, type: Healthy}}`, name, c.APIVersion, c.Kind, c.Name)
}

// MayRead gives the manager a permission in the namespace of the test, as the value checks.objects does everywhere. Checks may name the
// resources because the manager of the tests is told so.
func (e *Env) MayRead(group string, resources ...string) {
	e.T.Helper()
	meta := metav1.ObjectMeta{Namespace: e.Namespace, Name: "united-checks"}
	e.Expect(e.Client.Create(e.Ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list", "watch"}},
	}})).To(Succeed())
	e.Expect(e.Client.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: install.Namespace, Name: install.ServiceAccount}},
	})).To(Succeed())
}

// AwaitCheck waits until a check has a result, with all the words in its message.
func (w *Workload) AwaitCheck(name string, state v1alpha1.CheckState, words ...string) v1alpha1.CheckStatus {
	w.T.Helper()
	var found v1alpha1.CheckStatus
	w.Eventually(func(g Gomega) {
		found = v1alpha1.CheckStatus{}
		for _, c := range w.Rollout().Checks {
			if c.Name == name {
				found = c
			}
		}
		g.Expect(found.State).To(Equal(state), "%+v", found)
		for _, word := range words {
			g.Expect(found.Message).To(ContainSubstring(word))
		}
	}).Should(Succeed())
	return found
}

// AwaitEvent waits for an event about the UnitedDeployment, with all the words in its note.
func (w *Workload) AwaitEvent(kind, reason string, words ...string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		events := w.EventsOf(g, reason)
		g.Expect(events).NotTo(BeEmpty())
		last := events[len(events)-1]
		g.Expect(last.Type).To(Equal(kind))
		for _, word := range words {
			g.Expect(last.Note).To(ContainSubstring(word))
		}
	}).Should(Succeed())
}
