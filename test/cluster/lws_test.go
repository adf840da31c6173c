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

// TestLWS: lws-manager runs groups of pods on this version of Kubernetes.
func TestLWS(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c, err := Start(t.Context(), Options{Log: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(c.Stop()).To(Succeed()) })
	g.Expect(c.StartLWS(t.Context())).To(Succeed())
	client, err := dynamic.NewForConfig(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	sets := client.Resource(schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}).Namespace(namespace)
	_, err = sets.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"replicas": int64(2), "leaderWorkerTemplate": map[string]any{
			"size": int64(3), "workerTemplate": map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "web", "image": "web:v1"}},
			}},
		}},
	}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) {
		got, err := sets.Get(t.Context(), "web", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		ready, _, _ := unstructured.NestedInt64(got.Object, "status", "readyReplicas")
		g.Expect(ready).To(Equal(int64(2)))
		pods, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace).
			List(t.Context(), metav1.ListOptions{LabelSelector: lwsSetName + "=web"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods.Items).To(HaveLen(6))
	}, waitTimeout).Should(Succeed())
}
