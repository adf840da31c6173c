// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// condition returns a condition of the parent, an empty one if it is missing.
func condition(parent *v1alpha1.UnitedDeployment, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(parent.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Stalls waits until the status of this generation reports that exactly this subset cannot make
// progress, with the reason and all of the words.
func (w *Workload) Stalls(subset, reason string, words ...string) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(w.Get(w.ctx, w.key(w.Name), parent)).To(Succeed())
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
		stalled := condition(parent, v1alpha1.ConditionStalled)
		g.Expect(stalled.Status).To(Equal(metav1.ConditionTrue), "Stalled; Ready says: %s", condition(parent, v1alpha1.ConditionReady).Message)
		g.Expect(stalled.Reason).To(Equal(reason))
		g.Expect(stalled.ObservedGeneration).To(Equal(parent.Generation))
		g.Expect(condition(parent, v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
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
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(w.Get(w.ctx, w.key(w.Name), parent)).To(Succeed())
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
		stalled := condition(parent, v1alpha1.ConditionStalled)
		g.Expect(stalled.Status).To(Equal(metav1.ConditionTrue), "Stalled; Ready says: %s", condition(parent, v1alpha1.ConditionReady).Message)
		g.Expect(stalled.Reason).To(Equal(reason))
		for _, word := range words {
			g.Expect(stalled.Message).To(ContainSubstring(word))
		}
	}).Should(Succeed())
}

// Runs waits until these images run, all of them ready.
func (w *Workload) Runs(want images) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		g.Expect(w.Images()).To(Equal(want))
		for _, p := range w.Pods() {
			g.Expect(p.Ready).To(BeTrue(), p.Name)
		}
	}).Should(Succeed())
}

// Raw returns every byte of an object as the API server has it.
func (e *env) Raw(kind, name string) string {
	e.t.Helper()
	path := fmt.Sprintf("/apis/apps/v1/namespaces/%s/%s/%s", e.Namespace, kind, name)
	raw, err := e.cluster.Kubectl(e.ctx, "get", "--raw", path)
	e.Expect(err).NotTo(HaveOccurred())
	return raw
}

// Kubectl runs kubectl in the namespace of the test.
func (e *env) Kubectl(args ...string) string {
	e.t.Helper()
	out, err := e.cluster.Kubectl(e.ctx, append([]string{"-n", e.Namespace}, args...)...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}

// remade forbids that an existing pod is recreated.
func remade(living []pod) rule {
	return func(i incarnation) string {
		if slices.ContainsFunc(living, func(p pod) bool { return p.Name == i.Name }) {
			return "it existed and was made anew"
		}
		return ""
	}
}

// PodSpec returns the pod spec in the template of a child.
func (w *Workload) PodSpec(subset string) corev1.PodSpec {
	w.t.Helper()
	return w.Child(subset).Spec.Template.Spec
}

// podsOf returns the complete pods of a subset.
func (w *Workload) podsOf(subset string) []corev1.Pod {
	w.t.Helper()
	list := &corev1.PodList{}
	w.Expect(w.List(w.ctx, list, client.InNamespace(w.Namespace),
		client.MatchingLabels{v1alpha1.LabelName: w.Name, v1alpha1.LabelSubset: subset})).To(Succeed())
	return list.Items
}

// rawJSON is JSON that is not decoded.
type rawJSON = json.RawMessage

// fromJSON decodes JSON, or fails the test.
func fromJSON[T any](e *env, text string) T {
	e.t.Helper()
	var v T
	e.Expect(json.Unmarshal([]byte(text), &v)).To(Succeed())
	return v
}
