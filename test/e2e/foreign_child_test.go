// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestForeignChild checks that a foreign object with the name of zone-b's child stays unchanged to the
// last byte, that the other subsets continue, and that zone-b follows when the object is gone.
func TestForeignChild(t *testing.T) {
	t.Parallel()
	ours := map[string]string{"app": "web", v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-b"}
	labelled := func(set *unstructured.Unstructured, _ *env) { set.SetLabels(ours) }
	podsToo := func(set *unstructured.Unstructured, e *env) {
		labelled(set, e)
		labels := map[string]any{}
		for key, value := range ours {
			labels[key] = value
		}
		for _, path := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}} {
			e.Expect(unstructured.SetNestedMap(set.Object, labels, path...)).To(Succeed())
		}
	}
	owned := func(set *unstructured.Unstructured, e *env) {
		labelled(set, e)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "web"}}
		e.Expect(e.Client.Create(e.ctx, owner)).To(Succeed())
		set.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))})
	}
	for _, foreign := range []struct {
		name string
		edit func(*unstructured.Unstructured, *env)
	}{
		{"without labels", func(*unstructured.Unstructured, *env) {}},
		{"with our labels", labelled},
		{"with our labels on its pods too", podsToo},
		{"with another owner", owned},
	} {
		t.Run(foreign.name, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			set := foreignSet(e.Namespace, "web-zone-b")
			foreign.edit(set, e)
			e.CreateForeign(set)
			before, mark := e.Raw(children, "web-zone-b"), e.AuditMark()

			w := e.Create(draft("web", replicas(6), zones("", "", "")))
			w.goesOnWithout("zone-b", "web-zone-b exists and is not controlled by this UnitedDeployment")

			e.Expect(e.Raw(children, "web-zone-b")).To(Equal(before))
			touched := map[string]int{}
			for _, write := range e.Writes(mark, children, "pods") {
				touched[write.Name]++
			}
			e.Expect(touched).To(And(HaveKey("web-zone-a"), HaveKey("web-zone-c"), HaveLen(2)))
			e.Kubectl("annotate", "statefulset", "web-zone-b", "example.com/control=x")
			e.Expect(e.Raw(children, "web-zone-b")).NotTo(Equal(before), "positive control: a change would have been seen")

			e.Expect(e.Delete(e.ctx, set)).To(Succeed())
			w.Disturbed()
			w.Settle()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
		})
	}

	// "web" + "zone-b" and "web-zone" + "b" give the same name.
	t.Run("of another UnitedDeployment", func(t *testing.T) {
		t.Parallel()
		e := soundEnv(t)
		first := e.Create(draft("web-zone", plain("b", "")))
		first.Settle()
		first.AwaitObserved()
		before := e.Raw(children, "web-zone-b")
		w := e.Create(draft("web", replicas(6), zones("", "", "")))
		w.goesOnWithout("zone-b", "web-zone-b exists and is not controlled by this UnitedDeployment")
		e.Expect(e.Raw(children, "web-zone-b")).To(Equal(before))
		first.Settle()

		first.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0"},{"op":"replace","path":"/spec/replicas","value":0}]`)
		first.AwaitObserved()
		w.Disturbed()
		w.Settle()
		e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v2 v2 v2"))
	})
}

// goesOnWithout stages v2 and scales from 6 to 9 while a foreign object has the name of one of the
// three children.
func (w *Workload) goesOnWithout(subset string, words ...string) {
	w.t.Helper()
	others := func(text string) images {
		want := images{"zone-a": text, "zone-b": text, "zone-c": text}
		delete(want, subset)
		return want
	}
	runs := func(want images) {
		w.t.Helper()
		w.Eventually(func() images {
			running := w.Images()
			delete(running, subset) // foreign pods may have our labels
			return running
		}).Should(Equal(want))
	}
	w.Stalls(subset, v1alpha1.ReasonNameConflict, words...)
	runs(others("v1 v1"))
	w.Expect(w.Status(subset).Replicas).To(BeZero(), "a foreigner's pods are not counted")
	w.SetImage("v2")
	runs(others("v2 v2"))
	w.Scale(9)
	runs(others("v2 v2 v2"))
	w.Stalls(subset, v1alpha1.ReasonNameConflict, words...)
	w.Expect(w.Status(subset).Replicas).To(BeZero())
}

// TestDisownedChild checks that a child that lost its owner counts as foreign until it has the owner
// again.
func TestDisownedChild(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(3), zones("", "", "")))
	w.Settle()
	w.AwaitObserved()
	none := e.History.Forbid(outside("zone-a", "zone-c"))
	owner := w.Child("zone-b").OwnerReferences
	w.PatchChild("zone-b", `{"metadata":{"ownerReferences":null}}`)
	w.Stalls("zone-b", v1alpha1.ReasonNameConflict, "web-zone-b exists")
	before := e.Raw(children, "web-zone-b")
	w.SetImage("v2")
	w.Runs(images{"zone-a": "v2", "zone-b": "v1", "zone-c": "v2"})
	e.Expect(e.Raw(children, "web-zone-b")).To(Equal(before))
	none.Holds()
	w.PatchChild("zone-b", `{"metadata":{"ownerReferences":%s}}`, asJSON(owner))
	w.Disturbed()
	w.Settle()
	none.Fires()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v2", "zone-b": "v2", "zone-c": "v2"}))
}

// TestRelabelledPod checks a replica whose labels somebody changed. It no longer counts as a replica,
// and its StatefulSet cannot create another one with its name. The status names the pod and the cause.
func TestRelabelledPod(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]struct{ labels, lacks []string }{
		"a label of the selector": {[]string{"app=debug"}, []string{"app=web"}},
		"all that it is found by": {[]string{"app-", v1alpha1.LabelName + "-", v1alpha1.LabelSubset + "-"},
			[]string{"app=web", v1alpha1.LabelName + "=web", v1alpha1.LabelSubset + "=zone-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(6), zones("", "", "")))
			w.Settle()
			none := e.History.Forbid(anyNewPod)
			e.Kubectl(append([]string{"label", "--overwrite", "pod", "web-zone-b-1"}, edit.labels...)...)
			e.Eventually(func() string { return w.Status("zone-b").Message }).Should(Equal(
				"waiting for web-zone-b-1 (missing; a pod with its name does not have the labels " + strings.Join(edit.lacks, ", ") + ": add them, or delete that pod)"))
			none.Holds()
			e.Kubectl("delete", "pod", "web-zone-b-1")
			// The StatefulSet controller has released the pod, and gets no event for it. The delay of
			// its next retry depends on the number of failures, up to minutes.
			w.PatchChild("zone-b", `{"metadata":{"annotations":{"example.com/look":"again"}}}`)
			w.Disturbed()
			w.Settle()
			none.Fires()
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v1 v1"))
		})
	}
}

// foreignSet returns a StatefulSet of somebody else with one replica.
func foreignSet(namespace, name string) *unstructured.Unstructured {
	labels := map[string]any{"app": "foreign"}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{
			"serviceName": "foreign",
			"selector":    map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"terminationGracePeriodSeconds": int64(1),
					"containers":                    []any{map[string]any{"name": "foreign", "image": image("foreign")}},
				},
			},
		},
	}}
}

// CreateForeign creates a StatefulSet and waits until it no longer changes by itself.
func (e *env) CreateForeign(set *unstructured.Unstructured) {
	e.t.Helper()
	e.Expect(e.Client.Create(e.ctx, set)).To(Succeed())
	e.Eventually(func(g Gomega) {
		now := &appsv1.StatefulSet{}
		g.Expect(e.Get(e.ctx, e.key(set.GetName()), now)).To(Succeed())
		g.Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
		g.Expect(now.Status.AvailableReplicas).To(BeEquivalentTo(1))
		g.Expect(now.Status.CurrentReplicas).To(BeEquivalentTo(1))
		g.Expect(now.Status.UpdatedReplicas).To(BeEquivalentTo(1))
	}).Should(Succeed())
}
