// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestForeignChild checks that a foreign object with the name of zone-b's child stays unchanged to the
// last byte, that the other subsets continue, and that zone-b follows when the object is gone.
func TestForeignChild(t *testing.T) {
	t.Parallel()
	ours := map[string]string{"app": "web", v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-b"}
	labelled := func(set *unstructured.Unstructured, _ *Env) { set.SetLabels(ours) }
	podsToo := func(set *unstructured.Unstructured, e *Env) {
		labelled(set, e)
		labels := map[string]any{}
		for key, value := range ours {
			labels[key] = value
		}
		for _, path := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}} {
			e.Expect(unstructured.SetNestedMap(set.Object, labels, path...)).To(Succeed())
		}
	}
	owned := func(set *unstructured.Unstructured, e *Env) {
		labelled(set, e)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "web"}}
		e.Expect(e.Client.Create(e.Ctx, owner)).To(Succeed())
		set.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))})
	}
	for _, foreign := range []struct {
		name string
		edit func(*unstructured.Unstructured, *Env)
	}{
		{"without labels", func(*unstructured.Unstructured, *Env) {}},
		{"with our labels", labelled},
		{"with our labels on its pods too", podsToo},
		{"with another owner", owned},
	} {
		t.Run(foreign.name, func(t *testing.T) {
			t.Parallel()
			e := SoundEnv(t)
			set := ForeignSet(e.Namespace, "web-zone-b")
			foreign.edit(set, e)
			e.CreateForeign(set)
			before, mark := e.Raw(Children, "web-zone-b"), e.AuditMark()

			w := e.Create(NewDraft("web", Replicas(6), Zones("", "", "")))
			goesOnWithout(w, "zone-b", "web-zone-b exists and is not controlled by this UnitedDeployment")

			e.Expect(e.Raw(Children, "web-zone-b")).To(Equal(before))
			touched := map[string]int{}
			for _, write := range e.Writes(mark, Children, "pods") {
				touched[write.Name]++
			}
			e.Expect(touched).To(And(HaveKey("web-zone-a"), HaveKey("web-zone-c"), HaveLen(2)))
			e.Kubectl("annotate", "statefulset", "web-zone-b", "example.com/control=x")
			e.Expect(e.Raw(Children, "web-zone-b")).NotTo(Equal(before), "positive control: a change would have been seen")

			e.Expect(e.Delete(e.Ctx, set)).To(Succeed())
			w.Disturbed()
			w.Settle()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
		})
	}

	// "web" + "zone-b" and "web-zone" + "b" give the same name.
	t.Run("of another UnitedDeployment", func(t *testing.T) {
		t.Parallel()
		e := SoundEnv(t)
		first := e.Create(NewDraft("web-zone", Plain("b", "")))
		first.Settle()
		first.AwaitObserved()
		before := e.Raw(Children, "web-zone-b")
		w := e.Create(NewDraft("web", Replicas(6), Zones("", "", "")))
		goesOnWithout(w, "zone-b", "web-zone-b exists and is not controlled by this UnitedDeployment")
		e.Expect(e.Raw(Children, "web-zone-b")).To(Equal(before))
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
func goesOnWithout(w *Workload, subset string, words ...string) {
	w.T.Helper()
	others := func(text string) Images {
		want := Images{"zone-a": text, "zone-b": text, "zone-c": text}
		delete(want, subset)
		return want
	}
	runs := func(want Images) {
		w.T.Helper()
		w.Eventually(func() Images {
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
	e := SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(3), Zones("", "", "")))
	w.Settle()
	w.AwaitObserved()
	none := e.History.Forbid(Outside("zone-a", "zone-c"))
	owner := w.Child("zone-b").OwnerReferences
	w.PatchChild("zone-b", `{"metadata":{"ownerReferences":null}}`)
	w.Stalls("zone-b", v1alpha1.ReasonNameConflict, "web-zone-b exists")
	before := e.Raw(Children, "web-zone-b")
	w.SetImage("v2")
	w.Runs(Images{"zone-a": "v2", "zone-b": "v1", "zone-c": "v2"})
	e.Expect(e.Raw(Children, "web-zone-b")).To(Equal(before))
	none.Holds()
	w.PatchChild("zone-b", `{"metadata":{"ownerReferences":%s}}`, AsJSON(owner))
	w.Disturbed()
	w.Settle()
	none.Fires()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2", "zone-b": "v2", "zone-c": "v2"}))
}
