// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestUnknownFields checks that a field which no type knows reaches the API server unchanged, and that
// the refusal there names it.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	for _, unknown := range []struct{ name, path, words string }{
		{"of the workload", "/spec/surge", ".spec.surge: field not declared in schema"},
		{"of a pod", "/spec/template/spec/warmUp", ".spec.template.spec.warmUp: field not declared in schema"},
		{"of a container", "/spec/template/spec/containers/0/warmUp", `.spec.template.spec.containers[name="web"].warmUp: field not declared in schema`},
	} {
		t.Run(unknown.name, func(t *testing.T) {
			t.Parallel()
			e := SoundEnv(t)
			d := NewDraft("web", Replicas(2), Zones("", ""))
			parent, err := d.Object()
			e.Expect(err).NotTo(HaveOccurred())
			parent.Namespace = e.Namespace
			e.Expect(e.Client.Create(e.Ctx, parent)).To(Succeed())
			w := e.Workload("web")
			w.Settle()
			none := e.History.Forbid(AnyNewPod)
			value := `{"list":[{"name":"a"},null,7],"number":1e3,"text":"\u00e9"}`
			w.JSONPatch(`[{"op":"add","path":"%s%s","value":%s}]`, TemplatePath, unknown.path, value)
			stored := e.Kubectl("get", "united", "web", "-o", "jsonpath={.spec.template.statefulSetTemplate}")
			e.Expect(stored).To(ContainSubstring(`{"list":[{"name":"a"},null,7],"number":1000,"text":"é"}`), "it is stored as it was written")
			w.StallsWhole(v1alpha1.ReasonApplyRefused, unknown.words, "All subsets: ")
			none.Holds()
			// A patch may contain such a field too, which then has no schema for merging. If there are
			// two unknown fields, the server names the first one that it finds.
			w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":{"spec":{"template":{"spec":
				{"containers":[{"name":"web","warmUp":{"list":[{"name":"b"}],"number":null}}],"warmUp":{"list":[1]}}}}}}]`)
			w.StallsWhole(v1alpha1.ReasonApplyRefused, "field not declared in schema")
			w.JSONPatch(`[{"op":"remove","path":"%s%s"},{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`, TemplatePath, unknown.path)
			w.Settle()
			none.Holds()
			w.SetImage("v2")
			w.Settle()
			none.Fires()
		})
	}
}

// TestPatches checks subsets that each have a different kind of patch.
func TestPatches(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	const spec = `{"spec":{"template":{"spec":%s}}}`
	base := NewDraft("web", Policy(appsv1.ParallelPodManagement),
		TemplateField(map[string]any{
			"terminationGracePeriodSeconds": int64(1),
			"containers": []any{
				map[string]any{
					"name": "web", "image": Image("v1"),
					"args":         []any{"--port", "80"},
					"env":          []any{map[string]any{"name": "A", "value": "a"}, map[string]any{"name": "B", "value": "b"}},
					"ports":        []any{map[string]any{"containerPort": int64(80), "name": "http"}},
					"volumeMounts": []any{map[string]any{"name": "tmp", "mountPath": "/tmp"}},
					"resources":    map[string]any{"requests": map[string]any{"memory": "1024Mi", "cpu": int64(1)}},
				},
				map[string]any{"name": "log", "image": Image("log")},
			},
			"volumes":      []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}},
			"tolerations":  []any{map[string]any{"key": "base", "operator": "Exists"}},
			"nodeSelector": map[string]any{corev1.LabelOSStable: "linux"},
		}, "spec", "template", "spec"))
	type check = func(g Gomega, set *appsv1.StatefulSet, pod corev1.PodSpec)
	names := func(list []corev1.Container) (names []string) {
		for i := range list {
			names = append(names, list[i].Name)
		}
		return names
	}
	cases := []struct {
		name, patch string
		check       check
	}{
		{"none", `{}`, func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
			g.Expect(names(pod.Containers)).To(Equal([]string{"web", "log"}))
			g.Expect(pod.Tolerations).To(HaveLen(1))
		}},
		{
			"containers-by-name", fmt.Sprintf(spec, `{"containers":[{"name":"web","image":"registry.example/web:v9"},{"name":"extra","image":"x:1"}]}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(names(pod.Containers)).To(ConsistOf("web", "log", "extra"))
				for _, c := range pod.Containers {
					if c.Name == "web" {
						g.Expect(c.Image).To(Equal(Image("v9")))
						g.Expect(c.Env).To(HaveLen(2), "the rest of it stays")
					}
				}
			},
		},
		{
			"env-by-name", fmt.Sprintf(spec, `{"containers":[{"name":"web","env":[{"name":"B","value":"b2"},{"name":"C","value":"c"},{"name":"A","$patch":"delete"}]}]}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(pod.Containers[0].Env).To(ConsistOf(corev1.EnvVar{Name: "B", Value: "b2"}, corev1.EnvVar{Name: "C", Value: "c"}))
			},
		},
		{
			"volumes-by-name", fmt.Sprintf(spec, `{"volumes":[{"name":"more","emptyDir":{}},{"name":"tmp","$retainKeys":["name","configMap"],"configMap":{"name":"x"}}]}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(pod.Volumes).To(HaveLen(2))
				for _, v := range pod.Volumes {
					g.Expect(v.ConfigMap != nil).To(Equal(v.Name == "tmp"))
					g.Expect(v.EmptyDir != nil).To(Equal(v.Name == "more"))
				}
			},
		},
		{
			"ports-by-number", fmt.Sprintf(spec, `{"containers":[{"name":"web","ports":[{"containerPort":80,"name":"web"},{"containerPort":81}]}]}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(pod.Containers[0].Ports).To(HaveLen(2))
			},
		},
		{
			"lists-whole", fmt.Sprintf(spec, `{"tolerations":[{"key":"patch","operator":"Exists"}],"containers":[{"name":"web","args":["--verbose"]}]}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(pod.Tolerations).To(Equal([]corev1.Toleration{{Key: "patch", Operator: corev1.TolerationOpExists}}))
				g.Expect(pod.Containers[0].Args).To(Equal([]string{"--verbose"}))
			},
		},
		{
			"null-deletes", fmt.Sprintf(spec, `{"terminationGracePeriodSeconds":null,"tolerations":null,"containers":[{"name":"web","resources":{"requests":{"cpu":null}},"args":null}]}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(*pod.TerminationGracePeriodSeconds).To(BeEquivalentTo(30), "the server's default")
				g.Expect(pod.Tolerations).To(BeEmpty())
				g.Expect(pod.Containers[0].Args).To(BeEmpty())
				g.Expect(pod.Containers[0].Resources.Requests).To(And(HaveLen(1), HaveKey(corev1.ResourceMemory)))
			},
		},
		{
			"list-replaced-by-directive", fmt.Sprintf(spec, `{"containers":[{"$patch":"replace"},{"name":"only","image":"registry.example/web:only"}]}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(names(pod.Containers)).To(Equal([]string{"only"}))
			},
		},
		{
			"object-replaced-by-directive", fmt.Sprintf(spec, `{"nodeSelector":{"$patch":"replace","kubernetes.io/arch":"amd64"}}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(pod.NodeSelector).To(Equal(map[string]string{corev1.LabelArchStable: "amd64"}))
			},
		},
		{
			"ordered-by-directive", fmt.Sprintf(spec, `{"$setElementOrder/containers":[{"name":"log"},{"name":"web"}],"containers":[{"name":"log","image":"registry.example/web:log2"}]}`),
			func(g Gomega, _ *appsv1.StatefulSet, pod corev1.PodSpec) {
				g.Expect(names(pod.Containers)).To(Equal([]string{"log", "web"}))
			},
		},
		{
			"workload", `{"metadata":{"labels":{"tier":"x"},"annotations":{"example.com/a":"b"}},"spec":{"minReadySeconds":1,"podManagementPolicy":"OrderedReady","ordinals":{"start":5}}}`,
			func(g Gomega, set *appsv1.StatefulSet, _ corev1.PodSpec) {
				g.Expect(set.Labels).To(HaveKeyWithValue("tier", "x"))
				g.Expect(set.Annotations).To(HaveKeyWithValue("example.com/a", "b"))
				g.Expect(set.Spec.MinReadySeconds).To(BeEquivalentTo(1))
				g.Expect(set.Spec.PodManagementPolicy).To(Equal(appsv1.OrderedReadyPodManagement))
				g.Expect(set.Spec.Ordinals.Start).To(BeEquivalentTo(5))
			},
		},
		{
			"ours-stays-ours", `{"metadata":{"labels":{"united.dev/name":"x"},"annotations":{"united.dev/revision":"x"}},
				"spec":{"replicas":null,"selector":null,"updateStrategy":{"rollingUpdate":{"partition":null}},"template":{"metadata":{"labels":{"united.dev/subset":"x"}}}}}`, // the API server refuses them with values
			func(g Gomega, set *appsv1.StatefulSet, _ corev1.PodSpec) {
				g.Expect(*set.Spec.Replicas).To(BeEquivalentTo(1))
				g.Expect(*set.Spec.UpdateStrategy.RollingUpdate.Partition).To(BeZero())
				g.Expect(set.Spec.Selector.MatchLabels).To(HaveKeyWithValue(v1alpha1.LabelName, "web"))
				g.Expect(set.Spec.Template.Labels).To(HaveKeyWithValue(v1alpha1.LabelSubset, "ours-stays-ours"))
			},
		},
	}
	for _, c := range cases {
		Patched(c.name, c.patch)(base)
	}
	Subset(v1alpha1.Subset{
		Name:        "tolerations",
		Tolerations: []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpExists}, {Key: "base", Operator: corev1.TolerationOpExists}},
	})(base)
	Subset(v1alpha1.Subset{
		Name:        "tolerations-after-patch",
		Tolerations: []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(7))}},
		Patch:       &runtime.RawExtension{Raw: []byte(fmt.Sprintf(spec, `{"tolerations":[{"key":"patch","operator":"Exists"}]}`))},
	})(base)
	Replicas(int32(len(base.Spec.Topology.Subsets)))(base)
	w := e.Create(base)
	w.Eventually(func(g Gomega) { // ordinals that start at 5 do not count as a gap
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).Should(Succeed())
	for _, c := range cases {
		e.Step(c.name, func() {
			set := w.Child(c.name)
			c.check(e, set, set.Spec.Template.Spec)
		})
	}
	e.Step("tolerations are appended", func() {
		keys := func(subset string) (keys []string) {
			for _, toleration := range w.PodSpec(subset).Tolerations {
				keys = append(keys, toleration.Key)
			}
			return keys
		}
		e.Expect(keys("tolerations")).To(Equal([]string{"base", "own"}))
		e.Expect(keys("tolerations-after-patch")).To(Equal([]string{"patch", "own"}))
	})
	e.Step("at rest all of it costs no write", func() {
		var all []string
		for _, s := range base.Spec.Topology.Subsets {
			if s.Name != "none" {
				all = append(all, s.Name)
			}
		}
		all = append(all, "none") // United restores its label app
		BringToRest(w, all...)
		ExpectRest(w, all...)
	})
}

// TestBareTemplates checks templates that nothing has validated before, because the admission policy is
// absent, which is allowed: the status reports each of them, and none makes the manager panic.
func TestBareTemplates(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	e.Unfinished()
	good := NewDraft("good", Replicas(2), Plain("a", ""))
	w := e.Create(good)
	const pod = `{"spec":{"serviceName":"x","template":{"metadata":{"labels":{"app":"odd"}},"spec":%s}}}`
	templates := []string{
		`{}`, `{"metadata":null}`, `{"metadata":"x"}`, `{"metadata":[]}`, `{"metadata":{"labels":7}}`, `{"metadata":{"labels":{"a":null}}}`,
		`{"spec":null}`, `{"spec":"x"}`, `{"spec":[]}`, `{"spec":{}}`, `{"spec":{"template":null}}`, `{"spec":{"template":"x"}}`,
		`{"spec":{"template":[1]}}`, `{"spec":{"template":{}}}`, `{"spec":{"template":{"metadata":7}}}`,
		`{"spec":{"template":{"metadata":{"labels":["app"]}}}}`, `{"spec":{"template":{"metadata":{"labels":{"app":5}}}}}`,
		`{"spec":{"template":{"metadata":{"labels":{"app":"other"}}}}}`,
		`{"apiVersion":"v1","kind":"Pod"}`, `{"kind":7}`, `{"status":{"replicas":1}}`,
		`{"spec":{"replicas":3,"template":{"metadata":{"labels":{"app":"odd"}}}}}`,
		`{"spec":{"updateStrategy":"x","template":{"metadata":{"labels":{"app":"odd"}}}}}`,
		`{"spec":{"updateStrategy":{"type":"OnDelete"},"template":{"metadata":{"labels":{"app":"odd"}}}}}`,
		`{"spec":{"updateStrategy":{"rollingUpdate":[]},"template":{"metadata":{"labels":{"app":"odd"}}}}}`,
		`{"spec":{"selector":"x","template":{"metadata":{"labels":{"app":"odd"}}}}}`,
		`{"spec":{"selector":{"matchLabels":{"app":"no"}},"template":{"metadata":{"labels":{"app":"odd"}}}}}`,
		fmt.Sprintf(pod, `null`), fmt.Sprintf(pod, `"x"`), fmt.Sprintf(pod, `[]`), fmt.Sprintf(pod, `{}`),
		fmt.Sprintf(pod, `{"containers":null}`), fmt.Sprintf(pod, `{"containers":"x"}`), fmt.Sprintf(pod, `{"containers":[]}`),
		fmt.Sprintf(pod, `{"containers":[null]}`), fmt.Sprintf(pod, `{"containers":[[]]}`), fmt.Sprintf(pod, `{"containers":["x",7,true]}`),
		fmt.Sprintf(pod, `{"containers":[{"name":null}]}`), fmt.Sprintf(pod, `{"containers":[{"name":{}}]}`),
		fmt.Sprintf(pod, `{"containers":[{"name":"a","image":"x"},{"name":"a","image":"x"}]}`),
		fmt.Sprintf(pod, `{"containers":[{"name":"a","image":7}]}`), fmt.Sprintf(pod, `{"containers":[{"name":"a","image":"x","env":{"A":"b"}}]}`),
		fmt.Sprintf(pod, `{"affinity":"x","containers":[]}`), fmt.Sprintf(pod, `{"affinity":{"nodeAffinity":[]}}`),
		fmt.Sprintf(pod, `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[null,"x"]}}}}`),
		fmt.Sprintf(pod, `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}}`),
		fmt.Sprintf(pod, `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":{}}]}}}}`),
		fmt.Sprintf(pod, `{"tolerations":"x"}`), fmt.Sprintf(pod, `{"tolerations":[null]}`), fmt.Sprintf(pod, `{"$patch":"delete"}`),
		fmt.Sprintf(pod, `{"containers":[{"$patch":"delete","name":"a"}]}`), fmt.Sprintf(pod, `{"containers":[{"name":"a","image":"x"}],"n":1e300}`),
	}
	for i, template := range templates {
		createRaw(e, fmt.Sprintf("template-%d", i), template, `{"a":{"spec":{"template":{"spec":{"containers":[{"name":"a","env":[]}],"tolerations":[]}}}},"b":null}`)
	}
	e.Step("templates", func() {
		for i, template := range templates {
			isRefused(e.Workload(fmt.Sprintf("template-%d", i)), template)
		}
	})

	patches := []string{
		`{"metadata":"x"}`, `{"metadata":{"labels":[]}}`, `{"metadata":{"labels":{"a":{}}}}`, `{"spec":null}`, `{"spec":"x"}`, `{"spec":[]}`,
		`{"spec":{"template":null}}`, `{"spec":{"template":"x"}}`, `{"spec":{"template":{"spec":null}}}`, `{"spec":{"template":{"spec":"x"}}}`,
		`{"$patch":"delete"}`, `{"spec":{"$patch":"replace"}}`, `{"spec":{"$retainKeys":["x"]}}`, `{"spec":{"$setElementOrder/volumeClaimTemplates":[]}}`,
		`{"spec":{"template":{"$patch":"delete"}}}`, `{"spec":{"template":{"$patch":7}}}`, `{"spec":{"template":{"spec":{"$retainKeys":"x"}}}}`,
		`{"spec":{"template":{"spec":{"$retainKeys":[{}]}}}}`, `{"spec":{"template":{"spec":{"containers":[null]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":{}}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":[]}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[7]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"$patch":"delete"}]}}}}`,
		`{"spec":{"template":{"spec":{"$setElementOrder/containers":[null]}}}}`, `{"spec":{"template":{"spec":{"$setElementOrder/containers":"x"}}}}`,
		`{"spec":{"template":{"spec":{"$deleteFromPrimitiveList/containers":["x"]}}}}`, `{"spec":{"template":{"spec":{"$deleteFromPrimitiveList":[]}}}}`,
		`{"spec":{"template":{"spec":{"tolerations":[{"$patch":"delete","key":"x"}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"web","ports":[{"name":"x"}]}]}}}}`,
		`{"spec":{"template":{"metadata":{"labels":{"app":null}}}}}`, `{"spec":{"template":{"metadata":{"finalizers":[null]}}}}`,
		`{"status":{}}`, `{"kind":"Deployment"}`, `{"spec":{"selector":"x","updateStrategy":"x","replicas":"x","ordinals":"x"}}`,
	}
	for i, patch := range patches {
		name := fmt.Sprintf("patch-%d", i)
		createRaw(e, name, fmt.Sprintf(strings.ReplaceAll(pod, "odd", name), `{"terminationGracePeriodSeconds":1,"tolerations":[],
			"containers":[{"name":"web","image":"x:1","ports":[{"containerPort":80}]}]}`), `{"a":`+patch+`,"b":{}}`)
	}
	e.Step("patches", func() {
		for i, patch := range patches {
			w := e.Workload(fmt.Sprintf("patch-%d", i))
			isRefused(w, patch)
			e.Eventually(w.Images).Should(HaveKeyWithValue("b", "1"), "%s: subset b is not touched by it", patch)
		}
	})
	e.Step("one that is in order is not touched by any", func() {
		w.SetImage("v2")
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"a": "v2 v2"}))
	})
}

// createRaw creates a UnitedDeployment from a template and subsets with patches, all as JSON.
func createRaw(e *Env, name, template, patches string) {
	e.T.Helper()
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: name}}
	parent.Spec.Replicas = new(int32(2))
	app := name
	if strings.HasPrefix(name, "template-") {
		app = "odd"
	}
	parent.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	parent.Spec.Template.StatefulSetTemplate = &runtime.RawExtension{Raw: []byte(template)}
	for subset, patch := range FromJSON[map[string]rawJSON](e, patches) {
		s := v1alpha1.Subset{Name: subset, Tolerations: []corev1.Toleration{{Key: "x"}}, NodeSelector: inZone("zone-" + subset)}
		if string(patch) != "null" {
			s.Patch = &runtime.RawExtension{Raw: patch}
		}
		parent.Spec.Topology.Subsets = append(parent.Spec.Topology.Subsets, s)
	}
	e.Expect(e.Client.Create(e.Ctx, parent)).To(Succeed(), template)
	e.DeleteAtEnd(parent) // the manager tries to write its children for ever
}

// isRefused waits until the parent reports clearly that it cannot be carried out.
func isRefused(w *Workload, what string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(w.Get(w.Ctx, w.Key(w.Name), parent)).To(Succeed())
		stalled := Condition(parent, v1alpha1.ConditionStalled)
		g.Expect(stalled.Status).To(Equal(metav1.ConditionTrue), "%s: %s: %v", w.Name, what, parent.Status.Conditions)
		g.Expect(stalled.Reason).To(BeElementOf(v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonApplyRefused), what)
		g.Expect(stalled.Message).To(Or(ContainSubstring("spec."), ContainSubstring("metadata."), ContainSubstring("statefulSetTemplate")), what)
	}).Should(Succeed())
}
