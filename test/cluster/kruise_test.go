// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// TestKruise: kruise-manager runs its workloads on this version of Kubernetes, next to that of another cluster.
func TestKruise(t *testing.T) {
	for _, name := range []string{"one", "another"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			c, err := Start(t.Context(), Options{Log: t.Output()})
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
			g.Expect(c.StartKruise(t.Context())).To(Succeed())
			client, err := dynamic.NewForConfig(c.Config())
			g.Expect(err).NotTo(HaveOccurred())
			for version, kind := range map[string]string{"v1alpha1": "CloneSet", "v1beta1": "StatefulSet"} {
				labels := map[string]any{"app": kind}
				resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: "apps.kruise.io", Version: version, Kind: kind})
				workload := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "apps.kruise.io/" + version, "kind": kind, "metadata": map[string]any{"name": "web"},
					"spec": map[string]any{
						"replicas": int64(2), "selector": map[string]any{"matchLabels": labels},
						"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
							"containers": []any{map[string]any{"name": "web", "image": "web:v1"}},
						}},
					},
				}}
				workloads := client.Resource(resource).Namespace(namespace)
				_, err := workloads.Create(t.Context(), workload, metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Eventually(func(g Gomega) {
					got, err := workloads.Get(t.Context(), "web", metav1.GetOptions{})
					g.Expect(err).NotTo(HaveOccurred())
					ready, _, _ := unstructured.NestedInt64(got.Object, "status", "readyReplicas")
					g.Expect(ready).To(Equal(int64(2)))
				}, waitTimeout).Should(Succeed())
			}
		})
	}
}
