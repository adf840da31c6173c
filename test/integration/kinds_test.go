// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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

// manage runs a controller of the two kinds in one namespace, until the test ends.
func manage(t *testing.T, g *WithT, scheme *runtime.Scheme, namespace string) {
	t.Helper()
	options, err := united.CacheOptions()
	g.Expect(err).NotTo(HaveOccurred())
	options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	mgr, err := ctrl.NewManager(fixture.cluster.Config(), ctrl.Options{
		Scheme: scheme, Cache: options, Metrics: metricsserver.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	g.Expect(united.SetUp(ctx, mgr, adapters.Registry{statefulset.New(), gadgets{statefulset.New()}}, 2, nil)).To(Succeed())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

// TestKindNotInstalled checks that a parent with a kind that is not served reports that, and does not
// block other parents. When the CustomResourceDefinition is created, it continues without a restart.
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
	manage(t, g, scheme, namespace.Name)

	for name, member := range map[string]string{"web": "statefulSetTemplate", "gadget": "deploymentTemplate"} {
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
	key := client.ObjectKey{Namespace: namespace.Name, Name: "gadget"}
	stalled := func(g Gomega) *metav1.Condition {
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(api.Get(t.Context(), key, parent)).To(Succeed())
		return meta.FindStatusCondition(parent.Status.Conditions, v1alpha1.ConditionStalled)
	}
	g.Eventually(func(g Gomega) {
		c := stalled(g)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
		g.Expect(c.Reason).To(Equal(v1alpha1.ReasonKindNotInstalled))
		g.Expect(c.Message).To(ContainSubstring("gadgets.example.com"))
		g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: namespace.Name, Name: "web-a"}, &appsv1.StatefulSet{})).To(Succeed(), "the other one goes on")
	}).Should(Succeed())

	crd := fromYAML(g, gadgetCRD)
	g.Expect(api.Create(t.Context(), crd)).To(Succeed())
	t.Cleanup(func() { g.Expect(api.Delete(context.WithoutCancel(t.Context()), crd)).To(Succeed()) })
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
