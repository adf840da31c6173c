// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// scheduled sets a schedule strategy in the sample.
func scheduled(strategy string) edit { return put(strategy, "spec", "topology", "scheduleStrategy") }

// TestScheduleStrategy checks schedule strategies at admission, and in the controller, which repeats
// the checks.
func TestScheduleStrategy(t *testing.T) {
	const field = "spec.topology.scheduleStrategy"
	unbounded := bounded(``, ``, ``)
	refusals := []struct {
		refusal
		// schema: only the schema refuses it.
		schema bool
	}{
		{refusal{"replicas beside Adaptive", scheduled(`{type: Adaptive}`),
			[]string{"spec.topology.subsets: ", "replicas cannot be used with scheduleStrategy Adaptive"}}, false},
		{refusal{"times without Adaptive", all(unbounded, scheduled(`{adaptive: {retryAfterSeconds: 1}}`)),
			[]string{field + ".adaptive: ", "is only for type Adaptive"}}, false},
		{refusal{"another type", all(unbounded, scheduled(`{type: Elastic}`)), []string{field + ".type: ", `"Fixed", "Adaptive"`}}, false},
		{refusal{"no time to find a node", all(unbounded, scheduled(`{type: Adaptive, adaptive: {rescheduleAfterSeconds: 0}}`)),
			[]string{field + ".adaptive.rescheduleAfterSeconds: ", "greater than or equal to 1"}}, true},
		{refusal{"a time before", all(unbounded, scheduled(`{type: Adaptive, adaptive: {retryAfterSeconds: -1}}`)),
			[]string{field + ".adaptive.retryAfterSeconds: ", "greater than or equal to 0"}}, true},
		{refusal{"a maximum everywhere", all(bounded(`maxReplicas: 1`, `maxReplicas: 1`, `maxReplicas: 1`), scheduled(`{type: Adaptive}`)),
			[]string{"spec.topology.subsets: ", "at least one subset must have no maxReplicas"}}, false},
	}
	for _, r := range refusals {
		t.Run(r.title, func(t *testing.T) {
			expectRefused(t, "", r.refusal)
			if r.schema {
				return
			}
			g := NewWithT(t)
			_, err := spec.Read(decode(g, with(t, "refused", r.edit)), adapters.Registry{statefulset.New()})
			g.Expect(err).To(MatchError(ContainSubstring("spec.topology.")))
		})
	}
	refuseReserve(t)
	for title, edit := range map[string]edit{
		"Fixed, with replicas": scheduled(`{type: Fixed}`),
		"no type":              scheduled(`{}`),
		"Adaptive":             all(unbounded, scheduled(`{type: Adaptive}`)),
		"reserve":              all(unbounded, parallel, scheduled(`{type: Adaptive, adaptive: {reserveUnschedulablePods: true}}`)),
		"no reserve":           all(unbounded, scheduled(`{type: Adaptive, adaptive: {reserveUnschedulablePods: false}}`)),
		"with bounds and times": all(bounded(`minReplicas: 1, maxReplicas: "50%"`, `maxReplicas: 2`, ``),
			scheduled(`{type: Adaptive, adaptive: {rescheduleAfterSeconds: 1, retryAfterSeconds: 0}}`)),
	} {
		t.Run(title, func(t *testing.T) {
			g := NewWithT(t)
			object := with(t, "accepted", edit)
			_, err := spec.Read(decode(g, object), adapters.Registry{statefulset.New()})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = deployments().Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
	t.Run("defaults", func(t *testing.T) {
		g := NewWithT(t)
		made, err := deployments().Create(t.Context(), with(t, "accepted", all(unbounded, scheduled(`{type: Adaptive, adaptive: {}}`))), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		g.Expect(err).NotTo(HaveOccurred())
		got, _, _ := unstructured.NestedMap(made.Object, "spec", "topology", "scheduleStrategy", "adaptive")
		g.Expect(got).To(Equal(map[string]any{"rescheduleAfterSeconds": int64(30), "retryAfterSeconds": int64(300)}))
	})
}

var parallel = put(`Parallel`, inTemplate("spec", "podManagementPolicy")...)

// refuseReserve: replicas without a node must not keep others from being made or updated.
func refuseReserve(t *testing.T) {
	t.Helper()
	const field = "spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods"
	reserve := all(bounded(``, ``, ``), scheduled(`{type: Adaptive, adaptive: {reserveUnschedulablePods: true}}`))
	t.Run("reserve, Deployment", func(t *testing.T) {
		deployment := all(drop("spec", "template", "statefulSetTemplate"), put(`{spec: {template: {metadata: {labels: {app: web}}}}}`, "spec", "template", "deploymentTemplate"))
		expectRefused(t, "", refusal{"", all(reserve, deployment), []string{field + ": ", "is only for statefulSetTemplate"}})
	})
	for title, r := range map[string]refusal{
		"reserve, OrderedReady": {"", all(reserve, put(`OrderedReady`, inTemplate("spec", "podManagementPolicy")...)), []string{field + ": ", "requires podManagementPolicy Parallel"}},
		"reserve, no policy":    {"", all(reserve, drop(inTemplate("spec", "podManagementPolicy")...)), []string{field + ": ", "requires podManagementPolicy Parallel"}},
	} {
		t.Run(title, func(t *testing.T) {
			expectRefused(t, "", r)
			g := NewWithT(t)
			_, err := spec.Read(decode(g, with(t, "refused", r.edit)), adapters.Registry{statefulset.New()})
			g.Expect(err).To(MatchError(ContainSubstring(field)))
		})
	}
}
