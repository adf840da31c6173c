// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// said collects the warnings of the API server.
type said struct{ warnings []string }

func (s *said) HandleWarningHeader(_ int, _, text string) { s.warnings = append(s.warnings, text) }

// TestAdvice checks what the chart warns of, and that it refuses none of it.
func TestAdvice(t *testing.T) {
	const namespace = "advice"
	g := NewWithT(t)
	core, err := kubernetes.NewForConfig(fixture.cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())
	_, err = core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{namespace: "true"}}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	installOfChart(t, "advice.yaml", "Warn", namespace)
	heard := &said{}
	config := rest.CopyConfig(fixture.cluster.Config())
	config.WarningHandler = heard
	client, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	create := func(partitions string, subsets ...string) []string {
		t.Helper()
		heard.warnings = nil
		list := "[]"
		for i, s := range subsets {
			list = list[:len(list)-1] + map[bool]string{true: ", "}[i > 0] + s + "]"
		}
		object := with(t, "web", put(`6`, "spec", "replicas"), put(list, "spec", "topology", "subsets"),
			put(`{type: Manual, manualUpdate: {partitions: `+partitions+`}}`, "spec", "updateStrategy"))
		object.SetNamespace(namespace)
		_, err := client.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
		g.Expect(err).NotTo(HaveOccurred())
		return heard.warnings
	}
	const placed = `nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}`
	a, b := `{name: zone-a, replicas: 3, `+placed+`}`, `{name: zone-b, `+placed+`}`
	g.Eventually(func() []string { return create(`{zone-a: 3}`, a, b) }).WithTimeout(time.Minute).Should(ConsistOf(
		HaveSuffix(`spec.updateStrategy.manualUpdate.partitions: 3 for zone-a protects all of its replicas, so it releases nothing: to hold it, also when it grows, write "100%"`)))
	for _, partitions := range []string{`{zone-a: "99%"}`, `{zone-a: "67%"}`, `{zone-a: 2147483647}`, `{zone-b: 6}`} {
		g.Expect(create(partitions, a, b)).To(ConsistOf(ContainSubstring("protects all of its replicas")), partitions)
	}
	for _, partitions := range []string{`{}`, `{zone-a: "100%"}`, `{zone-a: "66%"}`, `{zone-a: 2}`, `{zone-a: 0, zone-b: "99%"}`, `{zone-b: 5}`} {
		g.Expect(create(partitions, a, b)).To(BeEmpty(), partitions)
	}
	for _, name := range []string{"zone-a", "zone1", "az-b", "eu-west-1", "eu-west-1a", "europe-west1-b"} {
		g.Expect(create(`{}`, b, `{name: `+name+`}`)).To(ConsistOf(HaveSuffix("spec.topology.subsets: "+name+" is named like a zone, but has no nodeSelector, so its pods can be on any node")), name)
	}
	for _, name := range []string{"prefill", "decode", "spot", "on-demand", "blue", "rest"} {
		g.Expect(create(`{}`, b, `{name: `+name+`}`)).To(BeEmpty(), name)
	}
	// As many as there can be are within the cost budget.
	many, all := []string{}, "{"
	for i := range 99 {
		many = append(many, fmt.Sprintf(`{name: pool-of-a-rather-long-name-%d, replicas: 1, %s}`, i, placed))
		all += fmt.Sprintf(`pool-of-a-rather-long-name-%d: 0, `, i)
	}
	g.Expect(create(all+`zone-z: 1}`, append(many, `{name: zone-z, replicas: 1}`)...)).To(ConsistOf(ContainSubstring("zone-z is named"), ContainSubstring("1 for zone-z protects")))
}
