// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

var identity = Identity{
	Namespace: "shop", Name: "web-smoke-1a2b3c4d", Parent: "web", Check: "smoke",
	Owner: metav1.OwnerReference{APIVersion: "apps.united.dev/v1alpha1", Kind: "UnitedDeployment", Name: "web", UID: "u-1", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)},
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return runtime.DeepCopyJSON(widened(object).(map[string]any))
}

// widened returns a value with the numbers that a client has.
func widened(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = widened(v[name])
		}
	case []any:
		for i := range v {
			v[i] = widened(v[i])
		}
	case float64:
		return int64(v)
	}
	return value
}

func job(t *testing.T, text string) *v1alpha1.JobCheck {
	t.Helper()
	if text == "" {
		return &v1alpha1.JobCheck{}
	}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.JobCheck{Template: &runtime.RawExtension{Raw: raw}}
}

// TestJob: name, namespace, owner and labels of a Job are ours, and all else is the user's, also what we do not know.
func TestJob(t *testing.T) {
	got, err := Job(identity, job(t, `
apiVersion: v1
kind: Pod
metadata:
  name: mine
  generateName: mine-
  namespace: kube-system
  ownerReferences: [{name: other}]
  labels: {app: smoke, united.dev/name: other, united.dev/check: other}
  annotations: {a: b}
spec: {backoffLimit: 2, notYetKnown: 1, template: {spec: {containers: [{name: smoke, image: smoke}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := decoded(t, `
apiVersion: batch/v1
kind: Job
metadata:
  name: web-smoke-1a2b3c4d
  namespace: shop
  ownerReferences: [{apiVersion: apps.united.dev/v1alpha1, kind: UnitedDeployment, name: web, uid: u-1, controller: true, blockOwnerDeletion: true}]
  labels: {app: smoke, united.dev/name: web, united.dev/check: smoke}
  annotations: {a: b}
spec: {backoffLimit: 2, notYetKnown: 1, template: {spec: {containers: [{name: smoke, image: smoke}]}}}`)
	if !reflect.DeepEqual(got.Object, want) {
		t.Errorf("%v", got.Object)
	}
}

func TestCheckJob(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for name, test := range map[string]struct{ template, want string }{
		"without labels":     {`{spec: {template: {spec: {}}}}`, ""},
		"labels of its own":  {`{metadata: {labels: {app: web}}, spec: {template: {metadata: {labels: {app: smoke}}}}}`, ""},
		"labels of replicas": {`{spec: {template: {metadata: {labels: {app: web, more: "1"}}}}}`, `check.template.spec.template.metadata.labels: Forbidden: must not match spec.selector (app=web): the pods of a Job are not replicas`},
		"our labels":         {`{spec: {template: {metadata: {labels: {united.dev/name: web}}}}}`, `check.template.spec.template.metadata.labels[united.dev/name]: Forbidden: is a label of replicas, and the pods of a Job are none`},
		"no spec":            {`{metadata: {}}`, `check.template.spec: Required value: is the spec of the Job`},
		"a whole Job":        {`{apiVersion: batch/v1, kind: Job, spec: {}}`, `check.template.kind: Forbidden: must have only metadata and spec`},
		"nothing":            {``, `must be an object with metadata and spec`},
		"no object":          {`[]`, `must be an object with metadata and spec`},
		"metadata":           {`{metadata: 1, spec: {}}`, `check.template.metadata: Invalid value: 1: must be an object`},
		"another name":       {`{metadata: {name: smoke}, spec: {}}`, `check.template.metadata.name: Forbidden: only labels and annotations may be set here`},
		"another namespace":  {`{metadata: {namespace: other}, spec: {}}`, `check.template.metadata.namespace: Forbidden: only labels and annotations`},
		"an owner":           {`{metadata: {ownerReferences: []}, spec: {}}`, `check.template.metadata.ownerReferences: Forbidden: `},
		"finalizers":         {`{metadata: {finalizers: [a/b], labels: {a: b}, annotations: {a: b}}, spec: {}}`, `check.template.metadata.finalizers: Forbidden: `},
		"null":               {`{metadata: {name: null}, spec: {}}`, ""},
		"for the API server": {`{spec: {template: {metadata: {labels: {app: 1}}}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckJob(job(t, test.template), selector, field.NewPath("check")).ToAggregate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v", err)
			}
		})
	}
}

const template = `
kind: AnalysisTemplate
metadata: {name: rate, labels: {argo-rollouts.argoproj.io/controller-instance-id: one, other: label}}
spec:
  args: [{name: service}, {name: limit, value: "5"}]
  metrics: [{name: rate, interval: 5s, count: "{{ args.limit }}", provider: {job: {}}}]
  dryRun: [{metricName: rate}]
  measurementRetention: [{metricName: rate, limit: 3}]
  futureField: {}
`

func analysis(args ...string) *v1alpha1.AnalysisCheck {
	check := &v1alpha1.AnalysisCheck{TemplateName: "rate"}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		check.Args = append(check.Args, v1alpha1.AnalysisArgument{Name: name, Value: &value})
	}
	return check
}

// TestAnalysis: a run measures what its template does, with the values of the check, or else those of the template.
func TestAnalysis(t *testing.T) {
	got, err := Analysis(identity, analysis("service=web"), &unstructured.Unstructured{Object: decoded(t, template)})
	if err != nil {
		t.Fatal(err)
	}
	want := decoded(t, `
apiVersion: argoproj.io/v1alpha1
kind: AnalysisRun
metadata:
  name: web-smoke-1a2b3c4d
  namespace: shop
  ownerReferences: [{apiVersion: apps.united.dev/v1alpha1, kind: UnitedDeployment, name: web, uid: u-1, controller: true, blockOwnerDeletion: true}]
  labels: {united.dev/name: web, united.dev/check: smoke, argo-rollouts.argoproj.io/controller-instance-id: one}
spec:
  args: [{name: service, value: web}, {name: limit, value: "5"}]
  metrics: [{name: rate, interval: 5s, count: "{{ args.limit }}", provider: {job: {}}}]
  dryRun: [{metricName: rate}]
  measurementRetention: [{metricName: rate, limit: 3}]`)
	if !reflect.DeepEqual(got.Object, want) {
		t.Errorf("%v", got.Object)
	}
}

func TestAnalysisRefused(t *testing.T) {
	const at = "AnalysisTemplate rate.spec."
	for name, test := range map[string]struct {
		spec, want string
		check      *v1alpha1.AnalysisCheck
	}{
		"no value":            {`{args: [{name: service}], metrics: [{name: m}]}`, at + "args[service]: Required value: has no value: give the argument service one in the check", analysis()},
		"a Secret":            {`{args: [{name: token, valueFrom: {secretKeyRef: {name: s, key: k}}}], metrics: [{name: m}]}`, at + "args[token].valueFrom: Forbidden: United reads no Secrets and no fields", analysis()},
		"a field":             {`{args: [{name: zone, valueFrom: {fieldRef: {fieldPath: a}}}], metrics: [{name: m}]}`, at + "args[zone].valueFrom: Forbidden: ", analysis()},
		"a value instead":     {`{args: [{name: token, valueFrom: {secretKeyRef: {name: s, key: k}}}], metrics: [{name: m}]}`, "", analysis("token=t")},
		"an empty value":      {`{args: [{name: service}], metrics: [{name: m}]}`, "", analysis("service=")},
		"unknown":             {`{args: [{name: service, value: a}], metrics: [{name: m}]}`, at + `args: Not found: "servise"`, analysis("servise=web")},
		"nested, cluster":     {`{templates: [{templateName: other, clusterScope: true}], metrics: [{name: m}]}`, at + "templates: Forbidden: ", analysis()},
		"nested":              {`{templates: [{templateName: other}], metrics: [{name: m}]}`, at + "templates: Forbidden: United runs the metrics of one template", analysis()},
		"nothing to measure":  {`{args: []}`, at + "metrics: Required value", analysis()},
		"once":                {`{metrics: [{name: m}]}`, "", analysis()},
		"so often":            {`{metrics: [{name: m, interval: 5s, count: 3}]}`, "", analysis()},
		"so often, as text":   {`{args: [{name: times}], metrics: [{name: m, interval: 5s, count: "{{args.times}}"}]}`, "", analysis("times=3")},
		"so many in a row":    {`{metrics: [{name: m, interval: 5s, consecutiveSuccessLimit: 3}]}`, "", analysis()},
		"without an end":      {`{metrics: [{name: first}, {name: m, interval: 5s}]}`, at + "metrics[1].count: Required value: the metric m has an interval and no count, so it would never end, and neither would the step", analysis()},
		"0 times":             {`{metrics: [{name: m, interval: 5s, count: 0}]}`, at + "metrics[0].count", analysis()},
		"0 times, as text":    {`{args: [{name: times}], metrics: [{name: m, interval: 5s, count: "{{args.times}}"}]}`, at + "metrics[0].count", analysis("times=0")},
		"so often as nothing": {`{metrics: [{name: m, interval: 5s, count: "{{args.times}}"}]}`, at + "metrics[0].count", analysis()},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": decoded(t, test.spec)}}
			u.SetKind("AnalysisTemplate")
			u.SetName("rate")
			_, err := Analysis(identity, test.check, u)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRead(t *testing.T) {
	long := strings.Repeat("ä ", 1000)
	for name, test := range map[string]struct {
		kind, object string
		state        State
		want         string
	}{
		"a new Job":          {"Job", `{}`, Running, "Job r has not finished"},
		"active":             {"Job", `{status: {active: 1, conditions: [{type: Complete, status: "False"}]}}`, Running, "Job r has not finished"},
		"about to fail":      {"Job", `{status: {conditions: [{type: FailureTarget, status: "True", reason: DeadlineExceeded}]}}`, Running, "Job r has not finished"},
		"suspended":          {"Job", `{spec: {suspend: true}}`, Running, "Job r is suspended (spec.suspend)"},
		"complete":           {"Job", `{status: {conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]}}`, Succeeded, ""},
		"failed":             {"Job", `{status: {conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: "Job has reached\n the limit"}]}}`, Failed, "Job r failed (BackoffLimitExceeded: Job has reached the limit)"},
		"garbage":            {"Job", `{status: {conditions: [1, {type: 1, status: "True"}]}}`, Running, "Job r has not finished"},
		"a new run":          {"AnalysisRun", `{}`, Running, "AnalysisRun r has not begun: no controller of Argo Rollouts has observed it"},
		"pending":            {"AnalysisRun", `{status: {phase: Pending}}`, Running, "AnalysisRun r has not finished"},
		"running":            {"AnalysisRun", `{status: {phase: Running}}`, Running, "AnalysisRun r has not finished"},
		"successful":         {"AnalysisRun", `{status: {phase: Successful}}`, Succeeded, ""},
		"terminated":         {"AnalysisRun", `{spec: {terminate: true}, status: {phase: Successful, message: Run Terminated}}`, Undecided, "AnalysisRun r was terminated"},
		"terminated at once": {"AnalysisRun", `{spec: {terminate: true}, status: {phase: Inconclusive}}`, Undecided, "AnalysisRun r was terminated"},
		"terminated, failed": {"AnalysisRun", `{spec: {terminate: true}, status: {phase: Failed}}`, Failed, "AnalysisRun r failed"},
		"failed, says it":    {"AnalysisRun", `{status: {phase: Failed, message: 'Metric "rate" assessed Failed due to failed (1) > failureLimit (0)', metricResults: [{name: rate, phase: Failed}]}}`, Failed, `AnalysisRun r failed (Metric "rate" assessed Failed due to failed (1) > failureLimit (0))`},
		"failed metric":      {"AnalysisRun", `{status: {phase: Failed, metricResults: [{name: dry, phase: Failed, dryRun: true}, {name: good, phase: Successful}, {name: rate, phase: Failed, message: bad}]}}`, Failed, "AnalysisRun r failed (metric rate: bad)"},
		"error":              {"AnalysisRun", `{status: {phase: Error, message: "failed to resolve", metricResults: [{name: rate, phase: Error}]}}`, Failed, "AnalysisRun r ended with an error (failed to resolve; metric rate)"},
		"inconclusive":       {"AnalysisRun", `{status: {phase: Inconclusive, message: "both"}}`, Undecided, "AnalysisRun r is inconclusive (both)"},
		"of the future":      {"AnalysisRun", `{status: {phase: Resting}}`, Running, "AnalysisRun r has not finished"},
		"long":               {"AnalysisRun", `{status: {phase: Failed, message: "` + long + `"}}`, Failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: decoded(t, test.object)}
			u.SetKind(test.kind)
			u.SetName("r")
			got := Read(u)
			if got.State != test.state || test.want != "" && got.Message != test.want || len([]rune(got.Message)) > maxMessage+3 {
				t.Errorf("%+v", got)
			}
		})
	}
}
