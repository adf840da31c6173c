// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Slowly makes a Deployment replace its replicas one after the other, without surplus.
func Slowly() Edit {
	return TemplateField(map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(1), "maxSurge": int64(0)}}, "spec", "strategy")
}

// Git is a manifest that tools apply.
type Git map[string]any

// Apply runs kubectl apply with a manifest.
func (e *Env) Apply(manifest Git, args ...string) {
	e.T.Helper()
	raw, err := json.Marshal(manifest)
	e.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(e.T.TempDir(), "manifest.json")
	e.Expect(os.WriteFile(file, raw, 0o600)).To(Succeed())
	e.Kubectl(append([]string{"apply", "-f", file}, args...)...)
}

// NotReady waits until Ready is False for the reason, and Stalled has the status, and returns the object.
func (w *Workload) NotReady(reason string, stalled metav1.ConditionStatus) *unstructured.Unstructured {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
		g.Expect(Condition(parent, v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
		g.Expect(Condition(parent, v1alpha1.ConditionReady).Reason).To(Equal(reason), Condition(parent, v1alpha1.ConditionReady).Message)
		g.Expect(Condition(parent, v1alpha1.ConditionStalled).Status).To(Equal(stalled))
	}).Should(Succeed())
	return w.Object()
}

// ShowsReady waits until Ready is True for the reason, and returns the object.
func (w *Workload) ShowsReady(reason string) *unstructured.Unstructured {
	w.T.Helper()
	w.IsReady(reason)
	return w.Object()
}

// seedVariable sets the seed of all random actions, to explore new runs or to repeat one.
const seedVariable = "UNITED_E2E_SEED"

func SeedOfTest(e *Env) uint64 {
	e.T.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	e.Expect(err).NotTo(HaveOccurred())
	return seed
}

// Reacts changes the partition, and checks that the child changes.
func (w *Workload) Reacts() {
	w.T.Helper()
	of := func() int32 { return *w.Child("zone-a").Spec.UpdateStrategy.RollingUpdate.Partition }
	want := int32(7)
	if of() == want {
		want = 8
	}
	began := time.Now()
	w.SetPartitions(Parts{"zone-a": want})
	w.Eventually(of).WithPolling(20 * time.Millisecond).Should(Equal(want))
	w.T.Logf("the control reacts in %s", time.Since(began).Round(time.Millisecond))
}

// Condition returns a condition of the parent, an empty one if it is missing.
func Condition(parent *v1alpha1.UnitedDeployment, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(parent.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Stalls waits until the status of this generation reports that exactly this subset cannot make
// progress, with the reason and all of the words.
func (w *Workload) Stalls(subset, reason string, words ...string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(w.Get(w.Ctx, w.Key(w.Name), parent)).To(Succeed())
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
		stalled := Condition(parent, v1alpha1.ConditionStalled)
		g.Expect(stalled.Status).To(Equal(metav1.ConditionTrue), "Stalled; Ready says: %s", Condition(parent, v1alpha1.ConditionReady).Message)
		g.Expect(stalled.Reason).To(Equal(reason))
		g.Expect(stalled.ObservedGeneration).To(Equal(parent.Generation))
		g.Expect(Condition(parent, v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
		for _, s := range parent.Status.Subsets {
			g.Expect(s.Phase == v1alpha1.PhaseStalled).To(Equal(s.Name == subset), "%s is %s", s.Name, s.Phase)
			if s.Name != subset {
				continue
			}
			g.Expect(stalled.Message).To(ContainSubstring(subset + ": " + s.Message))
			for _, word := range words {
				g.Expect(s.Message).To(ContainSubstring(word))
			}
		}
	}).Should(Succeed())
}

// StallsWhole waits until the condition Stalled of this generation is True with
// the reason and all of the words.
func (w *Workload) StallsWhole(reason string, words ...string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(w.Get(w.Ctx, w.Key(w.Name), parent)).To(Succeed())
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
		stalled := Condition(parent, v1alpha1.ConditionStalled)
		g.Expect(stalled.Status).To(Equal(metav1.ConditionTrue), "Stalled; Ready says: %s", Condition(parent, v1alpha1.ConditionReady).Message)
		g.Expect(stalled.Reason).To(Equal(reason))
		for _, word := range words {
			g.Expect(stalled.Message).To(ContainSubstring(word))
		}
	}).Should(Succeed())
}

// Runs waits until these images run, all of them ready.
func (w *Workload) Runs(want Images) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		g.Expect(w.Images()).To(Equal(want))
		for _, p := range w.Pods() {
			g.Expect(p.Ready).To(BeTrue(), p.Name)
		}
	}).Should(Succeed())
}

// Raw returns every byte of an object as the API server has it.
func (e *Env) Raw(kind, name string) string {
	e.T.Helper()
	path := fmt.Sprintf("/apis/apps/v1/namespaces/%s/%s/%s", e.Namespace, kind, name)
	raw, err := e.Cluster.Kubectl(e.Ctx, "get", "--raw", path)
	e.Expect(err).NotTo(HaveOccurred())
	return raw
}

// Kubectl runs kubectl in the namespace of the test.
func (e *Env) Kubectl(args ...string) string {
	e.T.Helper()
	out, err := e.Cluster.Kubectl(e.Ctx, append([]string{"-n", e.Namespace}, args...)...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}

// Remade forbids that an existing pod is recreated.
func Remade(living []Pod) Rule {
	return func(i Incarnation) string {
		if slices.ContainsFunc(living, func(p Pod) bool { return p.Name == i.Name }) {
			return "it existed and was made anew"
		}
		return ""
	}
}

// PodSpec returns the pod spec in the template of a child.
func (w *Workload) PodSpec(subset string) corev1.PodSpec {
	w.T.Helper()
	return w.Child(subset).Spec.Template.Spec
}

// PodsOf returns the complete pods of a subset.
func (w *Workload) PodsOf(subset string) []corev1.Pod {
	w.T.Helper()
	list := &corev1.PodList{}
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace),
		client.MatchingLabels{v1alpha1.LabelName: w.Name, v1alpha1.LabelSubset: subset})).To(Succeed())
	return list.Items
}

// FromJSON decodes JSON, or fails the test.
func FromJSON[T any](e *Env, text string) T {
	e.T.Helper()
	var v T
	e.Expect(json.Unmarshal([]byte(text), &v)).To(Succeed())
	return v
}
