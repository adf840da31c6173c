// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united"
)

// gadgets makes the children Gadgets of example.com/v1, a copy of StatefulSets that the API server does
// not serve yet.
type gadgets struct{ adapters.Adapter }

func (gadgets) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}
}

func (gadgets) TemplateField(t *v1alpha1.WorkloadTemplate) (string, *runtime.RawExtension) {
	return "deploymentTemplate", t.DeploymentTemplate
}

func (a gadgets) Observe(child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	set := child.DeepCopy()
	set.SetGroupVersionKind(a.Adapter.GroupVersionKind())
	return a.Adapter.Observe(set, have)
}

const gadgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

func fromYAML(g *WithT, text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(text), &u.Object)).To(Succeed())
	return u
}

// limitedUser has the permissions that the controller generally has, which do not include Gadgets.
const limitedUser = "limited"

func bind(t *testing.T, g *WithT, api client.Client, role *rbacv1.ClusterRole) {
	t.Helper()
	role.ObjectMeta = metav1.ObjectMeta{GenerateName: "kinds-"}
	g.Expect(api.Create(t.Context(), role)).To(Succeed())
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: limitedUser}},
	}
	g.Expect(api.Create(t.Context(), binding)).To(Succeed())
	t.Cleanup(func() {
		for _, object := range []client.Object{binding, role} {
			g.Expect(api.Delete(context.WithoutCancel(t.Context()), object)).To(Succeed())
		}
	})
}

// manage runs a controller of the two kinds in one namespace, as the limited user, until the test ends.
func manage(t *testing.T, g *WithT, api client.Client, namespace string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "role.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	g.Expect(yaml.Unmarshal(text, role)).To(Succeed())
	bind(t, g, api, role)
	config := rest.CopyConfig(fixture.cluster.Config())
	config.Impersonate.UserName = limitedUser
	options, err := united.CacheOptions()
	g.Expect(err).NotTo(HaveOccurred())
	options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: api.Scheme(), Cache: options, Metrics: metricsserver.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	g.Expect(united.SetUp(ctx, mgr, adapters.Registry{statefulset.New(), gadgets{statefulset.New()}}, 2, nil, nil, "")).To(Succeed())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

// TestKindNotInstalled checks that a parent with a kind that is not served, or that the controller may not read, reports
// that, and does not block other parents. When the CustomResourceDefinition is created, and the permissions are granted,
// it continues without a restart.
func TestKindNotInstalled(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	api, err := client.New(fixture.cluster.Config(), client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kinds-"}}
	g.Expect(api.Create(t.Context(), namespace)).To(Succeed())
	manage(t, g, api, namespace.Name)

	create := func(name, member string) {
		t.Helper()
		parent := fromYAML(g, `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: `+name+`}
spec:
  selector: {matchLabels: {app: web}}
  template: {`+member+`: {spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v1}]}}}}}
  topology: {subsets: [{name: a}]}
`)
		parent.SetNamespace(namespace.Name)
		g.Expect(api.Create(t.Context(), parent)).To(Succeed())
	}
	create("web", "statefulSetTemplate")
	create("gadget", "deploymentTemplate")
	key := client.ObjectKey{Namespace: namespace.Name, Name: "gadget"}
	stalled := func(g Gomega) *metav1.Condition {
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(api.Get(t.Context(), key, parent)).To(Succeed())
		return meta.FindStatusCondition(parent.Status.Conditions, v1alpha1.ConditionStalled)
	}
	isStalled := func(reason, message, goesOn string) {
		t.Helper()
		g.Eventually(func(g Gomega) {
			c := stalled(g)
			g.Expect(c).NotTo(BeNil())
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Reason).To(Equal(reason))
			g.Expect(c.Message).To(ContainSubstring(message))
			g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: namespace.Name, Name: goesOn}, &appsv1.StatefulSet{})).To(Succeed(), "another one goes on")
		}).Should(Succeed())
	}
	isStalled(v1alpha1.ReasonKindNotInstalled, "gadgets.example.com", "web-a")

	crd := fromYAML(g, gadgetCRD)
	g.Expect(api.Create(t.Context(), crd)).To(Succeed())
	t.Cleanup(func() { g.Expect(api.Delete(context.WithoutCancel(t.Context()), crd)).To(Succeed()) })
	isStalled(v1alpha1.ReasonKindNotPermitted, "gadgets.example.com", "web-a")
	// As many as there are workers: none of them waits for a watch that is forbidden.
	create("gadget-2", "deploymentTemplate")
	create("gadget-3", "deploymentTemplate")
	create("web-2", "statefulSetTemplate")
	isStalled(v1alpha1.ReasonKindNotPermitted, "gadgets.example.com", "web-2-a")

	bind(t, g, api, &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"example.com"}, Resources: []string{"gadgets"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
	}})
	g.Eventually(func(g Gomega) {
		gadget := &unstructured.Unstructured{}
		gadget.SetGroupVersionKind(gadgets{}.GroupVersionKind())
		g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: namespace.Name, Name: "gadget-a"}, gadget)).To(Succeed())
		g.Expect(stalled(g).Status).To(Equal(metav1.ConditionFalse))
	}).Should(Succeed())

	// The controller watches the kind: a deleted child comes back at once.
	gadget := &unstructured.Unstructured{}
	gadget.SetGroupVersionKind(gadgets{}.GroupVersionKind())
	g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: namespace.Name, Name: "gadget-a"}, gadget)).To(Succeed())
	old := gadget.GetUID()
	g.Expect(api.Delete(t.Context(), gadget)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: namespace.Name, Name: "gadget-a"}, gadget)).To(Succeed())
		g.Expect(gadget.GetUID()).NotTo(Equal(old))
	}).Should(Succeed())
}
