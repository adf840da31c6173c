// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/cluster"
)

// TestMonitoringObjects has the API server check the optional objects of the chart, those of the
// Prometheus operator with its own schemas.
func TestMonitoringObjects(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	const namespace = "monitoring-objects"
	e.Namespace(namespace, nil)
	bin, err := cluster.BinDir()
	e.Expect(err).NotTo(HaveOccurred())
	kubectl(e, "apply", "--server-side", "-f", filepath.Join(bin, "prometheus-operator", "crd.yaml"))
	kubectl(e, "wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com", "crd/prometheusrules.monitoring.coreos.com")

	// The Deployment is left out, because its pods would run.
	apply := func(text string) error {
		file := filepath.Join(t.TempDir(), "objects.yaml")
		e.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		_, err := Shared.Cluster.Kubectl(e.Ctx, "apply", "--server-side", "--validate=strict", "-f", file)
		return err
	}
	rendered := e.Helm("template", "united", e.Chart("united"), "--namespace="+namespace, "--show-only=templates/metrics.yaml",
		"--show-only=templates/prometheusrule.yaml", "--show-only=templates/dashboard.yaml", "--show-only=templates/networkpolicy.yaml",
		"--set=metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=30s,metrics.serviceMonitor.scrapeTimeout=10s",
		"--set=metrics.serviceMonitor.metricRelabelings[0].action=drop,metrics.serviceMonitor.metricRelabelings[0].regex=go_.*,metrics.serviceMonitor.metricRelabelings[0].sourceLabels[0]=__name__",
		"--set=metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true,networkPolicy.enabled=true",
		"--set=networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring")
	e.Eventually(func() error { return apply(rendered) }).Should(Succeed(), "discovery learns about the CRDs a moment later")

	kinds := map[string]int{}
	for _, object := range e.Decode([]byte(rendered)) {
		kinds[object.GetKind()]++
	}
	e.Expect(kinds).To(Equal(map[string]int{"Service": 1, "ServiceMonitor": 1, "PrometheusRule": 1, "ConfigMap": 1, "NetworkPolicy": 1}))

	rule := &unstructured.Unstructured{}
	rule.SetAPIVersion("monitoring.coreos.com/v1")
	rule.SetKind("PrometheusRule")
	rule.SetNamespace(namespace)
	rule.SetName("united")
	e.Expect(e.Get(e.Ctx, client.ObjectKeyFromObject(rule), rule)).To(Succeed())
	groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(groups).To(HaveLen(1))

	withSecret := e.Helm("template", "united", e.Chart("united"), "--namespace="+namespace, "--show-only=templates/metrics.yaml",
		"--set=metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.authorization.credentials.name=prometheus-token,metrics.serviceMonitor.authorization.credentials.key=token")
	e.Expect(apply(withSecret)).To(Succeed())

	wrong := "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: wrong, namespace: " + namespace + "}\nspec: {groups: [{name: united, rules: [{alert: A, expresion: up}]}]}\n"
	e.Expect(apply(wrong)).NotTo(Succeed(), "the control: the schemas are in force")
}
