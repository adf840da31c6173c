// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// childrenNamespace is the only one in which the policy is in force.
const childrenNamespace = "children"

// family is a parent with the children that a test made for it in the place of the manager.
type family struct {
	*testing.T
	*WithT
	ctx context.Context
	// The manager, a user who may do everything in the namespace, and the administrator of the cluster.
	manager, user, admin kubernetes.Interface
}

func newFamily(t *testing.T) *family {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	f := &family{T: t, WithT: g, ctx: ctx}
	client := func(user string) kubernetes.Interface {
		config := rest.CopyConfig(fixture.cluster.Config())
		if user != "" {
			config.Impersonate = rest.ImpersonationConfig{UserName: user}
		}
		client, err := kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		return client
	}
	const manager, user = "system:serviceaccount:default:united-manager", "children-user"
	f.manager, f.user, f.admin = client(manager), client(user), client("")
	_, err := f.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: childrenNamespace}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{manager, user} {
		_, err := f.admin.RbacV1().RoleBindings(childrenNamespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "all-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	installOfChart(t, "authorization-children.yaml", "Deny", "", "--set=authorization.children=true,watchNamespaces={"+childrenNamespace+"}")
	return f
}

// parent creates one, without a manager.
func (f *family) parent(name string, edits ...edit) metav1.OwnerReference {
	f.Helper()
	object := with(f.T, name, edits...)
	object.SetNamespace(childrenNamespace)
	made, err := fixture.client.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(childrenNamespace).Create(f.ctx, object, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	return *metav1.NewControllerRef(made, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
}

func podsOf(parent, subset string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": "web", v1alpha1.LabelName: parent, v1alpha1.LabelSubset: subset}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:v1"}}},
	}
}

func statefulSet(name, parent, subset string, owners ...metav1.OwnerReference) *appsv1.StatefulSet {
	selector, template := podsOf(parent, subset)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: selector.MatchLabels, OwnerReferences: owners},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Selector: selector, Template: template, PodManagementPolicy: appsv1.ParallelPodManagement},
	}
}

func (f *family) made(set *appsv1.StatefulSet) {
	f.Helper()
	_, err := f.manager.AppsV1().StatefulSets(childrenNamespace).Create(f.ctx, set, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
}

// patches sends a merge patch to a StatefulSet.
func (f *family) patches(who kubernetes.Interface, name, body string, to ...string) error {
	_, err := who.AppsV1().StatefulSets(childrenNamespace).Patch(f.ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, to...)
	return err
}

// tries is patches with other replicas, in a dry run.
func (f *family) tries(name string, to ...string) error {
	_, err := f.user.AppsV1().StatefulSets(childrenNamespace).Patch(f.ctx, name, types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{DryRun: dryRun}, to...)
	return err
}

// cannotScale waits until the policy has seen the parent.
func (f *family) cannotScale(name, owner string) {
	f.Helper()
	f.Eventually(func() error { return f.tries(name, "scale") }).WithTimeout(startTimeout).Should(refused("change spec.replicas of", name, owner))
}

func refused(what, name, owner string) OmegaMatcher {
	return MatchError(ContainSubstring(fmt.Sprintf("only United and the controllers of Kubernetes may %s %s, which belongs to %s: change the UnitedDeployment", what, name, owner)))
}

// TestChildren checks who may write child workloads with authorization.children: not somebody who may do everything in the
// namespace; the manager, and the real controllers, which bring pods up and collect what an owner left, may.
func TestChildren(t *testing.T) {
	f := newFamily(t)
	owner := f.parent("web")
	f.made(statefulSet("web-zone-a", "web", "zone-a", owner))
	sets := f.user.AppsV1().StatefulSets(childrenNamespace)
	f.cannotScale("web-zone-a", "UnitedDeployment web")
	f.Eventually(func() error { return f.tries("web-zone-a") }).WithTimeout(startTimeout).Should(refused("change spec of", "web-zone-a", "UnitedDeployment web"))

	for body, what := range map[string]string{
		`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}},"template":{"metadata":{"labels":{"a":"b"}}}}}`: "change spec of",
		`{"metadata":{"ownerReferences":null}}`:             "change metadata.ownerReferences of",
		`{"metadata":{"finalizers":["example.com/mine"]}}`:  "change metadata.finalizers of",
		`{"metadata":{"annotations":{"united.dev/a":"b"}}}`: "change metadata.annotations of",
		`{"metadata":{"labels":null}}`:                      "change metadata.labels of",
	} {
		f.Expect(f.patches(f.user, "web-zone-a", body)).To(refused(what, "web-zone-a", "UnitedDeployment web"))
		f.Expect(f.patches(f.admin, "web-zone-a", body)).To(refused(what, "web-zone-a", "UnitedDeployment web"), "not an administrator either")
	}
	f.Expect(f.patches(f.user, "web-zone-a", `{"metadata":{"labels":{"app":"web"}}}`)).To(Succeed(), "which changes nothing")
	f.Expect(f.patches(f.user, "web-zone-a", `{"spec":{"replicas":1}}`, "scale")).To(Succeed())
	f.Expect(f.patches(f.user, "web-zone-a", `{"status":{"currentRevision":"x"}}`, "status")).To(refused("change status of", "web-zone-a", "UnitedDeployment web"))
	f.Expect(sets.Delete(f.ctx, "web-zone-a", metav1.DeleteOptions{})).To(refused("delete", "web-zone-a", "UnitedDeployment web"))
	f.Expect(sets.DeleteCollection(f.ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(refused("delete", "web-zone-a", "UnitedDeployment web"))
	_, err := sets.Create(f.ctx, statefulSet("mine", "web", "zone-a", owner), metav1.CreateOptions{})
	f.Expect(err).To(refused("create", "mine", "UnitedDeployment web"))

	apply := []byte(`{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"replicas":2}}`)
	plan := metav1.PatchOptions{DryRun: dryRun, FieldManager: v1alpha1.FieldManager, Force: ptr.To(true)}
	_, err = sets.Patch(f.ctx, "web-zone-a", types.ApplyPatchType, apply, plan)
	f.Expect(err).NotTo(HaveOccurred(), "kubectl united plan")
	plan.DryRun = nil
	_, err = sets.Patch(f.ctx, "web-zone-a", types.ApplyPatchType, apply, plan)
	f.Expect(err).To(refused("change spec of", "web-zone-a", "UnitedDeployment web"))

	f.Run("the Jobs of checks", func(t *testing.T) { f.jobs(t, owner) })
	f.Run("what controllers make of it", func(t *testing.T) { f.madeOfIt(t, owner) })
	f.Run("what is nobody's child", f.strangers)
	f.Run("groups", f.groups)
	f.Run("many parents", f.many)
	f.Run("the controllers", f.controllers)
}

// jobs: a check is met when its Job has succeeded, so nobody may put another one in its place.
func (f *family) jobs(t *testing.T, owner metav1.OwnerReference) {
	g, jobs := NewWithT(t), f.user.BatchV1().Jobs(childrenNamespace)
	job := func(name string, owners ...metav1.OwnerReference) *batchv1.Job {
		pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "smoke", Image: "example.com/smoke:v1"}}}
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	}
	_, err := f.manager.BatchV1().Jobs(childrenNamespace).Create(f.ctx, job("smoke", owner), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(jobs.Delete(f.ctx, "smoke", metav1.DeleteOptions{})).To(refused("delete", "smoke", "UnitedDeployment web"))
	_, err = jobs.Create(f.ctx, job("forged", owner), metav1.CreateOptions{})
	g.Expect(err).To(refused("create", "forged", "UnitedDeployment web"))
	g.Eventually(func(g Gomega) { // its controller works
		made, err := jobs.Get(f.ctx, "smoke", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(made.Status.StartTime).NotTo(BeNil())
	}).WithTimeout(startTimeout).Should(Succeed())
	_, err = jobs.Patch(f.ctx, "smoke", types.MergePatchType, []byte(`{"status":{"succeeded":1}}`), metav1.PatchOptions{}, "status")
	g.Expect(err).To(refused("change status of", "smoke", "UnitedDeployment web"))
	_, err = jobs.Create(f.ctx, job("mine"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

// madeOfIt: the controllers of Kubernetes work, and nobody else changes what they made.
func (f *family) madeOfIt(t *testing.T, owner metav1.OwnerReference) {
	g, apps := NewWithT(t), f.user.AppsV1()
	var revision string
	g.Eventually(func(g Gomega) {
		set, err := apps.StatefulSets(childrenNamespace).Get(f.ctx, "web-zone-a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(set.Status.ReadyReplicas).To(Equal(int32(1)))
		revision = set.Status.CurrentRevision
	}).WithTimeout(startTimeout).Should(Succeed())
	_, err := apps.ControllerRevisions(childrenNamespace).Patch(f.ctx, revision, types.MergePatchType, []byte(`{"revision":9}`), metav1.PatchOptions{})
	g.Expect(err).To(refused("change revision of", revision, "StatefulSet web-zone-a"))
	g.Expect(apps.ControllerRevisions(childrenNamespace).Delete(f.ctx, revision, metav1.DeleteOptions{})).To(refused("delete", revision, "StatefulSet web-zone-a"))
	record := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1", OwnerReferences: []metav1.OwnerReference{owner}}}
	record.Data.Raw = []byte(`{}`)
	_, err = f.manager.AppsV1().ControllerRevisions(childrenNamespace).Create(f.ctx, record, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = apps.ControllerRevisions(childrenNamespace).Patch(f.ctx, "web-1", types.MergePatchType, []byte(`{"metadata":{"annotations":{"united.dev/rejected":"no"}}}`), metav1.PatchOptions{})
	g.Expect(err).To(refused("change metadata.annotations of", "web-1", "UnitedDeployment web"))

	// A Deployment, whose controller makes a ReplicaSet.
	api := f.parent("api", put(`{spec: {template: {metadata: {labels: {app: web}}}}}`, "spec", "template", "deploymentTemplate"), drop("spec", "template", "statefulSetTemplate"),
		put(`{type: Manual}`, "spec", "updateStrategy"))
	selector, template := podsOf("api", "zone-a")
	_, err = f.manager.AppsV1().Deployments(childrenNamespace).Create(f.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "api-zone-a", OwnerReferences: []metav1.OwnerReference{api}}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var name string
	g.Eventually(func(g Gomega) {
		list, err := apps.ReplicaSets(childrenNamespace).List(f.ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list.Items).To(HaveLen(1))
		name = list.Items[0].Name
		g.Expect(list.Items[0].Status.ReadyReplicas).To(Equal(int32(1)))
	}).WithTimeout(startTimeout).Should(Succeed())
	_, err = apps.ReplicaSets(childrenNamespace).Patch(f.ctx, name, types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`), metav1.PatchOptions{})
	g.Expect(err).To(refused("change spec of", name, "Deployment api-zone-a"))
	two := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: childrenNamespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	_, err = apps.ReplicaSets(childrenNamespace).UpdateScale(f.ctx, name, two, metav1.UpdateOptions{})
	g.Expect(err).To(refused("change spec.replicas of", name, "UnitedDeployment api"))
	two.Name = "api-zone-a"
	_, err = apps.Deployments(childrenNamespace).UpdateScale(f.ctx, "api-zone-a", two, metav1.UpdateOptions{})
	g.Expect(err).To(refused("change spec.replicas of", "api-zone-a", "UnitedDeployment api"))
	_, err = f.manager.AppsV1().Deployments(childrenNamespace).UpdateScale(f.ctx, "api-zone-a", two, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	autoscaler := rest.CopyConfig(fixture.cluster.Config())
	autoscaler.Impersonate.UserName = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
	hpa, err := kubernetes.NewForConfig(autoscaler)
	g.Expect(err).NotTo(HaveOccurred())
	two.Spec.Replicas = 3
	_, err = hpa.AppsV1().Deployments(childrenNamespace).UpdateScale(f.ctx, "api-zone-a", two, metav1.UpdateOptions{})
	g.Expect(err).To(refused("change spec.replicas of", "api-zone-a", "UnitedDeployment api"))
}

// strangers: what no UnitedDeployment controls is anybody's, also orphans, which keep their labels.
func (f *family) strangers(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{"orphan-zone-a", "stranger"} {
		f.made(statefulSet(name, "orphan", "zone-a"))
		g.Expect(f.patches(f.user, name, `{"metadata":{"annotations":{"united.dev/adopt":"web"}}}`)).To(Succeed())
		g.Expect(f.patches(f.user, name, `{"spec":{"replicas":0}}`, "scale")).To(Succeed())
		g.Expect(f.user.AppsV1().StatefulSets(childrenNamespace).Delete(f.ctx, name, metav1.DeleteOptions{})).To(Succeed())
	}
	// The name of a child of the parent, but of another kind.
	f.made(statefulSet("api-zone-a", "orphan", "zone-a"))
	g.Expect(f.patches(f.user, "api-zone-a", `{"spec":{"replicas":2}}`, "scale")).To(Succeed())
	// In another namespace, the policy is not in force.
	other := statefulSet("web-zone-a", "web", "zone-a", metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web", UID: "none", Controller: ptr.To(true)})
	_, err := f.admin.AppsV1().StatefulSets(metav1.NamespaceDefault).Create(f.ctx, other, metav1.CreateOptions{DryRun: dryRun})
	g.Expect(err).NotTo(HaveOccurred())
}

// groups: the controller of a LeaderWorkerSet makes a StatefulSet with its name, and one for each group.
func (f *family) groups(t *testing.T) {
	g := NewWithT(t)
	f.parent("llm", put(`{spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {metadata: {labels: {app: web}}}}}}`, "spec", "template", "leaderWorkerSetTemplate"),
		drop("spec", "template", "statefulSetTemplate"), drop(inSubset(1, "patch")...), put(`{type: Manual}`, "spec", "updateStrategy"))
	of := metav1.OwnerReference{APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: "LeaderWorkerSet", Name: "llm-zone-a", UID: "none", Controller: ptr.To(true)}
	for _, name := range []string{"llm-zone-a", "llm-zone-a-0", "llm-zone-a-a"} {
		set := statefulSet(name, "llm", "zone-a", of)
		_, err := f.user.AppsV1().StatefulSets(childrenNamespace).Create(f.ctx, set, metav1.CreateOptions{DryRun: dryRun})
		g.Expect(err).To(refused("create", name, "LeaderWorkerSet llm-zone-a"))
	}
	for _, name := range []string{"llm-zone-a", "llm-zone-a-0"} {
		f.made(statefulSet(name, "llm", "zone-a"))
		f.cannotScale(name, "UnitedDeployment llm")
	}
}

// many: each parent has a budget of its own, and the largest is within it.
func (f *family) many(t *testing.T) {
	g := NewWithT(t)
	large := all(set(subsets(100, "a-zone-with-a-name-that-is-long-"), "spec", "topology", "subsets"), put(`{type: Manual}`, "spec", "updateStrategy"))
	for i := range 20 {
		f.parent(fmt.Sprintf("m-%d", i), large)
	}
	const child = "m-19-a-zone-with-a-name-that-is-long-99"
	f.made(statefulSet(child, "m-19", "a-zone-with-a-name-that-is-long-99"))
	f.cannotScale(child, "UnitedDeployment m-19")
	f.made(statefulSet("m-19-none", "none", "none"))
	g.Expect(f.patches(f.user, "m-19-none", `{"spec":{"replicas":2}}`, "scale")).To(Succeed())
}

// controllers: the garbage collector takes the owner off an orphan, and deletes the child of a parent that is gone.
func (f *family) controllers(t *testing.T) {
	g := NewWithT(t)
	parents := fixture.client.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(childrenNamespace)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		name := "gone-" + strings.ToLower(string(policy))
		f.made(statefulSet(name+"-zone-a", name, "zone-a", f.parent(name)))
		g.Expect(parents.Delete(f.ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})).To(Succeed())
		g.Eventually(func(g Gomega) {
			_, err := parents.Get(f.ctx, name, metav1.GetOptions{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			set, err := f.admin.AppsV1().StatefulSets(childrenNamespace).Get(f.ctx, name+"-zone-a", metav1.GetOptions{})
			if policy != metav1.DeletePropagationOrphan {
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(set.OwnerReferences).To(BeEmpty())
		}).WithTimeout(startTimeout).Should(Succeed())
	}
	g.Expect(f.patches(f.user, "gone-orphan-zone-a", `{"metadata":{"annotations":{"united.dev/adopt":"web"}}}`)).To(Succeed())
	g.Expect(f.admin.CoreV1().Namespaces().Delete(f.ctx, childrenNamespace, metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func() bool {
		_, err := f.admin.CoreV1().Namespaces().Get(f.ctx, childrenNamespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).WithTimeout(startTimeout).Should(BeTrue())
}
