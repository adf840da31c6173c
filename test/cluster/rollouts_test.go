// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// TestRollouts: the controller of Argo Rollouts works on AnalysisRuns on this version of Kubernetes, and the pods of a Job end as
// their tag says.
func TestRollouts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c, err := Start(t.Context(), Options{Log: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
	g.Expect(c.StartRollouts(t.Context())).To(Succeed())
	client, err := dynamic.NewForConfig(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	runs := client.Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "analysisruns"}).Namespace(namespace)
	for tag, phase := range map[string]string{"v1": "Successful", "fail": "Failed"} {
		_, err = runs.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisRun", "metadata": map[string]any{"name": tag},
			"spec": map[string]any{"metrics": []any{map[string]any{"name": "smoke", "provider": map[string]any{"job": map[string]any{
				"spec": map[string]any{"backoffLimit": int64(0), "template": map[string]any{"spec": map[string]any{
					"restartPolicy": "Never", "containers": []any{map[string]any{"name": "smoke", "image": "smoke:" + tag}},
				}}},
			}}}}},
		}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(func() string {
			run, err := runs.Get(t.Context(), tag, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			is, _, _ := unstructured.NestedString(run.Object, "status", "phase")
			return is
		}, waitTimeout).Should(Equal(phase))
	}
}
