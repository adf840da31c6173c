// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/gitops"
)

// actor runs the actions of Argo CD with a ServiceAccount that may only get and patch UnitedDeployments.
type actor struct {
	*Env
	argo    *gitops.ArgoCD
	objects dynamic.ResourceInterface
	rest    *rest.Config
}

func newActor(e *Env) *actor {
	e.T.Helper()
	argo, err := gitops.LoadArgoCD(filepath.Join("..", "..", ".."))
	e.Expect(err).NotTo(HaveOccurred())
	named := metav1.ObjectMeta{Namespace: e.Namespace, Name: "argocd"}
	e.Expect(e.Client.Create(e.Ctx, &corev1.ServiceAccount{ObjectMeta: named})).To(Succeed())
	e.Expect(e.Client.Create(e.Ctx, &rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"uniteddeployments"}, Verbs: []string{"get", "patch"}},
	}})).To(Succeed())
	e.Expect(e.Client.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.Namespace, Name: named.Name}},
	})).To(Succeed())
	admin, err := kubernetes.NewForConfig(e.Cluster.Config())
	e.Expect(err).NotTo(HaveOccurred())
	token, err := admin.CoreV1().ServiceAccounts(e.Namespace).CreateToken(e.Ctx, named.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	e.Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(e.Cluster.Config())
	config.BearerToken = token.Status.Token
	client, err := dynamic.NewForConfig(config)
	e.Expect(err).NotTo(HaveOccurred())
	a := &actor{Env: e, argo: argo, rest: config,
		objects: client.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(e.Namespace)}
	e.Eventually(func() error {
		_, err := a.objects.Get(e.Ctx, "none", metav1.GetOptions{})
		return err
	}).Should(MatchError(ContainSubstring("not found")), "the role is in force")
	return a
}

// run runs an action on a UnitedDeployment that offers it under this name.
func (a *actor) run(w *Workload, action, label string) {
	a.T.Helper()
	object, err := a.objects.Get(a.Ctx, w.Name, metav1.GetOptions{})
	a.Expect(err).NotTo(HaveOccurred())
	actions, err := a.argo.Actions(object.Object)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(actions[action].Disabled).To(BeFalse(), action)
	a.Expect(actions[action].DisplayName).To(Equal(label))
	patch, err := a.argo.Patch(action, object.Object)
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(patch).NotTo(MatchJSON(`{}`))
	_, err = a.objects.Patch(a.Ctx, w.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	a.Expect(err).NotTo(HaveOccurred(), "%s", patch)
	w.Disturbed() // an annotation does not change the generation
}

// may asks the API server what the actor may do.
func (a *actor) may(verb, group, resource, subresource string) bool {
	a.T.Helper()
	client, err := kubernetes.NewForConfig(a.rest)
	a.Expect(err).NotTo(HaveOccurred())
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: a.Namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
		},
	}}
	answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(a.Ctx, review, metav1.CreateOptions{})
	a.Expect(err).NotTo(HaveOccurred())
	return answer.Status.Allowed
}

// TestGitOpsActions releases a workload with the actions of Argo CD, and checks the pods.
func TestGitOpsActions(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	a := newActor(e)
	group := v1alpha1.GroupVersion.Group
	e.Expect(a.may("patch", group, "uniteddeployments", "")).To(BeTrue())
	for _, verb := range []string{"create", "update", "delete", "list", "watch"} {
		e.Expect(a.may(verb, group, "uniteddeployments", "")).To(BeFalse(), verb)
	}
	e.Expect(a.may("patch", group, "uniteddeployments", "status")).To(BeFalse())
	e.Expect(a.may("patch", "apps", "statefulsets", "")).To(BeFalse())
	e.Expect(a.may("delete", "", "pods", "")).To(BeFalse())

	e.Step("by hand: release one zone after the other, and hold them again", func() {
		w := e.Create(NewDraft("web", Replicas(6), Zones("", "", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutHeld)
		a.run(w, "release", "Release zone-a")
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
		a.run(w, "release", "Release zone-b")
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2", "zone-c": "v1 v1"}))
		a.run(w, "hold", "Hold all subsets")
		w.SetImage("v3")
		w.IsReady(v1alpha1.ReasonRolloutHeld)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2", "zone-c": "v1 v1"}))
	})
	e.Step("coordinated: pause, resume, approve, restart", func() {
		w := e.Create(NewDraft("shop", Replicas(4), Zones("", ""), Rolling(`{maxUnavailable: 2, steps: [{subsets: [zone-a], partition: "0%", pause: {}}]}`)))
		w.Settle()
		a.run(w, "pause", "Pause")
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonPaused)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))
		a.run(w, "resume", "Resume")
		w.AwaitApproval(0)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1"}))
		a.run(w, "approve", "Approve the step")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2"}))

		before := w.Pods()
		still := e.History.Forbid(Remade(before))
		a.run(w, "restart", "Restart")
		w.AwaitApproval(0) // a restart is a rollout
		a.run(w, "approve", "Approve the step")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		still.Fires()
		for i, p := range w.Pods() {
			e.Expect(p.Image).To(Equal("v2"))
			e.Expect(p.UID).NotTo(Equal(before[i].UID), p.Name)
		}
	})
}
