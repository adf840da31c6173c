// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/advancedstatefulset"
	"github.com/unitedworkloads/united/adapters/leaderworkerset"
	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/adapters/statefulset"
)

// buildGrouped builds a child from a template in which PODS stands for the pod template.
func buildGrouped(t *testing.T, a adapters.Adapter, template, pods string, c *render.Colocation) map[string]any {
	t.Helper()
	ch := child(object(t, strings.ReplaceAll(template, "PODS", pods)), nil)
	ch.Colocation, ch.NodeSelector, ch.Tolerations = c, nil, nil
	var err error
	if ch.RevisionTemplate, err = adapters.RevisionData(a, ch.Template); err != nil {
		t.Fatal(err)
	}
	built, err := adapters.Build(a, ch)
	if err != nil {
		t.Fatal(err)
	}
	return built.Object
}

// Members of groups have the mark that the policy reads, the gate that it removes, and an affinity whose value it
// provides, on all pod templates. What the user wrote stays.
func TestColocation(t *testing.T) {
	const groups = "spec: {leaderWorkerTemplate: {workerTemplate: PODS, leaderTemplate: PODS}}"
	plain := "{metadata: {labels: {app: web}}, spec: {containers: []}}"
	grouped := &render.Colocation{ID: "id", TopologyKey: "zone", Ratio: 2, Start: 5}
	for _, tc := range []struct {
		adapter  adapters.Adapter
		template string
		at       [][]string
	}{
		{statefulset.New(), "spec: {template: PODS}", [][]string{{"spec", "template"}}},
		{advancedstatefulset.New(), "spec: {template: PODS}", [][]string{{"spec", "template"}}},
		{leaderworkerset.New(), groups, [][]string{{"spec", "leaderWorkerTemplate", "workerTemplate"}, {"spec", "leaderWorkerTemplate", "leaderTemplate"}}},
		{leaderworkerset.New(), "spec: {leaderWorkerTemplate: {workerTemplate: PODS}}", [][]string{{"spec", "leaderWorkerTemplate", "workerTemplate"}}},
	} {
		with, without := buildGrouped(t, tc.adapter, tc.template, plain, grouped), buildGrouped(t, tc.adapter, tc.template, plain, nil)
		for _, at := range tc.at {
			got, _, _ := unstructured.NestedMap(with, at...)
			labels := got["metadata"].(map[string]any)["labels"].(map[string]any)
			if labels["united.dev/colocation-ratio"] != "2" || labels["united.dev/colocation"] != "id" || labels["united.dev/colocation-group"] != nil {
				t.Error(at, labels)
			}
			if diff := cmp.Diff(map[string]any{"united.dev/colocation-start": "5"}, got["metadata"].(map[string]any)["annotations"]); diff != "" {
				t.Error(at, diff)
			}
			want := object(t, `{containers: [], schedulingGates: [{name: united.dev/colocation}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
				{topologyKey: zone, matchLabelKeys: [united.dev/colocation-group], labelSelector: {
				matchLabels: {united.dev/name: web, united.dev/colocation: id}}}]}}}`)
			if diff := cmp.Diff(want, got["spec"]); diff != "" {
				t.Error(at, diff)
			}
		}
		if raw, _ := (&unstructured.Unstructured{Object: without}).MarshalJSON(); strings.Contains(string(raw), "colocation") {
			t.Errorf("without groups: %s", raw)
		}
	}
}

func TestExclusiveColocation(t *testing.T) {
	pods := `{metadata: {labels: {app: web}}, spec: {schedulingGates: [{name: mine}], affinity: {
		podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]},
		podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: host}]}}}}`
	built := buildGrouped(t, statefulset.New(), "spec: {template: PODS}", pods, &render.Colocation{ID: "id", TopologyKey: "zone", Exclusive: true, Ratio: 1})
	got, _, _ := unstructured.NestedMap(built, "spec", "template", "spec")
	want := object(t, `{schedulingGates: [{name: mine}, {name: united.dev/colocation}], affinity: {
		podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}], requiredDuringSchedulingIgnoredDuringExecution: [
			{topologyKey: zone, matchLabelKeys: [united.dev/colocation-group], labelSelector: {
			matchLabels: {united.dev/name: web, united.dev/colocation: id}}}]},
		podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: host},
			{topologyKey: zone, mismatchLabelKeys: [united.dev/colocation-group], labelSelector: {
			matchLabels: {united.dev/name: web, united.dev/colocation: id}}}]}}}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"schedulingGates: x", "affinity: x", "affinity: {podAffinity: x}", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: x}}"} {
		pods := map[string]any{"spec": object(t, bad)}
		if err := render.Colocate(pods, "web", &render.Colocation{Exclusive: true, Ratio: 1}); err == nil {
			t.Error(bad, " is not rejected")
		}
	}
	for _, bad := range []string{"metadata: x", "metadata: {labels: x}", "metadata: {annotations: x}", "spec: x"} {
		if err := render.Colocate(object(t, bad), "web", &render.Colocation{Ratio: 1}); err == nil {
			t.Error(bad, " is not rejected")
		}
	}
}

// A replica with the gate says so, and has no verdict of a scheduler.
func TestGatedReplica(t *testing.T) {
	r := adapters.Replica{Name: "web-0", Gated: true, Unschedulable: "x"}
	if got := r.Describe(); got != "web-0 (has the scheduling gate united.dev/colocation)" {
		t.Error(got)
	}
}
