// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// analysisTemplate creates an AnalysisTemplate that measures with a Job, whose image has the tag that is its argument.
func analysisTemplate(e *Env, name, metric string) {
	e.T.Helper()
	e.Apply(templateOf("AnalysisTemplate", name, metric))
}

func templateOf(kind, name, metric string) Git {
	return Git{
		"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": Git{"name": name},
		"spec": Git{
			"args": []any{Git{"name": "tag"}, Git{"name": "times", "value": "1"}},
			"metrics": []any{Git{"name": metric, "interval": "1s", "count": "{{args.times}}", "provider": Git{"job": Git{
				"spec": Git{"backoffLimit": 0, "template": Git{"spec": Git{
					"restartPolicy": "Never", "containers": []any{Git{"name": "smoke", "image": "registry.example/smoke:{{args.tag}}"}},
				}}},
			}}}},
		},
	}
}

func analysis(tag string, more ...string) string {
	return fmt.Sprintf(`{name: rate, analysis: {templateName: success-rate, args: [{name: tag, value: %q}%s]}}`, tag, strings.Join(more, ""))
}

func phaseOf(run *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(run.Object, "status", "phase")
	return phase
}

// TestAnalysisOfArgoRollouts: the real controller of Argo Rollouts judges the end of each step, also of the last one.
func TestAnalysisOfArgoRollouts(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.Rollouts()
	analysisTemplate(e, "success-rate", "success")
	w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Rolling(`{steps: [{subsets: [zone-a], partition: "50%"}], checks: [`+analysis("v1")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	e.Expect(w.AnalysisRuns()).To(BeEmpty(), "the first rollout is not checked")

	e.Step("it succeeds, once for each step", func() {
		w.SetImage("v2")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		all := w.AnalysisRuns()
		e.Expect(all).To(HaveLen(2))
		for i := range all {
			e.Expect(phaseOf(&all[i])).To(Equal("Successful"))
			w.IsOwned(&all[i])
		}
	})
	e.Step("it fails, and names the metric", func() {
		w.SetRolling(`{steps: [{subsets: [zone-a], partition: "50%"}], checks: [` + analysis("fail") + `]}`)
		w.SetImage("v3")
		w.AwaitPhase(v1alpha1.RolloutCheckFailed, `check rate failed: AnalysisRun web-rate-`, `failed (Metric "success" assessed Failed due to failed (1) > failureLimit (0)`)
		w.StallsWhole(v1alpha1.ReasonCheckFailed, "Check rate failed")
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v3", "zone-b": "v2 v2"}))
	})
	e.Step("retried, it is another one", func() {
		before := len(w.AnalysisRuns())
		w.Patch(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRetry, w.Parent().Status.UpdateRevision+"/again")
		w.Eventually(func() int { return len(w.AnalysisRuns()) }).Should(Equal(before + 1))
		w.AwaitPhase(v1alpha1.RolloutCheckFailed)
	})
	e.Step("left, it is terminated", func() {
		w.SetRolling(`{steps: [{subsets: [zone-a], partition: "50%"}], checks: [` + analysis("v1", `, {name: times, value: "1000"}`) + `]}`)
		w.AwaitCheck("rate", v1alpha1.CheckRuns, "has not finished")
		running := strings.TrimPrefix(w.AwaitCheck("rate", v1alpha1.CheckRuns).Run, "analysisrun/")
		w.SetImage("v4")
		w.Eventually(func() bool {
			for _, run := range w.AnalysisRuns() {
				terminate, _, _ := unstructured.NestedBool(run.Object, "spec", "terminate")
				if run.GetName() == running && terminate && phaseOf(&run) != "Running" {
					return true
				}
			}
			return false
		}).Should(BeTrue())
	})
	e.Step("a run that somebody else terminates is no success", func() {
		var name string
		w.Eventually(func() string {
			name = strings.TrimPrefix(w.AwaitCheck("rate", v1alpha1.CheckRuns).Run, "analysisrun/")
			return w.Kubectl("get", "analysisruns", name, "-o", "jsonpath={.status.phase}")
		}).Should(Equal("Running"))
		w.Kubectl("patch", "analysisruns", name, "--type=merge", "-p", `{"spec":{"terminate":true}}`)
		w.AwaitCheck("rate", v1alpha1.CheckIsNotMet, name+" was terminated")
		e.Expect(w.Rollout().Step).To(BeZero())
	})
}

// TestAnalysisRefused: what United does not do is said at the check, and ends when the template is repaired.
func TestAnalysisRefused(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.Rollouts()
	w := e.Create(NewDraft("web", Replicas(2), Zones("", ""), Rolling(`{checks: [`+analysis("v1")+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.SetImage("v2")
	w.AwaitCheck("rate", v1alpha1.CheckIsNotMet, "AnalysisTemplate success-rate does not exist")
	w.StallsWhole(v1alpha1.ReasonBlocked, "AnalysisTemplate success-rate does not exist")
	metric := Git{"name": "m", "interval": "1s", "provider": Git{"web": Git{"url": "http://localhost", "jsonPath": "{$.ok}"}}}
	limit := 10
	for why, spec := range map[string]Git{
		"would never end":         {"args": []any{Git{"name": "tag"}}, "metrics": []any{metric}},
		"United reads no Secrets": {"args": []any{Git{"name": "tag"}, Git{"name": "token", "valueFrom": Git{"secretKeyRef": Git{"name": "s", "key": "k"}}}}, "metrics": []any{metric}},
		"one in the check":        {"args": []any{Git{"name": "tag"}, Git{"name": "service"}}, "metrics": []any{metric}},
		"metrics of one template": {"args": []any{Git{"name": "tag"}}, "templates": []any{Git{"templateName": "other"}}, "metrics": []any{metric}},
		`args: Not found: "tag"`:  {"metrics": []any{metric}},
	} {
		e.Apply(Git{"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisTemplate", "metadata": Git{"name": "success-rate"}, "spec": spec})
		limit++
		w.Patch(`{"spec":{"revisionHistoryLimit":%d}}`, limit) // an edit ends the back-off
		w.AwaitCheck("rate", v1alpha1.CheckIsNotMet, why)
		w.StallsWhole(v1alpha1.ReasonBlocked, why)
		e.Kubectl("delete", "analysistemplates", "success-rate")
	}
	e.Expect(w.AnalysisRuns()).To(BeEmpty())
	analysisTemplate(e, "success-rate", "success")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
}

// TestClusterAnalysisTemplates: the API server refuses those that the values of the chart do not name, and nothing of them gets into
// the namespace.
func TestClusterAnalysisTemplates(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.Rollouts()
	for _, name := range []string{"secret-of-others", NamedTemplate} {
		e.Apply(templateOf("ClusterAnalysisTemplate", name, "success"))
	}
	uses := func(name string) string {
		return fmt.Sprintf(`{checks: [{name: rate, analysis: {templateName: %s, clusterScope: true, args: [{name: tag, value: v1}]}}]}`, name)
	}
	w := e.Create(NewDraft("web", Replicas(2), Zones("", ""), Rolling(uses("secret-of-others"))))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.SetImage("v2")
	why := "United is not permitted to use ClusterAnalysisTemplate secret-of-others: add secret-of-others to checks.clusterAnalysisTemplates"
	w.AwaitCheck("rate", v1alpha1.CheckIsNotMet, why)
	w.StallsWhole(v1alpha1.ReasonBlocked, why)
	w.SetRolling(uses("missing"))
	w.StallsWhole(v1alpha1.ReasonBlocked, "not permitted to use ClusterAnalysisTemplate missing") // whether there is one is not said
	e.Expect(w.AnalysisRuns()).To(BeEmpty())
	w.SetRolling(uses(NamedTemplate))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	e.Expect(w.AnalysisRuns()).To(HaveLen(1))
}

// TestAnalysisSample applies config/samples/analysis.yaml, whose Prometheus is a server of the test, and whose minutes are seconds.
func TestAnalysisSample(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.Rollouts()
	var rate atomic.Value
	rate.Store("0.999")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		if !strings.Contains(query, `{service="search",code!~"5.."}`) {
			http.Error(w, query, http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,%q]}]}}`, rate.Load())
	}))
	t.Cleanup(server.Close)
	sample, err := os.ReadFile(filepath.Join(SamplesDir(t), "analysis.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "analysis.yaml")
	sooner := strings.NewReplacer("http://prometheus.monitoring:9090", server.URL, "interval: 30s", "interval: 1s").Replace(string(sample))
	e.Expect(os.WriteFile(file, []byte(sooner), 0o600)).To(Succeed())
	e.Kubectl("apply", "-f", file)
	w := e.Workload("search")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.SetImage("v2")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	e.Expect(w.AnalysisRuns()).To(HaveLen(2))
	rate.Store("0.5")
	w.SetImage("v3")
	w.AwaitPhase(v1alpha1.RolloutCheckFailed, "check success-rate failed", "success-rate")
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v3", "zone-b": "v2 v2", "zone-c": "v2 v2"}))
}
