// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// podTemplates has the paths of a StatefulSet.
type podTemplates struct{ Adapter }

func (podTemplates) PodTemplates() [][]string { return [][]string{{"spec", "template"}} }

func (podTemplates) RevisionPaths() [][]string { return [][]string{{"spec", "template"}} }

// podTemplate returns a StatefulSet with a pod template.
func podTemplate(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {template: " + text + "}}"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAltered(t *testing.T) {
	const main = `{name: main, image: "app:1"`
	for _, tc := range []struct{ name, applied, live, want string }{
		{"the same", `{spec: {containers: [` + main + `}]}}`, `{spec: {containers: [` + main + `}]}}`, ""},
		{"defaults", `{spec: {containers: [` + main + `}]}}`,
			`{metadata: {creationTimestamp: null}, spec: {restartPolicy: Always, containers: [` + main + `, imagePullPolicy: Always}]}}`, ""},
		{"a quantity in other words", `{spec: {containers: [{name: main, resources: {requests: {memory: 1024Mi, cpu: 1}}}]}}`,
			`{spec: {containers: [{name: main, resources: {requests: {memory: 1Gi, cpu: "1"}}}]}}`, ""},
		{"a quantity finer than the API server keeps it", `{spec: {containers: [{name: main, resources: {requests: {cpu: 100u}}}]}}`,
			`{spec: {containers: [{name: main, resources: {requests: {cpu: 1m}}}]}}`, ""},
		{"another quantity", `{spec: {containers: [{name: main, resources: {requests: {memory: 1024Mi}}}]}}`,
			`{spec: {containers: [{name: main, resources: {requests: {memory: 2Gi}}}]}}`, `spec.template.spec.containers[0].resources.requests["memory"]`},
		{"a zero that has a default", `{spec: {containers: [{name: main, livenessProbe: {periodSeconds: 0}}]}}`,
			`{spec: {containers: [{name: main, livenessProbe: {periodSeconds: 10}}]}}`, ""},
		{"a sidecar, in front", `{spec: {containers: [` + main + `}]}}`, `{spec: {containers: [{name: mesh, image: "mesh:1"}, ` + main + `}]}}`, ""},
		{"labels, variables, volumes and tolerations more", `{metadata: {labels: {app: web}}, spec: {tolerations: [{key: a}], containers: [{name: main, env: [{name: A, value: "1"}], args: [x]}]}}`,
			`{metadata: {labels: {app: web, mesh: "on"}}, spec: {volumes: [{name: v}], tolerations: [{key: b}, {key: a}], containers: [{name: main, env: [{name: B, value: "2"}, {name: A, value: "1"}], args: [x, "--more"]}]}}`, ""},
		{"another image", `{spec: {containers: [` + main + `}]}}`, `{spec: {containers: [{name: main, image: "mirror/app:1"}]}}`, "spec.template.spec.containers[0].image"},
		{"another image in the second", `{spec: {containers: [` + main + `}, {name: b, image: "b:1"}]}}`,
			`{spec: {containers: [` + main + `}, {name: b, image: "b:2"}]}}`, "spec.template.spec.containers[1].image"},
		{"a container is gone", `{spec: {containers: [` + main + `}, {name: b, image: "b:1"}]}}`, `{spec: {containers: [` + main + `}]}}`, "spec.template.spec.containers[1]"},
		{"a label is gone", `{metadata: {labels: {app: web, team: x}}}`, `{metadata: {labels: {app: web}}}`, `spec.template.metadata.labels["team"]`},
		{"false is said", `{spec: {automountServiceAccountToken: false}}`, `{spec: {automountServiceAccountToken: true}}`, "spec.template.spec.automountServiceAccountToken"},
		{"the affinity is gone", `{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: a}]}]}}}}}`,
			`{spec: {}}`, "spec.template.spec.affinity"},
		{"another zone", `{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}}`,
			`{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}}}}`,
			"spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]"},
		{"another argument", `{spec: {containers: [{name: main, args: [a, b]}]}}`, `{spec: {containers: [{name: main, args: [a, c]}]}}`, "spec.template.spec.containers[0].args[1]"},
		{"a toleration is gone", `{spec: {tolerations: [{key: a}, {key: b}]}}`, `{spec: {tolerations: [{key: b}]}}`, "spec.template.spec.tolerations[0]"},
		{"a field that the API server has switched off", `{spec: {hostnameOverride: x}}`, `{spec: {}}`, ""},
		{"a field that the API server derives", `{spec: {serviceAccountName: a, serviceAccount: b}}`, `{spec: {serviceAccountName: a, serviceAccount: a}}`, ""},
		{"ports without names", `{spec: {containers: [{name: main, ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}]}]}}`,
			`{spec: {containers: [{name: main, ports: [{containerPort: 80, protocol: TCP}, {containerPort: 53, protocol: UDP}, {containerPort: 9, protocol: TCP}]}]}}`, ""},
		{"one thing for another", `{spec: {containers: [` + main + `}]}}`, `{spec: {containers: {main: {}}}}`, "spec.template.spec.containers"},
		{"nothing is there", `{spec: {containers: [` + main + `}]}}`, `{}`, ""}, // no API server stores this
	} {
		t.Run(tc.name, func(t *testing.T) {
			cached := podTemplate(t, tc.live)
			if err := Pack(cached); err != nil {
				t.Fatal(err)
			}
			if have := Altered(podTemplates{}, podTemplate(t, tc.applied), cached); have != tc.want {
				t.Errorf("in the cache: %q", have)
			}
			if have := Altered(podTemplates{}, podTemplate(t, tc.applied), podTemplate(t, tc.live)); have != tc.want {
				t.Errorf("want %q, have %q", tc.want, have)
			}
		})
	}
}

func TestOverruled(t *testing.T) {
	spec := func(text string) *unstructured.Unstructured {
		u := podTemplate(t, "{}")
		if err := yaml.Unmarshal([]byte("{apiVersion: apps/v1, kind: StatefulSet, spec: {"+text+"}}"), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, tc := range []struct{ name, applied, live, want string }{
		{"the same", `replicas: 2, minReadySeconds: 3`, `replicas: 2, minReadySeconds: 3`, ""},
		{"a zero that is not stored", `minReadySeconds: 0`, ``, ""},
		{"for a zero", `minReadySeconds: 0`, `minReadySeconds: 5`, "spec.minReadySeconds"},
		{"removed", `minReadySeconds: 5`, ``, "spec.minReadySeconds"},
		{"another service", `serviceName: web`, `serviceName: other`, "spec.serviceName"},
		{"a service that was not said", `serviceName: ""`, `serviceName: other`, ""},
		{"another policy", `podManagementPolicy: OrderedReady`, `podManagementPolicy: Parallel`, "spec.podManagementPolicy"},
		{"a label less", `selector: {matchLabels: {app: web, zone: a}}`, `selector: {matchLabels: {app: web}}`, `spec.selector.matchLabels["zone"]`},
		{"a label more", `selector: {matchLabels: {app: web}}`, `selector: {matchLabels: {app: web, team: x}}`, ""},
		{"another strategy", `strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}`, `strategy: {type: Recreate}`, "spec.strategy.type"},
		{
			"a field that the API server has switched off", `updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0, maxUnavailable: 1}}`,
			`updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}`, "",
		},
		{"defaults", `replicas: 2`, `replicas: 2, revisionHistoryLimit: 10, podManagementPolicy: OrderedReady`, ""},
		{"what pods are made of", `template: {spec: {a: b}}, volumeClaimTemplates: [{spec: {storageClassName: a}}]`, `template: {spec: {a: c}}, volumeClaimTemplates: [{spec: {storageClassName: b}}]`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if have := Overruled(podTemplates{}, spec(tc.applied), spec(tc.live)); have != tc.want {
				t.Errorf("want %q, have %q", tc.want, have)
			}
		})
	}
}

// Additions, anywhere, do not count as alterations of our fields.
func TestAdditionsAreNotAltered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := anyValue(t, 3)
		if at := (alteration{}).in(value, added(t, value), "x"); at != "" {
			t.Fatal(at, value)
		}
	})
}

func anyValue(t *rapid.T, depth int) any {
	kinds := []string{"text", "number", "bool"}
	if depth > 0 {
		kinds = append(kinds, "object", "list", "named")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "number":
		return rapid.Int64Range(0, 3).Draw(t, "number")
	case "bool":
		return rapid.Bool().Draw(t, "bool")
	case "object":
		object := map[string]any{}
		for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "labels", "env"}), rapid.ID).Draw(t, "keys") {
			object[key] = anyValue(t, depth-1)
		}
		return object
	case "list":
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, anyValue(t, depth-1))
		}
		return list
	case "named":
		list := []any{}
		for i := range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, map[string]any{"name": fmt.Sprint("n", i), "value": anyValue(t, depth-1)})
		}
		return list
	}
	return rapid.StringMatching("[a-z1]{0,2}").Draw(t, "text")
}

// added returns a value with additions to its objects and lists.
func added(t *rapid.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		object := map[string]any{}
		for key, member := range v {
			object[key] = added(t, member)
		}
		if _, named := v["name"]; !named && rapid.Bool().Draw(t, "add a member") {
			object["added"] = "x"
		}
		return object
	case []any:
		list := []any{}
		for _, item := range v {
			list = append(list, added(t, item))
		}
		if len(v) > 0 && rapid.Bool().Draw(t, "add an item") {
			list = append(list, map[string]any{"name": "added"})
		}
		return list
	}
	return v
}
