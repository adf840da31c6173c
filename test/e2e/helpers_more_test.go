// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/united"
)

// templatePath is where a JSON patch finds the template, imagePath the image.
const (
	templatePath = "/spec/template/statefulSetTemplate"
	imagePath    = templatePath + "/spec/template/spec/containers/0/image"
)

// soundEnv is newEnv for a test that is out to crash the manager.
func soundEnv(t *testing.T) *env {
	t.Helper()
	t.Cleanup(func() {
		select {
		case <-shared.manager.Done():
			t.Errorf("the manager ended, see %s", shared.manager.LogPath())
		default:
		}
		log, err := os.ReadFile(shared.manager.LogPath())
		if err != nil {
			t.Error(err)
		}
		if panics := panicsIn(log); len(panics) > 0 {
			t.Errorf("the manager panicked, see %s:\n%s", shared.manager.LogPath(), strings.Join(panics, "\n"))
		}
	})
	return newEnv(t)
}

// panicsIn are the lines of a log that tell of a panic. One in a Reconcile does
// not end the process: controller-runtime recovers it and logs it.
func panicsIn(log []byte) []string {
	var panics []string
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("goroutine ")) {
			panics = append(panics, string(line))
		}
	}
	return panics
}

// TestPanicsAreSeen is the positive control of soundEnv.
func TestPanicsAreSeen(t *testing.T) {
	log := `{"level":"info","msg":"Starting workers"}
{"level":"error","msg":"Observed a panic","controller":"uniteddeployment","panic":"assignment to entry in nil map"}
panic: runtime error: index out of range [1] with length 1
`
	if panics := panicsIn([]byte(log)); len(panics) != 2 {
		t.Error(panics)
	}
}

// condition gives a condition of the parent, an empty one when it is not there.
func condition(parent *v1alpha1.UnitedDeployment, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(parent.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Stalls waits until the status of this generation says that the subset, and no
// other, cannot be brought on: with the reason, and all of the words.
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

// Raw is an object as the API server has it, every byte.
func (e *env) Raw(kind, name string) string {
	e.t.Helper()
	path := fmt.Sprintf("/apis/apps/v1/namespaces/%s/%s/%s", e.Namespace, kind, name)
	raw, err := shared.cluster.Kubectl(e.ctx, "get", "--raw", path)
	e.Expect(err).NotTo(HaveOccurred())
	return raw
}

// Kubectl runs kubectl in the namespace of the test.
func (e *env) Kubectl(args ...string) string {
	e.t.Helper()
	out, err := shared.cluster.Kubectl(e.ctx, append([]string{"-n", e.Namespace}, args...)...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}

// patched is a subset with a patch, on whatever nodes.
func patched(name, patch string) edit {
	return subset(v1alpha1.Subset{Name: name, Patch: &runtime.RawExtension{Raw: []byte(patch)}})
}

// remade forbids that a pod that exists is made anew.
func remade(living []pod) rule {
	return func(i incarnation) string {
		if slices.ContainsFunc(living, func(p pod) bool { return p.Name == i.Name }) {
			return "it existed and was made anew"
		}
		return ""
	}
}

// PodSpec is the pod spec in the template of a child.
func (w *Workload) PodSpec(subset string) corev1.PodSpec {
	w.t.Helper()
	return w.Child(subset).Spec.Template.Spec
}

// foreignSet is a StatefulSet of somebody else with one replica.
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

// CreateForeign creates a StatefulSet and waits until nothing of it changes any
// more by itself.
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

// podsOf are the whole pods of a subset.
func (w *Workload) podsOf(subset string) []corev1.Pod {
	w.t.Helper()
	list := &corev1.PodList{}
	w.Expect(w.List(w.ctx, list, client.InNamespace(w.Namespace),
		client.MatchingLabels{v1alpha1.LabelName: w.Name, v1alpha1.LabelSubset: subset})).To(Succeed())
	return list.Items
}

// rawJSON is JSON that is left as it is.
type rawJSON = json.RawMessage

// fromJSON reads JSON, or fails the test.
func fromJSON[T any](e *env, text string) T {
	e.t.Helper()
	var v T
	e.Expect(json.Unmarshal([]byte(text), &v)).To(Succeed())
	return v
}

// Deny makes the API server refuse the manager's writes to a StatefulSet that
// exists, until lift is called, as a policy of the cluster's owner can.
func (e *env) Deny(name string) (lift func()) {
	e.t.Helper()
	account := "system:serviceaccount:" + united.Namespace + ":" + united.ServiceAccount
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "freeze-" + e.Namespace}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{children}},
		},
	}}}
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: fmt.Sprintf("object.metadata.name != %q || request.userInfo.username != %q", name, account),
		Message:    "change freeze",
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: policy.ObjectMeta}
	binding.Spec.PolicyName = policy.Name
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	binding.Spec.MatchResources = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}},
	}
	e.Expect(e.Client.Create(e.ctx, policy)).To(Succeed())
	e.Expect(e.Client.Create(e.ctx, binding)).To(Succeed())
	e.Eventually(func() error {
		_, err := shared.cluster.Kubectl(e.ctx, "-n", e.Namespace, "patch", children, name, "--as="+account, "--dry-run=server",
			"--type=merge", "-p", `{"metadata":{"annotations":{"example.com/probe":"x"}}}`)
		return err
	}).Should(MatchError(ContainSubstring("change freeze")))
	return func() {
		e.t.Helper()
		e.Expect(e.Delete(e.ctx, binding)).To(Succeed())
		e.Expect(e.Delete(e.ctx, policy)).To(Succeed())
	}
}
