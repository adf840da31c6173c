// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/install"
)

// TestAtRest touches every child of parents in mid-canary, restarts the manager, and checks that the
// manager writes nothing, to no object in any namespace. The control plane is a new
// one, because a parent that another test left in a failure is not at rest.
func TestAtRest(t *testing.T) {
	t.Parallel()
	e := newestPlaneOf(t).NewEnv(t)
	var all []*Workload
	midCanary := func(name string, p Parts, edits ...Edit) *Workload {
		w := e.Create(NewDraft(name, append([]Edit{Replicas(9), Hold()}, edits...)...))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(p)
		w.Settle()
		tags := fmt.Sprint(w.Images())
		e.Expect(tags).To(And(ContainSubstring("v1"), ContainSubstring("v2")))
		all = append(all, w)
		return w
	}
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		midCanary("web-"+strings.ToLower(string(p)), Parts{"zone-a": 0, "zone-b": "50%"}, Policy(p), Zones("3", "4", ""))
	}
	// The API server formats this value differently: it turns 1024Mi into 1Gi.
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"requests":{"memory":"1024Mi","cpu":"1000m"}}}]}}}}`
	patched := Zone(1, "50%")
	patched.Patch = &runtime.RawExtension{Raw: []byte(patch)}
	patched.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	midCanary("web-patched", Parts{"zone-a": 1, "zone-b": 2}, Zones(""), Subset(patched))
	midCanary("web-third", Parts{"zone-a": 0}, Zones("", "")).SetImage("v3") // three revisions at once
	paused := midCanary("web-paused", Parts{"zone-a": 0, "zone-b": 2}, Zones("3", "4", ""))
	paused.Patch(`{"spec":{"paused":true}}`)
	paused.SetImage("v3")
	for _, w := range all {
		w.Settle()
	}
	all = append(all, coordinatedAtRest(e)...)
	look := newIdleProbe(e)
	touched := 0
	touch := func() {
		e.T.Helper()
		touched++
		e.Kubectl("annotate", Children, "-l", v1alpha1.LabelSubset, "--overwrite", fmt.Sprintf("example.com/touched=%d", touched))
		e.Kubectl("label", Children, "-l", v1alpha1.LabelSubset, "--overwrite", fmt.Sprintf("example.com/round=%d", touched))
		look.waitUntilDone()
	}

	look.at(e.RestartManager(func() {}, look.args()...))
	touch() // after any work that an earlier manager left behind
	mark := e.AuditMark()
	e.Step("touched", func() { touch() })
	e.Step("restarted", func() {
		look.at(e.RestartManager(touchUnseen(e), look.args()...))
		touch()
		touch() // the manager may have read the first touches when it started
	})
	e.Step("killed", func() {
		look.at(killManager(e, look.args()...))
		touch()
		touch()
	})
	e.Expect(managerWrites(e, mark)).To(BeEmpty())
	for _, w := range all {
		for _, s := range w.Parent().Spec.Topology.Subsets {
			e.Expect(w.Child(s.Name).Annotations).To(HaveKeyWithValue("example.com/touched", fmt.Sprint(touched)))
			e.Expect(w.Child(s.Name).Labels).To(HaveKeyWithValue("example.com/round", fmt.Sprint(touched)))
		}
	}

	e.Step("positive control: a roll is seen", func() {
		paused.Patch(`{"spec":{"paused":false}}`)
		for _, w := range all {
			w.Patch(`{"spec":{"updateStrategy":{"type":"Manual","rollingUpdate":null,"manualUpdate":{"partitions":null,"defaultPartition":0}}}}`)
			w.SetImage("v4")
		}
		for _, w := range all {
			w.Settle()
		}
		var seen []string
		for _, write := range managerWrites(e, mark) {
			seen = append(seen, strings.TrimSuffix(write.Resource+"/"+write.Subresource, "/")+" "+write.Namespace+"/"+write.Name)
		}
		for _, w := range all {
			e.Expect(seen).To(ContainElement(Statuses + " " + e.Namespace + "/" + w.Name))
			e.Expect(seen).To(ContainElement("controllerrevisions " + e.Namespace + "/" + w.Parent().Status.UpdateRevision))
			for _, s := range w.Parent().Spec.Topology.Subsets {
				e.Expect(seen).To(ContainElement(Children + " " + e.Namespace + "/" + w.Name + "-" + s.Name))
			}
		}
	})
	e.RestartManager(func() {}) // with the arguments of the chart
}

// coordinatedAtRest returns coordinated rollouts that wait for a person: one that is complete, one at a step that needs
// an approval, and one that has failed.
func coordinatedAtRest(e *Env) []*Workload {
	e.T.Helper()
	create := func(name, strategy, tag string) *Workload {
		w := e.Create(NewDraft(name, Replicas(6), Zones("", ""), Policy(appsv1.ParallelPodManagement), Rolling(strategy)))
		w.Settle()
		w.SetImage(tag)
		return w
	}
	complete := create("web-complete", `{maxUnavailable: 2}`, "v2")
	gated := create("web-gated", `{maxUnavailable: 2, steps: [{subsets: [zone-a], partition: "0%", pause: {}}]}`, "v2")
	failed := create("web-failed", `{maxUnavailable: 1}`, "broken-v2")
	complete.Settle()
	gated.AwaitApproval(0)
	failed.StallsWhole(v1alpha1.ReasonReplicaFailed)
	return []*Workload{complete, gated, failed}
}

// touchUnseen touches the children while no manager runs.
func touchUnseen(e *Env) func() {
	return func() {
		e.T.Helper()
		e.Kubectl("annotate", Children, "-l", v1alpha1.LabelSubset, "--overwrite", "example.com/touched=unseen")
	}
}

// managerWrites returns the writes of the manager since a mark, in all namespaces and to all resources,
// including refused ones, but not those to its Lease and events.
func managerWrites(e *Env, mark int64) []cluster.Event {
	e.T.Helper()
	manager := cluster.ByServiceAccount(install.Namespace, install.ServiceAccount)
	writes, err := e.Cluster.Writes(e.Ctx, mark, func(w cluster.Event) bool {
		return manager(w) && !slices.Contains([]string{"leases", "events"}, w.Resource)
	})
	e.Expect(err).NotTo(HaveOccurred())
	return writes
}

// idleProbe detects when the manager has processed all children.
//
// It uses a StatefulSet without an owner. A label refers the manager to a parent that does not exist,
// so a change of the label causes a pass that finds nothing and writes nothing. The event comes after
// all earlier changes of children. So when the manager has started that pass, which it logs at level 5,
// the children are at least in its queue. When the metrics then show an empty queue and no active
// worker, the manager has processed them.
type idleProbe struct {
	*Env
	set     string
	times   int
	metrics string
}

func newIdleProbe(e *Env) *idleProbe {
	e.T.Helper()
	l := &idleProbe{Env: e, set: "look"}
	set := ForeignSet(e.Namespace, l.set)
	set.SetLabels(map[string]string{v1alpha1.LabelName: "look-0"})
	e.CreateForeign(set)
	return l
}

// args returns the arguments that the manager needs for the probe. With the metrics of the chart each
// read would cost a TokenReview, which is a write of the manager.
func (*idleProbe) args() []string { return []string{"--zap-log-level=5", "--metrics-secure=false"} }

// at stores the address of the manager's metrics.
func (l *idleProbe) at(d *install.Deployed) { l.metrics = "http://" + d.Metrics + "/metrics" }

func (l *idleProbe) waitUntilDone() {
	l.T.Helper()
	l.times++
	nobody := fmt.Sprintf("look-%d", l.times)
	set := &appsv1.StatefulSet{}
	set.Namespace, set.Name = l.Namespace, l.set
	l.Expect(l.Client.Patch(l.Ctx, set, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelName, nobody)))).To(Succeed())
	l.Eventually(func() bool { return l.logged(`"msg":"Reconciling"`, fmt.Sprintf("%q", nobody)) }).Should(BeTrue())
	before := -1.0
	l.Eventually(func(g Gomega) {
		added, done := l.queue(g)
		earlier := before
		before = done
		// By then the manager had ended as many passes as were ever added up to now, so nothing was
		// left in between.
		g.Expect(added).To(Equal(earlier))
	}).Should(Succeed())
}

// logged reports whether one line of the manager's log contains all the words.
func (l *idleProbe) logged(words ...string) bool {
	l.T.Helper()
	log, err := os.ReadFile(l.Manager.LogPath())
	l.Expect(err).NotTo(HaveOccurred())
	for line := range bytes.Lines(log) {
		if !slices.ContainsFunc(words, func(word string) bool { return !bytes.Contains(line, []byte(word)) }) {
			return true
		}
	}
	return false
}

// queue returns how many passes were added to the queue of the manager, and how many have ended.
func (l *idleProbe) queue(g Gomega) (added, done float64) {
	request, err := http.NewRequestWithContext(l.Ctx, http.MethodGet, l.metrics, nil)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close() //nolint:errcheck // read only
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	ofController := func(family string) *dto.Metric {
		for _, m := range families[family].GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == "uniteddeployment" {
					return m
				}
			}
		}
		g.Expect(family).To(BeEmpty(), "not among the metrics")
		return nil
	}
	return ofController("workqueue_adds_total").GetCounter().GetValue(),
		float64(ofController("workqueue_work_duration_seconds").GetHistogram().GetSampleCount())
}
