// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// immutable are the words with which the API server refuses another value of a field
// of a StatefulSet. Since Kubernetes 1.37 they name it.
func immutable(t *testing.T, field, value string) string {
	t.Helper()
	server, err := shared.cluster.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if server.Major == "1" && server.Minor == "36" {
		return "spec: Forbidden: updates to statefulset spec for fields other than"
	}
	return fmt.Sprintf("spec.%s: Invalid value: %q: field is immutable", field, value)
}

// TestRefusedPatch: the patch of zone-b makes a child that cannot be. The others
// go on, zone-b stays as it was, and comes along when the patch is corrected.
func TestRefusedPatch(t *testing.T) {
	t.Parallel()
	const at = "spec.topology.subsets[zone-b].patch."
	const pods = `{"spec":{"template":{"spec":%s}}}`
	const container = `{"spec":{"template":{"spec":{"containers":[%s]}}}}`
	for _, refused := range []struct {
		name, patch string
		words       string // of the server's or, for what cannot be merged, of the controller's
	}{
		{"immutable field", `{"spec":{"serviceName":"other"}}`, immutable(t, "serviceName", "other")},
		{"another immutable field", `{"spec":{"podManagementPolicy":"Parallel"}}`, immutable(t, "podManagementPolicy", "Parallel")},
		{"misspelt field", fmt.Sprintf(container, `{"name":"web","imag":"x"}`), `.spec.template.spec.containers[name="web"].imag: field not declared in schema`},
		{"misspelt field outside of pods", `{"spec":{"minReadySecond":5}}`, `.spec.minReadySecond: field not declared in schema`},
		{"bad pod spec", fmt.Sprintf(pods, `{"restartPolicy":"Never"}`), `spec.template.spec.restartPolicy: Unsupported value: "Never"`},
		{"bad label", `{"metadata":{"labels":{"not a key":"x"}}}`, `metadata.labels: Invalid value: "not a key"`},
		{"not a list", fmt.Sprintf(pods, `{"containers":"x"}`), `.spec.template.spec.containers: expected list`},
		{"not a string", fmt.Sprintf(pods, `{"nodeSelector":{"disk":5}}`), `.spec.template.spec.nodeSelector.disk: expected string`},
		{"the same key twice", fmt.Sprintf(container, `{"name":"web","env":[{"name":"A"},{"name":"A"}]}`), `duplicate entries for key [name="A"]`},
		{"no quantity", fmt.Sprintf(container, `{"name":"web","resources":{"requests":{"cpu":"much"}}}`), `quantities must match the regular expression`},
		{"no merge key", fmt.Sprintf(container, `{"image":"x"}`), at + "spec.template.spec.containers[0].name: Required value"},
		{"null in a list", fmt.Sprintf(container, `null`), at + "spec.template.spec.containers[0]"},
		{"unknown directive", fmt.Sprintf(container, `{"name":"web","$patch":"merge"}`), at + "spec.template.spec.containers[0].$patch: Unsupported value"},
	} {
		t.Run(refused.name, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(6), zones("", "", "")))
			w.Settle()
			kept := e.History.Forbid(outside("zone-a", "zone-c"))
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`,
				imagePath, image("v2"), refused.patch)
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, refused.words)
			w.Runs(images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2"})
			w.Scale(9)
			w.Runs(images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2 v2"})
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, refused.words)
			e.Eventually(func() v1alpha1.SubsetPhase { return w.Status("zone-c").Phase }).Should(Equal(v1alpha1.PhaseComplete))
			kept.Holds()

			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`)
			w.Settle()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
			kept.Fires()
		})
	}
}

// TestRefusedOverruledPatch: a patch sets what the controller decides. The API server
// refuses it; one that is stored all the same, since it is older than the policy, stalls
// its subset, which stays as it was to the last byte.
func TestRefusedOverruledPatch(t *testing.T) {
	t.Parallel()
	for field, patch := range map[string]string{
		"spec.replicas": `{"spec":{"replicas":9}}`,
		"spec.updateStrategy.rollingUpdate.partition": `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`,
		"spec.updateStrategy.type":                    `{"spec":{"updateStrategy":{"type":"OnDelete"}}}`,
		"spec.selector":                               `{"spec":{"selector":{"matchLabels":{"app":"other"}}}}`,
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(6), zones("", "", "")))
			w.Settle()
			w.AwaitTold()
			kept := e.History.Forbid(outside("zone-a", "zone-c"))
			edit := fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`,
				imagePath, image("v2"), patch)
			path := "spec.topology.subsets[zone-b].patch." + field + ": "
			err := w.TryPatch(types.JSONPatchType, edit)
			e.Expect(err).To(MatchError(ContainSubstring(path)))
			e.Expect(apierrors.IsInvalid(err)).To(BeTrue())
			e.Unchecked()
			before := e.Raw(children, "web-zone-b")
			w.JSONPatch("%s", edit)
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, path)
			w.Scale(9)
			w.Runs(images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2 v2"})
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, path)
			e.Expect(e.Raw(children, "web-zone-b")).To(Equal(before))
			kept.Holds()

			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`)
			w.Settle()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
			e.Expect(e.Raw(children, "web-zone-b")).NotTo(Equal(before), "positive control: a change would have been seen")
			kept.Fires()
		})
	}
}

// TestRefusedTemplate: all children are refused alike. Nothing moves, and going
// back is all it takes.
func TestRefusedTemplate(t *testing.T) {
	t.Parallel()
	for _, refused := range []struct{ name, field, value, words string }{
		{"immutable field", "/spec/podManagementPolicy", `"Parallel"`, immutable(t, "podManagementPolicy", "Parallel")},
		{"misspelt field", "/spec/template/spec/nodeSelectors", `{}`, ".spec.template.spec.nodeSelectors: field not declared in schema"},
	} {
		t.Run(refused.name, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(3), zones("", "", "")))
			w.Settle()
			none := e.History.Forbid(anyNewPod)
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"%s%s","value":%s}]`,
				imagePath, image("v2"), templatePath, refused.field, refused.value)
			w.StallsWhole(v1alpha1.ReasonApplyRefused, "zone-a: ", "zone-b: ", "zone-c: ", refused.words)
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"%s/spec/podManagementPolicy","value":"OrderedReady"}]`,
				imagePath, image("v1"), templatePath)
			if refused.field != "/spec/podManagementPolicy" {
				w.JSONPatch(`[{"op":"remove","path":"%s%s"}]`, templatePath, refused.field)
			}
			w.Settle()
			none.Holds()
			w.SetImage("v3")
			w.Settle()
			none.Fires()
		})
	}
}

// TestForeignChild: the name of zone-b's child is taken. What has it stays as it
// is to the last byte, the others go on, and zone-b follows when it is gone.
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

	// "web" + "zone-b" and "web-zone" + "b" are the same name.
	t.Run("of another UnitedDeployment", func(t *testing.T) {
		t.Parallel()
		e := soundEnv(t)
		first := e.Create(draft("web-zone", plain("b", "")))
		first.Settle()
		first.AwaitTold()
		before := e.Raw(children, "web-zone-b")
		w := e.Create(draft("web", replicas(6), zones("", "", "")))
		w.goesOnWithout("zone-b", "web-zone-b exists and is not controlled by this UnitedDeployment")
		e.Expect(e.Raw(children, "web-zone-b")).To(Equal(before))
		first.Settle()

		first.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0"}]`)
		first.Settle()
		w.Disturbed()
		w.Settle()
		e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v2 v2 v2"))
	})
}

// goesOnWithout stages v2 and scales from 6 to 9 while the child of one of three
// subsets has a foreigner's name.
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
			delete(running, subset) // a foreigner's pods may have our labels
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

// TestDisownedChild: a child that lost its owner is a stranger, until it has it
// again.
func TestDisownedChild(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(3), zones("", "", "")))
	w.Settle()
	w.AwaitTold()
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

// TestRelabelledPod: a replica whose labels somebody changed is none any more, and its
// StatefulSet cannot make another of its name. The status names it, and why.
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
			e.Eventually(func() string { return w.Status("zone-b").Message }).Should(Equal("waits: web-zone-b has no replica at position 1: " +
				"the name web-zone-b-1 is taken by a pod that does not have the labels " + strings.Join(edit.lacks, ", ") + ": label it so, or delete it"))
			none.Holds()
			e.Kubectl("delete", "pod", "web-zone-b-1")
			w.Disturbed()
			w.Settle()
			none.Fires()
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v1 v1"))
		})
	}
}

// TestQuota: the third child is over the quota. That may pass by itself, so it
// counts as Stalled only after a while; and when the quota is lifted, it does.
func TestQuota(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "two"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("2")}},
	}
	e.Expect(e.Client.Create(e.ctx, quota)).To(Succeed())
	e.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.ctx, e.key("two"), quota)).To(Succeed())
		g.Expect(quota.Status.Used).To(HaveLen(1), "it is in force")
	}).Should(Succeed())

	mark := e.AuditMark()
	w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", "", "")))
	w.Runs(images{"zone-a": "v1 v1", "zone-b": "v1 v1"})
	w.SetImage("v2")
	w.Runs(images{"zone-a": "v2 v2", "zone-b": "v2 v2"})
	w.Stalls("zone-c", v1alpha1.ReasonApplyFailed, `"web-zone-c" is forbidden: exceeded quota: two`)

	var told, stalled int
	e.Eventually(func() int { // what is read is not always logged yet
		told, stalled = 0, 0
		for _, write := range e.Writes(mark, statuses) {
			if bytes.Contains(write.Request, []byte("exceeded quota")) {
				told++
			}
			if bytes.Contains(write.Request, []byte(`"phase":"Stalled"`)) {
				stalled++
			}
		}
		return stalled
	}).Should(BeNumerically(">", 0), "positive control: Stalled is found in the writes")
	e.Expect(told).To(BeNumerically(">", stalled), "it is told of before it is Stalled")

	e.Expect(e.Delete(e.ctx, quota)).To(Succeed())
	w.Disturbed()
	w.Settle()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2", "zone-b": "v2 v2", "zone-c": "v2 v2"}))
}

// TestFrozenChild: the cluster's owner forbids changes of one child for a while.
// No watch tells when that is over.
func TestFrozenChild(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(6), zones("", "", "")))
	w.Settle()
	kept := e.History.Forbid(outside("zone-a", "zone-c"))
	lift := e.Deny("web-zone-b")
	w.SetImage("v2")
	w.Runs(images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2"})
	w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, "change freeze")
	kept.Holds()
	lift()
	w.Disturbed()
	w.Settle()
	kept.Fires()
	e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v2 v2"))
}
