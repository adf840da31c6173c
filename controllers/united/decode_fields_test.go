// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// everyField has each field of the schema that has a type, except those of TestEveryField.
const everyField = `
spec:
  replicas: 4
  minReadySeconds: 1
  revisionHistoryLimit: 2
  progressDeadlineSeconds: 60
  paused: false
  versionLabel: TemplateHash
  selector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: In, values: [web]}]}
  template:
    statefulSetTemplate:
      metadata: {labels: {app: web}}
      spec: {podManagementPolicy: Parallel, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: x}]}}}
  topology:
    scheduleStrategy: %s
    subsets:
    - name: b
    - name: a
      %s
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: In, values: [v]}], matchFields: [{key: metadata.name, operator: In, values: [v]}]}]}
      tolerations: [{key: k, operator: Equal, value: v, effect: NoExecute, tolerationSeconds: 5}]
      patch: {}
  updateStrategy: %s
status:
  observedGeneration: 1
  replicas: 4
  readyReplicas: 4
  availableReplicas: 4
  updatedReplicas: 4
  updatedReadyReplicas: 4
  selector: app=web
  summary: s
  currentRevision: web-1
  updateRevision: web-2
  lastProgressTime: "2026-01-01T00:00:00Z"
  pausedTime: "2026-01-01T00:00:00Z"
  resumedTime: "2026-01-01T00:00:00Z"
  conditions: [{type: Ready, status: "True", reason: R, message: m, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  rollout:
    revision: web-2
    phase: Paused
    message: m
    step: 1
    stepKey: k
    startTime: "2026-01-01T00:00:00Z"
    reachedTime: "2026-01-01T00:00:00Z"
    soakedSeconds: 5
    lastProgressTime: "2026-01-01T00:00:00Z"
    forced: true
    promoted: true
    retried: a1b2c3d4
    spent: 0c1b2a3d
    rejectedRevision: web-2
    checks: [{name: c, state: Failed, message: m, sinceTime: "2026-01-01T00:00:00Z", failingTime: "2026-01-01T00:00:00Z", run: job/x, step: 1, key: a1b2c3d4}]
    approvalKey: k
  subsets:
  - name: a
    workload: web-a
    replicas: 4
    desiredReplicas: 4
    readyReplicas: 4
    availableReplicas: 4
    updatedReplicas: 4
    updatedReadyReplicas: 4
    expectedUpdatedReplicas: 4
    partition: 0
    currentRevision: web-1
    updateRevision: web-2
    phase: Held
    message: m
    cap: {replicas: 1, reserved: 1, message: m, sinceTime: "2026-01-01T00:00:00Z", clearedTime: "2026-01-01T00:00:00Z"}
    record: eyJ1aWQiOiJ1IiwiZ2VuZXJhdGlvbiI6MSwiaGFzaCI6ImgiLCJhbm5vdGF0aW9ucyI6eyJrIjoidiJ9LCJjaGVja3N1bSI6ImMifQ==
    conditions: [{type: Schedulable, status: "True", reason: R, message: m, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`

// variants have the fields that exclude each other: of the topology, a subset and the strategy.
func variants() [][]any {
	return [][]any{
		{`{type: Fixed}`, "replicas: 2", `{type: Manual, manualUpdate: {revision: web-1, defaultPartition: 100%, partitions: {a: 50%}}}`},
		{
			`{type: Adaptive, adaptive: {rescheduleAfterSeconds: 30, retryAfterSeconds: 300, reserveUnschedulablePods: true}}`,
			"minReplicas: 1\n      maxReplicas: 50%",
			`{type: RollingUpdate, rollingUpdate: {partition: 0, maxUnavailable: 1, maxUnavailablePerSubset: 1, maxSkew: 5%, maxSkewSubsets: [a], rollbackRevisions: 2, onFailure: Rollback, order: Parallel, steps: [{subsets: [a], partition: 1, pause: {duration: 1m}}], checks: [{name: c, objectCondition: {apiVersion: a.io/v1, kind: Kind, name: x, type: Healthy, status: "True"}}, {name: d, prometheus: {server: s, query: "${pods}", min: "0", max: "1", maxRatio: "2", interval: 30s, failureLimit: 2, noData: Hold}}, {name: e, job: {template: {}}}, {name: f, analysis: {templateName: t, clusterScope: true, args: [{name: a, value: b}]}}]}}`,
		},
		{
			"{type: Fixed}\n    colocation: {topologyKey: kubernetes.io/hostname, ratios: {a: 2, b: 1}, order: Sequential, exclusive: true, timeoutSeconds: 60}",
			"", `{type: Manual, manualUpdate: {partitions: {a: 50%}}}`,
		},
	}
}

// hostile returns values that a schema may allow in the place of one although Go, or what is calculated with them, may
// not bear them.
func hostile(instead any) []any {
	values := []any{nil, true, "x", int64(1), 1.5, []any{}, map[string]any{}}
	text, isText := instead.(string)
	if _, isNumber := instead.(json.Number); isNumber || strings.HasSuffix(text, "%") {
		values = append(values, int64(-1), int64(0), int64(2147483647), int64(2147483648), int64(-2147483649),
			int64(9223372036854775807), int64(-9223372036854775808),
			1e25, json.Number("1e400"), json.Number("1.0"), json.Number("-0"), json.Number("99999999999999999999"),
			"0%", "50%", "100%", "101%", "-1%", "0000000000000%", "9223372036854775808%", strings.Repeat("9", 2000)+"%", "1.5%", " 1%", "1% ", "١%")
	}
	if isText {
		values = append(values, "", "\x00", "\u2028", strings.Repeat("a", 100))
	}
	switch {
	case strings.HasSuffix(text, "Z"):
		values = append(values, "2026-01-01t00:00:00z", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:60Z", "2026-02-29T00:00:00Z",
			"2026-01-01T24:00:00Z", "2026-01-01T00:00:00.1Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00Z\n", "٢٠26-01-01T00:00:00Z")
	case text == "1m":
		values = append(values, "0s", "-1s", "1ns", "9999999999h", "2562047h", "1e9s", "P1D", "1m\n", "Inf")
	}
	return values
}

// TestEveryField puts hostile values into each field of the schema. What the API server stores, Go can decode, and a pass
// can calculate with.
func TestEveryField(t *testing.T) {
	a := newAdmission(t)
	missing := leavesOf(a.schema.Properties["spec"], "spec")
	maps.Copy(missing, leavesOf(a.schema.Properties["status"], "status"))
	stored := 0
	for _, variant := range variants() {
		base, err := yaml.YAMLToJSON(fmt.Appendf(nil, everyField, variant...))
		if err != nil {
			t.Fatal(err)
		}
		if stored, ok := a.stored(t.Context(), base); !ok || decodes(stored) != nil {
			t.Fatal("the control is rejected:", variant)
		}
		for _, path := range pathsOf(decodedJSON(t, base), nil) {
			delete(missing, schemaPath(path))
			for _, value := range hostile(valueAt(decodedJSON(t, base), path)) {
				raw, err := json.Marshal(withValue(decodedJSON(t, base), path, value))
				if err != nil {
					t.Fatal(err)
				}
				if a.bears(t, path, raw) {
					stored++
				}
			}
		}
	}
	if stored < 300 {
		t.Error("only", stored, "objects are stored")
	}
	for path := range missing {
		if !strings.HasPrefix(path, "spec.template.") {
			t.Error("the test has no", path)
		}
	}
}

// bears checks an object if it would be stored, and reports whether it would.
func (a *admission) bears(t *testing.T, path []any, raw []byte) bool {
	t.Helper()
	stored, ok := a.stored(t.Context(), raw)
	if !ok {
		return false
	}
	if err := decodes(stored); err != nil {
		t.Errorf("%v: %s is stored, and cannot be decoded: %v", path, stored, err)
		return true
	}
	parent := &v1alpha1.UnitedDeployment{}
	if err := json.Unmarshal(stored, parent); err != nil {
		t.Errorf("%v: %v", path, err)
		return true
	}
	a.canBePlanned(t, path, parent)
	return true
}

// canBePlanned checks what a pass calculates for a parent.
func (a *admission) canBePlanned(t *testing.T, path []any, parent *v1alpha1.UnitedDeployment) {
	t.Helper()
	defer func() {
		if why := recover(); why != nil {
			t.Errorf("%v: %+v: %v", path, parent, why)
		}
	}()
	spec, err := spec.Read(parent, adapters.Registry{statefulset.New()})
	if err != nil {
		return // it is reported
	}
	in, err := (&planner.Input{World: world.World{Parent: parent, Spec: spec, Now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)}}).WithUpdateRevision()
	if err != nil {
		return
	}
	plan := planner.Make(in)
	status, wake := report.Status(in, plan, planner.Results{}, report.Undone{})
	if wake < 0 {
		t.Errorf("%v: the next pass is after %s", path, wake)
	}
	after, err := json.Marshal(map[string]any{"spec": parent.Spec, "status": status})
	if err != nil {
		t.Errorf("%v: the new status: %v", path, err)
		return
	}
	if _, ok := a.stored(t.Context(), after); !ok {
		t.Errorf("%v: the new status is rejected: %s", path, after)
	}
}

func decodedJSON(t *testing.T, raw []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// pathsOf returns the paths of all values that are no objects or lists, or are empty. A step is the name of a member, or
// an index.
func pathsOf(v any, at []any) (paths [][]any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			paths = append(paths, pathsOf(v[key], append(slices.Clone(at), key))...)
		}
	case []any:
		for i := range v {
			paths = append(paths, pathsOf(v[i], append(slices.Clone(at), i))...)
		}
	}
	if len(paths) == 0 {
		return [][]any{at}
	}
	return paths
}

// valueAt returns the value in v at a path.
func valueAt(v any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			v = v.(map[string]any)[step]
		case int:
			v = v.([]any)[step]
		}
	}
	return v
}

// withValue returns v with another value at a path.
func withValue(v any, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	switch step := path[0].(type) {
	case string:
		object := v.(map[string]any)
		object[step] = withValue(object[step], path[1:], value)
	case int:
		list := v.([]any)
		list[step] = withValue(list[step], path[1:], value)
	}
	return v
}

// schemaPath returns the path in the schema: without indices, and with * for the members of maps.
func schemaPath(path []any) string {
	var steps []string
	for _, step := range path {
		name, ok := step.(string)
		switch {
		case !ok:
			continue
		case len(steps) > 0 && slices.Contains([]string{"matchLabels", "partitions", "annotations", "ratios"}, steps[len(steps)-1]):
			name = "*"
		}
		steps = append(steps, name)
	}
	return strings.Join(steps, ".")
}

// leavesOf returns the paths of the fields of a schema that are no objects or lists.
func leavesOf(s structural.Structural, at string) map[string]bool {
	found := map[string]bool{}
	for name, child := range s.Properties {
		maps.Copy(found, leavesOf(child, at+"."+name))
	}
	if s.Items != nil {
		maps.Copy(found, leavesOf(*s.Items, at))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		maps.Copy(found, leavesOf(*s.AdditionalProperties.Structural, at+".*"))
	}
	if len(found) == 0 {
		found[at] = true
	}
	return found
}
