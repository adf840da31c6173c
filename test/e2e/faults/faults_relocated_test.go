// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// relocated removes zones and adds them again with another nodeSelector while no manager can write anything. They are moved one
// after the other, within maxUnavailable.
func relocated(t *testing.T, p *Plane) {
	t.Parallel()
	k := p.NewManagerPair(t)
	w := k.Create(NewDraft("web", Replicas(6), FirstImage("slow-v1"), Zones("", "", ""), Rolling(`{maxUnavailable: 1}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	ledger := w.Ledger(6)
	k.Use(func(c *Call, s Send) (*http.Response, error) {
		if c.Method != http.MethodGet && !strings.Contains(c.URL.Path, "/leases") {
			return nil, ErrCut
		}
		return s()
	})
	subsets := w.Parent().Spec.Topology.Subsets
	edit := func(to []v1alpha1.Subset) {
		t.Helper()
		raw, err := json.Marshal(to)
		k.Expect(err).NotTo(HaveOccurred())
		w.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets","value":%s}]`, raw)
	}
	edit(subsets[2:])
	for i, name := range []string{"zone-a-2", "zone-b-1"} {
		subsets[i].NodeSelector.NodeSelectorTerms[0].MatchExpressions[0] = corev1.NodeSelectorRequirement{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
		}
	}
	edit(subsets)
	k.Use(Pass)
	k.Eventually(func(g Gomega) {
		for zone, node := range map[string]string{"zone-a": "zone-a-2", "zone-b": "zone-b-1"} {
			pods := w.PodsOf(zone)
			g.Expect(pods).To(HaveLen(2))
			g.Expect(pods).To(HaveEach(HaveField("Spec.NodeName", node)))
		}
	}).WithTimeout(RolloutTimeout).Should(Succeed())
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	ledger.Within(1)
}
