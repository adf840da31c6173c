// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestContractOfInstalled checks the contract of the other kinds.
func TestContractOfInstalled(t *testing.T) { EachKind(t, Installed(), Contract) }

// TestKindsAdmission checks what is refused for one kind but not for another.
func TestKindsAdmission(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	for _, tc := range []struct {
		name string
		edit Edit
		want []string
	}{
		{"a partition that divides", Partitions(Parts{"zone-a": 1}), []string{"spec.updateStrategy.manualUpdate.partitions", `"100%"`}},
		{"a percentage that divides", Partitions(Parts{"zone-a": "50%"}), []string{"spec.updateStrategy.manualUpdate.partitions", `"100%"`}},
		{"a step that divides", Rolling(`{"steps":[{"subsets":["*"],"partition":"50%"}]}`), []string{"spec.updateStrategy.rollingUpdate.steps", `"100%"`}},
		{"a floor that divides", Rolling(`{"partition":3}`), []string{"spec.updateStrategy.rollingUpdate.partition"}},
		{"skew", Rolling(`{"maxSkew":"10%"}`), []string{"spec.updateStrategy.rollingUpdate.maxSkew", "Sequential"}},
		{"replicas", TemplateField(int64(3), "spec", "replicas"), []string{"spec.template.deploymentTemplate.spec.replicas"}},
		{"paused", TemplateField(true, "spec", "paused"), []string{"spec.template.deploymentTemplate.spec.paused", "spec.paused"}},
		{"all at once in a coordinated rollout", func(d *Draft) {
			Rolling(`{}`)(d)
			TemplateField("Recreate", "spec", "strategy", "type")(d)
		}, []string{"spec.template.deploymentTemplate.spec.strategy.type"}},
		{"maxUnavailable in a coordinated rollout", func(d *Draft) {
			Rolling(`{}`)(d)
			TemplateField(int64(2), "spec", "strategy", "rollingUpdate", "maxUnavailable")(d)
		}, []string{"spec.template.deploymentTemplate.spec.strategy.rollingUpdate.maxUnavailable"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := e.TryCreate(NewDraft("web", Zones("", ""), Deployments, tc.edit))
			for _, word := range tc.want {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q in: %v", word, err)
				}
			}
		})
	}
	// The control: a StatefulSet accepts what is refused for a Deployment, and vice versa.
	w := e.Create(NewDraft("sets", Replicas(0), Zones("", ""), Partitions(Parts{"zone-a": "50%"})))
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"template":{"deploymentTemplate":{},"statefulSetTemplate":null}}}`)).
		To(MatchError(ContainSubstring("the kind of the template is immutable")))
	e.Create(NewDraft("all-at-once", Replicas(0), Zones("", ""), Deployments, Partitions(Parts{"zone-a": "0%", "zone-b": 0}),
		TemplateField("Recreate", "spec", "strategy", "type")))
}
