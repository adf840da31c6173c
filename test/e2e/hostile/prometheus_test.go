// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/checks/queries"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// canary returns a UnitedDeployment of two zones, whose first step is zone-a, with a check of its error rate.
func canary(e *Env, server, limits string) *Workload {
	labelled := func(d *Draft) { d.Spec.VersionLabel = v1alpha1.TemplateHashLabel }
	w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), labelled,
		Rolling(`{maxUnavailable: 2, steps: [{subsets: [zone-a], partition: 0}], checks: [`+ErrorRate(server, limits)+`]}`)))
	w.IsReady(v1alpha1.ReasonRolloutComplete) // the first rollout is not checked
	return w
}

// TestErrorRate: a real Prometheus, which scrapes what the pods serve. A version with too many errors is held, and fails; a good
// one goes on.
func TestErrorRate(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	p := e.StartPrometheus()
	p.Opened(e.Namespace)
	p.Fails("v1", 0)
	w := canary(e, e.Namespace, `max: "0.01", failureLimit: 3`)

	e.Step("without data it holds", func() {
		w.SetImage("v2")
		w.AwaitPhase(v1alpha1.RolloutProgressing, "waiting for check errors: no data for the updated replicas, since ")
		w.IsNotReady(v1alpha1.ReasonRollingOut)
	})
	e.Step("a good version goes on", func() {
		p.Fails("v2", 0)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v2 v2"}))
		e.Expect(w.AwaitCheck("errors", v1alpha1.CheckIsMet).Message).To(Equal("0"))
	})
	e.Step("a bad one is held, and fails", func() {
		p.Fails("v3", 20)
		w.SetImage("v3")
		w.AwaitPhase(v1alpha1.RolloutCheckFailed, "check errors failed: 0.", ", at most 0.01, since ", "united.dev/retry=web-")
		w.StallsWhole(v1alpha1.ReasonCheckFailed, "Check errors failed")
		w.AwaitEvent(corev1.EventTypeWarning, v1alpha1.ReasonCheckFailed, "Check errors failed")
		e.Expect(w.Images()["zone-b"]).To(Equal("v2 v2"))
		e.Expect(e.Does("status", "web")).To(MatchRegexp(`Check errors failed: 0\.\d+, at most 0\.01, since (.|\n)*Check +errors Failed since`))
		e.Expect(e.Does("why", "web")).To(ContainSubstring("CheckFailed"))
	})
	e.Step("a failure ends with retry, and not by itself", func() {
		still := e.History.Forbid(AnyNewPod)
		p.Fails("v3", 0)
		ComesToRest(w, "zone-a", "zone-b")
		still.Holds()
		e.Expect(e.Does("retry", "web")).To(ContainSubstring("measured anew"))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v3 v3", "zone-b": "v3 v3"}))
		still.Fires()
	})
	e.Step("the values differ each time, and the status is not written for that", func() {
		w.SetRolling(`{steps: [{subsets: [zone-a], partition: 0, pause: {}}]}`)
		p.Fails("v4", 0)
		w.SetImage("v4")
		w.AwaitApproval(0)
		mark := e.AuditMark()
		for i := range 4 {
			w.Eventually(func() float64 {
				return p.Query(`count_over_time(http_requests_total{pod="web-zone-a-0",image="v4"}[1h])`)
			}).Should(BeNumerically(">=", 5*(i+1)))
			p.Fails("v4", i%2)
		}
		e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<=", 3))
	})
}

// TestZoneAgainstZone: the updated replicas are compared with the others, and, once there are none, with nothing.
func TestZoneAgainstZone(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	p := e.StartPrometheus()
	p.Opened(e.Namespace)
	p.Fails("v1", 10)
	p.Fails("v2", 30)
	w := canary(e, e.Namespace, `maxRatio: "1.5"`)
	w.SetImage("v2")
	w.AwaitPhase(v1alpha1.RolloutCheckFailed, "at most 1.5 times 0.1 of the replicas that are not updated, since ")
	e.Expect(w.Images()["zone-b"]).To(Equal("v1 v1"))
	e.Step("a version as bad as the others goes on", func() {
		p.Fails("v3", 10)
		w.SetImage("v3")
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v3 v3", "zone-b": "v3 v3"}))
	})
}

// TestPrometheusIsKilled in the middle of a canary, and the manager: the rollout waits, and goes on when there is an answer.
func TestPrometheusIsKilled(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	p := e.StartPrometheus()
	p.Opened(e.Namespace)
	p.Fails("v1", 0)
	p.Fails("v2", 0)
	w := canary(e, e.Namespace, `max: "0.01"`)
	w.SetRolling(`{steps: [{subsets: [zone-a], partition: 0, pause: {}}]}`)
	w.SetImage("v2")
	key := w.AwaitApproval(0)
	still := e.History.Forbid(AnyNewPod)
	p.Kill()
	w.AwaitCheck("errors", v1alpha1.CheckIsNotMet, "the server refuses connections")
	w.Approve(key)
	w.AwaitPhase(v1alpha1.RolloutProgressing, "waiting for check errors: the server refuses connections, since ")
	e.RestartManager(func() {})
	ComesToRest(w, "zone-a", "zone-b")
	still.Holds()
	p.Start()
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	still.Fires()
}

// TestServerOfOthers: a check cannot use a server that is not open to its namespace, nor one that leads elsewhere, and learns
// nothing of it.
func TestServerOfOthers(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	var asked, elsewhere atomic.Int32
	one := func(count *atomic.Int32) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			count.Add(1)
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`)
		}))
		t.Cleanup(server.Close)
		return server
	}
	theirs, other := one(&asked), one(&elsewhere)
	leads := httptest.NewServer(http.RedirectHandler(other.URL+"/api/v1/query", http.StatusTemporaryRedirect))
	t.Cleanup(leads.Close)
	name := e.Namespace
	e.SetServers(map[string]*queries.Server{name: {URL: theirs.URL, Namespaces: []string{"others"}}})
	w := canary(e, name, `max: "0.01"`)
	w.SetImage("v2")
	w.StallsWhole(v1alpha1.ReasonBlocked, "Waiting for check errors: server "+name+" is not open to namespace "+name, "checks.prometheus.servers."+name+".namespaces")
	w.SetRolling(`{checks: [` + ErrorRate("nobody", `max: "0.01"`) + `]}`)
	w.StallsWhole(v1alpha1.ReasonBlocked, "server nobody is not open to namespace "+name)
	w.SetRolling(`{checks: [` + ErrorRate("closed", `max: "0.01"`) + `]}`)
	w.AwaitPhase(v1alpha1.RolloutProgressing, "the server refuses connections")
	e.Expect(asked.Load()).To(BeZero())

	e.SetServers(map[string]*queries.Server{name: {URL: leads.URL, Namespaces: []string{name}}})
	w.SetRolling(`{checks: [` + ErrorRate(name, `max: "0.01"`) + `]}`)
	w.AwaitPhase(v1alpha1.RolloutProgressing, "the server answers with a redirect, which is not followed")
	e.Expect(elsewhere.Load()).To(BeZero())
	e.Expect(w.Images()["zone-b"]).To(Equal("v1 v1"))

	e.SetServers(map[string]*queries.Server{name: {URL: theirs.URL, Namespaces: []string{name}}})
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	e.Expect(asked.Load()).NotTo(BeZero(), "the control")
	w.SetRolling(`{steps: [{subsets: [zone-a], partition: 0, pause: {}}]}`)
	w.SetImage("v3")
	w.AwaitApproval(0)
	e.SetServers(map[string]*queries.Server{name: nil})
	w.StallsWhole(v1alpha1.ReasonBlocked, "server "+name+" is not open to namespace "+name)
}
