// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/simulation"
)

// The values that the test puts into the fields, as JSON: values of each type, at and beyond the bounds
// of schemas and Go types, and in more than one notation.
var (
	// anywhere are the values for every field.
	anywhere = []string{`null`, `true`, `1`, `1.5`, `""`, `"x"`, `{}`, `{"a":null}`, `[]`, `[null]`, `[{}]`, `[[1]]`, `["x"]`}
	// numbers and texts are the values for every field without fields of its own.
	numbers = []string{
		`0`, `-1`, `-0`, `1.0`, `1e3`, `-0.0`, `2147483647`, `2147483648`, `-2147483649`, `9007199254740993`, `9223372036854775807`,
		`9223372036854775808`, `-9223372036854775809`, `1e19`, `1e25`, `1e308`, `1e400`, `1e-400`, `2147483647.0`, `3e9`,
	}
	texts = []string{
		`" "`, `"0"`, `"1"`, `"50%"`, `"100%"`, `"1e400"`, `"+1"`, `"0x10"`, `"٣%"`, `"\u0000"`, `"\ud800"`, "\"\xff\xfe\"", "\"\u2028\"",
		`"true"`, `"10m"`, `"9999999999h"`, `"1µs"`, `"-1s"`, `"` + strings.Repeat("9", 30) + `h"`, `"` + strings.Repeat("x", 5000) + `"`,
	}
	// objects are the values for every field that has or may have fields.
	objects = []string{`{"":1}`, `{"a":{"b":[]}}`, `{"a":1,"a":2}`, `{"a":1e400}`, `{"a":1e308}`, `{"a":9223372036854775808}`, "{\"a\":\"\xff\"}",
		`{"metadata":null,"spec":null}`, `{"metadata":[],"spec":1}`, `{"spec":` + nested(9_000) + `}`, `{"metadata":` + nested(200) + `}`}
	// times are the values for every time.
	times = []string{
		"2026-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2024-02-29T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-01t00:00:00z",
		"2026-01-01T00:00:00z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T23:59:60Z", "2026-01-01T00:00:00+25:00",
		"2026-01-01T00:00:00+00:60", "2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00x5Z",
		"2026-01-01T00:00:00.123456789012345678901234567890Z", "2026-13-01T00:00:00Z", "2026-00-10T00:00:00Z", "10000-01-01T00:00:00Z",
		"-001-01-01T00:00:00Z", "2026-1-01T00:00:00Z", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00", "2026-01-01", " 2026-01-01T00:00:00Z",
		"2026-01-01T00:00:00Z\n", "2026-01-01T00:00:00Zt", "2026-01-01T00:00:00Zt00:00:00Z",
	}
)

func nested(n int) string { return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat(`}`, n) }

// full has objects that together have every field of the schema.
var full = []string{`
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: full, namespace: default}
spec: &spec
  replicas: 4
  minReadySeconds: 1
  revisionHistoryLimit: 1
  progressDeadlineSeconds: 60
  paused: true
  versionLabel: TemplateHash
  selector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: In, values: [web]}]}
  template: &template {statefulSetTemplate: {metadata: {labels: {app: web}}, spec: {serviceName: web, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v1}]}}}}}
  topology: &topology
    subsets:
    - name: a
      replicas: 1
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}], matchFields: [{key: metadata.name, operator: In, values: [a]}]}]}
      tolerations: [{key: zone, operator: Equal, value: a, effect: NoExecute, tolerationSeconds: 1}]
      patch: {spec: {minReadySeconds: 1}}
    - {name: b, replicas: "50%"}
  updateStrategy: {type: Manual, manualUpdate: {revision: web-2, partitions: {a: 1}, defaultPartition: "50%"}}
status:
  observedGeneration: 1
  replicas: 1
  readyReplicas: 1
  availableReplicas: 1
  updatedReplicas: 1
  updatedReadyReplicas: 1
  selector: app=web
  currentRevision: web-1
  updateRevision: web-2
  summary: a 1/2
  lastProgressTime: "2026-01-01T00:00:00Z"
  pausedTime: "2026-01-01T00:00:00Z"
  resumedTime: "2026-01-01T00:00:00Z"
  rollout: {retried: k, spent: k, rejectedRevision: web-2, checks: [{name: mysql, state: Met, message: m, sinceTime: "2026-01-01T00:00:00Z", failingTime: "2026-01-01T00:00:00Z", run: job/x, step: 0, key: k}],
    revision: web-2, phase: Paused, message: m, step: 0, stepKey: k, startTime: "2026-01-01T00:00:00Z", reachedTime: "2026-01-01T00:00:00Z",
    soakedSeconds: 1, lastProgressTime: "2026-01-01T00:00:00Z", forced: true, promoted: true, approvalKey: k}
  subsets: [{name: a, workload: web-a, desiredReplicas: 1, replicas: 1, readyReplicas: 1, availableReplicas: 1, updatedReplicas: 1, updatedReadyReplicas: 1,
    partition: 1, expectedUpdatedReplicas: 1, currentRevision: web-1, updateRevision: web-2, phase: Held, message: m,
    cap: {replicas: 1, reserved: 1, sinceTime: "2026-01-01T00:00:00Z", clearedTime: "2026-01-01T00:00:00Z", message: m},
    conditions: [{type: Schedulable, status: "False", reason: R, message: m, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}],
    record: eyJ1aWQiOiJ1IiwiZ2VuZXJhdGlvbiI6MSwiaGFzaCI6ImgiLCJjaGVja3N1bSI6ImMifQ==}]
  conditions: [{type: Ready, status: "True", reason: R, message: m, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`, `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: rolling, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template: {statefulSetTemplate: {metadata: {labels: {app: web}}, spec: {serviceName: web, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v1}]}}}}}
  topology: {subsets: [{name: a, minReplicas: 1, maxReplicas: "50%"}, {name: b}], scheduleStrategy: {type: Adaptive, adaptive: {rescheduleAfterSeconds: 30, retryAfterSeconds: 300, reserveUnschedulablePods: false}}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1, maxUnavailable: 1, maxUnavailablePerSubset: 1, maxSkew: "10%", maxSkewSubsets: [a], rollbackRevisions: 2, onFailure: Rollback, order: Parallel,
    checks: [{name: mysql, objectCondition: {apiVersion: moco.cybozu.com/v1beta2, kind: MySQLCluster, name: shop, type: Healthy, status: "True"}},
      {name: errors, prometheus: {server: default, query: 'sum(rate(errors{pod=~"${pods}"}[2m]))', min: "0", max: "0.01", maxRatio: "1.2", interval: 30s, failureLimit: 2, noData: Hold}},
      {name: smoke, job: {template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: smoke, image: curl}]}}}}}},
      {name: kayenta, analysis: {templateName: success-rate, clusterScope: true, args: [{name: service, value: web}]}}],
    steps: [{subsets: [a], partition: "50%", pause: {duration: 1m}}]}}
`, `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: whole, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template: {deploymentTemplate: {metadata: {labels: {app: web}}, spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v1}]}}}}}
  topology: {subsets: [{name: a}]}
  updateStrategy: {type: Manual, manualUpdate: {partitions: {a: "0%"}}}
`, `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: colocated, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {statefulSetTemplate: {metadata: {labels: {app: web}}, spec: {serviceName: web, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v1}]}}}}}
  topology:
    colocation: {topologyKey: kubernetes.io/hostname, ratios: {a: 2, b: 1}, order: Sequential, exclusive: true, timeoutSeconds: 60}
    subsets: [{name: a}, {name: b}]
  updateStrategy: {type: Manual, manualUpdate: {partitions: {a: "0%"}}}
`, `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: clones, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template: {cloneSetTemplate: {metadata: {labels: {app: web}}, spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v1}]}}}}}
  topology: {subsets: [{name: a}]}
  updateStrategy: {type: Manual, manualUpdate: {partitions: {a: "0%"}}}
`, `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: advanced, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template: {advancedStatefulSetTemplate: {metadata: {labels: {app: web}}, spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v1}]}}}}}
  topology: {subsets: [{name: a}]}
  updateStrategy: {type: Manual, manualUpdate: {partitions: {a: "0%"}}}
`, `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: groups, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template: {leaderWorkerSetTemplate: {metadata: {labels: {app: web}}, spec: {leaderWorkerTemplate: {workerTemplate: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v1}]}}}}}}
  topology: {subsets: [{name: a}]}
  updateStrategy: {type: Manual, manualUpdate: {partitions: {a: "0%"}}}
`}

// TestEveryField checks that the API server refuses a value of a field, whatever the value is, or that
// Go decodes the stored object in a list and a pass over it does not panic.
func TestEveryField(t *testing.T) {
	g := NewWithT(t)
	var schema apiextensionsv1.CustomResourceDefinition
	root, err := cluster.Root()
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "config", "crd", "apps.united.dev_uniteddeployments.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.Unmarshal(text, &schema)).To(Succeed())
	fields := map[string]*apiextensionsv1.JSONSchemaProps{}
	collect(fields, "", schema.Spec.Versions[0].Schema.OpenAPIV3Schema)

	s := &server{t: t, client: restClient(g), world: simulation.New(t, "Parallel", "a")}
	tried := map[string]bool{}
	for _, text := range full {
		raw, err := yaml.YAMLToJSON([]byte(text))
		g.Expect(err).NotTo(HaveOccurred())
		object := decodeJSON(g, string(raw)).(map[string]any)
		name := object["metadata"].(map[string]any)["name"].(string)
		s.create(g, object, name)
		for _, place := range places(object, "", nil) {
			field := fields[place.field]
			if tried[place.field] || field == nil || place.field == "" || strings.HasPrefix(place.field, ".metadata") {
				continue
			}
			tried[place.field] = true
			for _, value := range valuesFor(field) {
				s.try(name, object, place, value)
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		g.Expect(tried[field] || field == "" || strings.HasPrefix(field, ".metadata")).To(BeTrue(), "no full object has %s", field)
	}
	t.Logf("%d fields, %d values refused, %d read", len(tried), s.refused, s.read)
	g.Expect(min(s.refused, s.read)).To(BeNumerically(">", 500), "the control")
}

// collect stores the schema of every field by its path.
func collect(into map[string]*apiextensionsv1.JSONSchemaProps, path string, schema *apiextensionsv1.JSONSchemaProps) {
	into[path] = schema
	for name, property := range schema.Properties {
		collect(into, path+"."+name, &property)
	}
	if schema.Items != nil {
		collect(into, path+"[]", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		collect(into, path+"{}", schema.AdditionalProperties.Schema)
	}
}

// place is the position of a field in an object.
type place struct {
	field string
	steps []any
}

func places(value any, field string, steps []any) []place {
	found := []place{{field, slices.Clone(steps)}}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			inside := field + "." + key
			if strings.HasSuffix(field, ".matchLabels") || strings.HasSuffix(field, ".partitions") || strings.HasSuffix(field, ".ratios") || strings.HasSuffix(field, ".childRecord.annotations") {
				inside = field + "{}"
			}
			found = append(found, places(v[key], inside, append(slices.Clone(steps), key))...)
		}
	case []any:
		for i := range v {
			found = append(found, places(v[i], field+"[]", append(slices.Clone(steps), i))...)
		}
	}
	return found
}

func valuesFor(field *apiextensionsv1.JSONSchemaProps) []string {
	list := slices.Clone(anywhere)
	if field.Type == "object" {
		list = append(list, objects...)
	} else if field.Type != "array" {
		list = append(append(list, numbers...), texts...)
	}
	if strings.HasSuffix(field.Pattern, "Z$") {
		for _, time := range times {
			raw, _ := json.Marshal(time)
			list = append(list, string(raw))
		}
	}
	for _, enum := range field.Enum {
		list = append(list, string(enum.Raw), strings.ToLower(string(enum.Raw)))
	}
	return list
}

// server sends raw JSON to the API server, because Go could not encode all of it.
type server struct {
	t             *testing.T
	client        rest.Interface
	world         *simulation.World
	refused, read int
}

func restClient(g *WithT) rest.Interface {
	config := rest.CopyConfig(fixture.cluster.Config())
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	return clients.RESTClient()
}

const collection = "/apis/apps.united.dev/v1alpha1/namespaces/default/uniteddeployments"

func (s *server) create(g *WithT, object map[string]any, name string) {
	raw, err := json.Marshal(object)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.send(http.MethodPost, collection, raw, "")).NotTo(BeNil())
	status, err := json.Marshal(map[string]any{"status": object["status"]})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.send(http.MethodPatch, collection+"/"+name+"/status", status, "")).NotTo(BeNil())
	s.t.Cleanup(func() {
		if err := deployments().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			s.t.Error(err)
		}
	})
}

// send returns the stored object; nil if it is refused.
func (s *server) send(method, path string, body []byte, dry string) []byte {
	request := s.client.Verb(method).AbsPath(path).Body(body).SetHeader("Content-Type", "application/json")
	if method == http.MethodPatch {
		request = request.SetHeader("Content-Type", string(types.MergePatchType))
	}
	if dry != "" {
		request = request.Param("dryRun", dry)
	}
	stored, err := request.DoRaw(s.t.Context())
	if err != nil {
		return nil
	}
	return stored
}

// try puts a value into a place, and checks the result.
func (s *server) try(name string, object map[string]any, at place, value string) {
	const here = "\"@here\""
	var copied map[string]any
	raw, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(raw, &copied)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if len(at.steps) == 1 {
		copied[at.steps[0].(string)] = "@here"
	} else {
		set("@here", at.steps...)(copied)
	}
	method, path := http.MethodPost, collection
	if at.steps[0] == "status" {
		copied = map[string]any{"status": copied["status"]}
		method, path = http.MethodPatch, collection+"/"+name+"/status"
	} else {
		copied["metadata"] = map[string]any{"name": "tried", "namespace": "default"}
	}
	if raw, err = json.Marshal(copied); err != nil {
		s.t.Fatal(err)
	}
	stored := s.send(method, path, []byte(strings.Replace(string(raw), here, value, 1)), metav1.DryRunAll)
	if stored == nil {
		s.refused++
		return
	}
	s.read++
	if len(value) > 60 {
		value = value[:60] + "..."
	}
	var list v1alpha1.UnitedDeploymentList
	if err := kjson.UnmarshalCaseSensitivePreserveInts(fmt.Appendf(nil, `{"items":[%s]}`, stored), &list); err != nil {
		s.t.Errorf("%s: %s is stored, and cannot be read: %v", at.field, value, err)
		return
	}
	s.pass(&list.Items[0], at.field+": "+value)
}

// pass runs one pass of the controller over the object, in a world with a child.
func (s *server) pass(parent *v1alpha1.UnitedDeployment, what string) {
	defer func() {
		if r := recover(); r != nil {
			s.t.Errorf("%s: a pass panics: %v", what, r)
		}
	}()
	was := s.world.Parent()
	parent.Namespace, parent.Name, parent.UID, parent.Generation = was.Namespace, was.Name, was.UID, was.Generation+1
	s.world.API.PutParent(parent)
	s.world.API.Refresh()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name}}
	_, _ = s.world.Reconciler.Reconcile(s.t.Context(), request) // an error is a valid result
}
