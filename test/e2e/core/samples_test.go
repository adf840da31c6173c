// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/checks/queries"
	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/install"
)

// samples are the tests of config/samples, by file or directory. Each applies its sample with the
// intended command.
var samples = map[string]func(t *testing.T){
	"web.yaml":                 testSampleWeb,
	"rolling-update.yaml":      testSampleRollingUpdate,
	"sequential-database.yaml": testSampleSequential,
	"checked-database.yaml":    testSampleChecked,
	"smoke-test.yaml":          testSampleSmokeTest,
	"error-rate.yaml":          testSampleErrorRate,
	"spot.yaml":                testSampleSpot,
	"spot-first.yaml":          testSampleSpotFirst,
	"autoscaled.yaml":          testSampleAutoscaled,
	"disruption-budget.yaml":   testSampleDisruptionBudget,
	"volume-claims.yaml":       testSampleVolumeClaims,
	"roles.yaml":               testSampleRoles,
	"role-limits.yaml":         testSampleRoleLimits,
	"bounds.yaml":              testSampleBounds,
	"colocation.yaml":          testSampleColocation,
	"gitops":                   testSampleGitOps,
	"helm":                     testSampleHelm,
}

// TestSamples applies all samples. The samples of kinds other than StatefulSet have separate tests,
// next to the other tests of their kind.
func TestSamples(t *testing.T) {
	t.Parallel()
	for name, test := range samples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// TestSamplesAreTested checks that every sample has a test, and every test a sample.
func TestSamplesAreTested(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	entries, err := os.ReadDir(SamplesDir(t))
	g.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	tested := []string{"README.md", "deployment.yaml", "cloneset.yaml", "advancedstatefulset.yaml", "leaderworkerset.yaml", "roles-leaderworkerset.yaml", "analysis.yaml"}
	for name := range samples {
		tested = append(tested, name)
	}
	g.Expect(found).To(ConsistOf(tested))
}

// applySample applies a file of config/samples in a new namespace.
func applySample(t *testing.T, file, name string) *Workload {
	t.Helper()
	e := NewEnv(t)
	e.Kubectl("apply", "-f", filepath.Join(SamplesDir(t), file))
	return e.Workload(name)
}

func testSampleWeb(t *testing.T) {
	w := applySample(t, "web.yaml", "web")
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v1 v1", "zone-c": "v1 v1"}))
	for _, p := range w.Pods() {
		w.Expect(p.Zone).To(Equal(p.Subset), p.Name)
	}
	for _, subset := range []string{"zone-a", "zone-b", "zone-c"} {
		w.Expect(w.Status(subset).Replicas).To(BeEquivalentTo(w.Count(subset)))
	}
	scale := w.Kubectl("get", "united", "web", "--subresource=scale",
		"-o", "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}")
	w.Expect(scale).To(HavePrefix("6 6 app=web"))
}

func testSampleColocation(t *testing.T) {
	w := applySample(t, "colocation.yaml", "translate")
	w.Settle()
	w.Expect(w.Groups(OnNode)).To(Equal(map[int]string{0: "decode-0 prefill-0 prefill-1", 1: "decode-1 prefill-2 prefill-3", 2: "decode-2 prefill-4 prefill-5"}))
	w.SetImage("v2")
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{Prefill: "v2 v2 v2 v2 v2 v2", Decode: "v2 v2 v2"}))
	w.Expect(w.Groups(OnNode)).To(HaveLen(3))
}

func testSampleBounds(t *testing.T) {
	w := applySample(t, "bounds.yaml", "cache")
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1 v1"}))
	for _, step := range []struct {
		replicas int32
		want     Images
	}{
		{3, Images{"zone-a": "v1", "zone-b": "v1", "zone-c": "v1"}},
		{4, Images{"zone-a": "v1 v1", "zone-b": "v1", "zone-c": "v1"}},
		{6, Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}},
	} {
		w.Scale(step.replicas)
		w.Settle()
		w.Expect(w.Images()).To(Equal(step.want))
		w.IsReady(v1alpha1.ReasonRolloutComplete)
	}
	// Held replicas are split in the same way, and new ones are protected.
	w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":1},"defaultPartition":"100%%"}}}}`)
	w.SetImage("v2")
	w.Scale(8)
	w.Runs(Images{"zone-a": "v1 v2", "zone-b": "v1 v1", "zone-c": "v1 v1 v1 v1"})
	w.Settle()
	w.Scale(2)
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1"}))
	w.IsReady(v1alpha1.ReasonReplicasNotHonored)
	w.Expect(Condition(w.Parent(), v1alpha1.ConditionReplicasHonored).Message).To(ContainSubstring("zone-c gets 0 (asks for at least 1)"))
}

func testSampleRollingUpdate(t *testing.T) {
	w := applySample(t, "rolling-update.yaml", "shop")
	w.Settle()
	w.SetImage("v2")
	w.AwaitPhase(v1alpha1.RolloutPaused, "step 1 of 2")
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1 v1"}))
	w.JSONPatch(`[{"op":"replace","path":"/spec/updateStrategy/rollingUpdate/steps/0/pause/duration","value":"1s"}]`)
	key := w.AwaitApproval(1) // counted from 0
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1 v1"}))
	w.Approve(key)
	w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
	w.Settle()
}

func testSampleSequential(t *testing.T) {
	w := applySample(t, "sequential-database.yaml", "db")
	w.Settle()
	w.SetImage("v2")
	// A zone is complete ten seconds after it is ready, so the next one cannot have started yet.
	w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v2", "zone-b": "v1", "zone-c": "v1"}))
	w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v2", "zone-b": "v2", "zone-c": "v1"}))
	w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v2", "zone-b": "v2", "zone-c": "v2"}))
	w.Settle()
}

func testSampleChecked(t *testing.T) {
	w := applySample(t, "checked-database.yaml", "proxy")
	w.MySQLClusters()
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	cluster := w.MySQLCluster("shop")
	cluster.Create()
	cluster.Set(metav1.ConditionTrue, "Healthy")
	w.SetImage("quiet-v2")
	for _, zone := range []string{"zone-a", "zone-b", "zone-c"} {
		w.AwaitWaiting("proxy-" + zone + "-0")
		cluster.Set(metav1.ConditionFalse, "Switchover")
		w.AwaitCheck("mysql", v1alpha1.CheckIsNotMet, "(False, Switchover)")
		w.MarkReady(zone, 0)
		w.AwaitPhase(v1alpha1.RolloutProgressing, "waiting for check mysql")
		cluster.Set(metav1.ConditionTrue, "Healthy")
	}
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Expect(w.Images()).To(Equal(ThreeZones("quiet-v2")))
}

func testSampleSmokeTest(t *testing.T) {
	w := applySample(t, "smoke-test.yaml", "basket")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Expect(w.Jobs()).To(BeEmpty())
	w.SetImage("v2")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Expect(w.Jobs()).To(HaveLen(2), "one after the canary, and one at the end")
	w.JSONPatch(`[{"op":"replace","path":"/spec/updateStrategy/rollingUpdate/checks/0/job/template/spec/template/spec/containers/0/image","value":"registry.example/basket-smoke:fail"}]`)
	w.SetImage("v3")
	w.AwaitPhase(v1alpha1.RolloutCheckFailed, "check smoke failed", "3 of 5 requests failed")
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v3", "zone-b": "v2 v2", "zone-c": "v2 v2"}))
}

// testSampleErrorRate has a server that tells what the test says; a real one is in test/e2e/hostile.
func testSampleErrorRate(t *testing.T) {
	var rate atomic.Value
	rate.Store("0.02")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.FormValue("query"); !strings.Contains(q, `pod=~"`) || strings.Contains(q, "${") {
			http.Error(w, q, http.StatusTeapot)
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,%q]}]}}`, rate.Load())
	}))
	t.Cleanup(server.Close)
	w := applySample(t, "error-rate.yaml", "payment")
	w.SetServers(map[string]*queries.Server{"default": {URL: server.URL, Namespaces: []string{w.Namespace}}})
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.SetRolling(`{steps: [{subsets: [zone-a], partition: 0, pause: {duration: 1s}}]}`)
	w.JSONPatch(`[{"op":"replace","path":"/spec/updateStrategy/rollingUpdate/checks/0/prometheus/interval","value":"5s"}]`)
	w.SetImage("v2")
	w.AwaitPhase(v1alpha1.RolloutCheckFailed, "check errors failed: 0.02, at most 0.01")
	w.Expect(w.Images()["zone-b"]).To(Equal("v1 v1"))
	rate.Store("0.001")
	w.SetImage("v3")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Expect(w.Images()).To(Equal(ThreeZones("v3 v3")))
}

func testSampleSpot(t *testing.T) {
	w := applySample(t, "spot.yaml", "worker")
	// The nodes come after the pods, as with an autoscaler.
	taints := map[string][]corev1.Taint{
		"spot": {cluster.SpotTaint}, "on-demand": {{Key: w.Namespace, Effect: corev1.TaintEffectNoSchedule}},
	}
	w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0/tolerations","value":[{"key":%q,"operator":"Exists"}]}]`, w.Namespace)
	for pool, taints := range taints {
		name := w.Namespace + "-" + pool
		w.Expect(w.Cluster.AddNode(w.Ctx, "elsewhere", name, taints...)).To(Succeed())
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"karpenter.sh/capacity-type":"`+pool+`"}}}`))
		w.Expect(w.Client.Patch(w.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, label)).To(Succeed())
	}
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{"on-demand": "v1 v1", "spot": "v1 v1 v1 v1"}))
	for _, p := range w.Pods() {
		w.Expect(p.Node).To(Equal(w.Namespace+"-"+p.Subset), p.Name)
	}
	spot, other := w.PodSpec("spot"), w.PodSpec("on-demand")
	w.Expect(*spot.TerminationGracePeriodSeconds).To(BeEquivalentTo(20))
	w.Expect(*other.TerminationGracePeriodSeconds).To(BeEquivalentTo(60))
	w.Expect(spot.Containers[0].Image).To(Equal(other.Containers[0].Image), "the patch merges")
	w.Expect(spot.Containers[0].Env).To(HaveLen(1))
	w.Expect(other.Containers[0].Env).To(BeEmpty())
}

func testSampleSpotFirst(t *testing.T) {
	w := applySample(t, "spot-first.yaml", "crawler")
	addNode := func(pool, label, taint string) {
		name := w.Namespace + "-" + pool
		w.Expect(w.Cluster.AddNode(w.Ctx, "elsewhere", name, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule})).To(Succeed())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"eks.amazonaws.com/capacityType":"`+label+`"}}}`))
		w.Expect(w.Client.Patch(w.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)).To(Succeed())
	}
	w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/tolerations","value":[{"key":%q,"operator":"Exists"}]},
		{"op":"replace","path":"/spec/topology/scheduleStrategy/adaptive","value":{"rescheduleAfterSeconds":12,"retryAfterSeconds":5}}]`, w.Namespace)
	w.ComeTo("4(4),2(2)")
	addNode("on-demand", "ON_DEMAND", w.Namespace)
	w.ComeTo("0,6")
	w.Settle()
	addNode("spot", "SPOT", cluster.SpotTaint.Key)
	w.CapsAreOver()
	w.ScaleTo(8, "2,6")
	w.Settle()
	w.ScaleTo(6, "2,4")
	w.Settle()
	w.ScaleTo(3, "1,2")
	w.Settle()
}

func testSampleAutoscaled(t *testing.T) {
	w := applySample(t, "autoscaled.yaml", "checkout")
	// This is the real autoscaler: below its minimum it needs no metrics.
	w.Eventually(func() int32 { return *w.Parent().Spec.Replicas }).Should(BeEquivalentTo(4))
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))
	w.Kubectl("apply", "-f", filepath.Join(SamplesDir(t), "autoscaled.yaml"))
	w.Expect(*w.Parent().Spec.Replicas).To(BeEquivalentTo(4), "the manifest does not undo the autoscaler")
	scaler := &autoscalingv2.HorizontalPodAutoscaler{}
	w.Eventually(func(g Gomega) {
		g.Expect(w.Get(w.Ctx, w.Key("checkout"), scaler)).To(Succeed())
		g.Expect(scaler.Status.CurrentReplicas).To(BeEquivalentTo(4), "it finds the pods by the selector of the scale subresource")
	}).Should(Succeed())
	w.DeleteAtEnd(scaler)
}

func testSampleDisruptionBudget(t *testing.T) {
	w := applySample(t, "disruption-budget.yaml", "cart")
	w.Settle()
	budget := &policyv1.PodDisruptionBudget{}
	w.Eventually(func(g Gomega) {
		g.Expect(w.Get(w.Ctx, w.Key("cart"), budget)).To(Succeed())
		g.Expect(budget.Status.ExpectedPods).To(BeEquivalentTo(4), "the pods of all children")
		g.Expect(budget.Status.DisruptionsAllowed).To(BeEquivalentTo(1))
	}).Should(Succeed())
}

func testSampleVolumeClaims(t *testing.T) {
	e := NewEnv(t)
	// Volumes of the two classes, one for each replica in each zone.
	for class, volumes := range map[string]int{"standard": 1, "fast": 2} {
		e.Expect(e.Cluster.AddVolumes(e.Ctx, class, e.Namespace+"-"+class, volumes)).To(Succeed())
	}
	e.Kubectl("apply", "-f", filepath.Join(SamplesDir(t), "volume-claims.yaml"))
	w := e.Workload("store")
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v1"}))
	claims := &corev1.PersistentVolumeClaimList{}
	w.Expect(w.List(w.Ctx, claims, client.InNamespace(w.Namespace))).To(Succeed())
	got := map[string]string{}
	for _, c := range claims.Items {
		got[c.Name] = *c.Spec.StorageClassName + " " + c.Spec.Resources.Requests.Storage().String() + " " + string(c.Status.Phase)
	}
	w.Expect(got).To(Equal(map[string]string{
		"data-store-zone-a-0": "standard 10Gi Bound", "data-store-zone-b-0": "fast 20Gi Bound", "data-store-zone-b-1": "fast 20Gi Bound",
	}))
	// As in docs/workloads.md, "Fields that cannot be changed".
	none := e.History.Forbid(AnyNewPod)
	w.JSONPatch(`[{"op":"replace","path":"/spec/template/statefulSetTemplate/spec/volumeClaimTemplates/0/spec/resources/requests/storage","value":"15Gi"}]`)
	w.Stalls("zone-a", v1alpha1.ReasonApplyRefused, "spec.volumeClaimTemplates: field is immutable: Invalid value: [", "docs/workloads.md#fields-that-cannot-be-changed")
	e.Kubectl("delete", "statefulset", "store-zone-a", "--cascade=orphan")
	w.Settle()
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Expect(w.Kubectl("get", "statefulset", "store-zone-a", "-o", "jsonpath={.spec.volumeClaimTemplates[0].spec.resources.requests.storage}")).To(Equal("15Gi"))
	none.Holds()
	w.SetImage("v2") // the control: the subsets are not held
	w.Settle()
	none.Fires()
}

func testSampleRoles(t *testing.T) {
	w := applySample(t, "roles.yaml", "llm")
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{"prefill": "v1 v1", "decode": "v1 v1 v1 v1 v1 v1"}))
	w.Expect(w.PodSpec("prefill").Containers[0].Args).To(Equal([]string{"--role=prefill"}))
	requests := w.PodSpec("prefill").Containers[0].Resources.Requests
	w.Expect(requests.Cpu().String()+" "+requests.Memory().String()).To(Equal("16 16Gi"), "the patch merges")
	w.Expect(w.PodSpec("decode").Containers[0].Args).To(Equal([]string{"--role=decode"}))
	w.SetImage("v2")
	w.AwaitPhase(v1alpha1.RolloutPaused, "step 1 of 1")
	w.Expect(w.Images()).To(Equal(Images{"prefill": "v1 v2", "decode": "v1 v1 v1 v1 v1 v2"}))
}

func testSampleRoleLimits(t *testing.T) {
	w := applySample(t, "role-limits.yaml", "chat")
	w.Settle()
	version := func(subset string) (values []string) {
		for _, p := range w.PodsOf(subset) {
			values = append(values, p.Labels[v1alpha1.LabelVersion])
		}
		slices.Sort(values)
		return slices.Compact(values)
	}
	first := version("prefill")
	w.Expect(first).To(And(HaveLen(1), Equal(version("decode"))), "one version of both roles")
	prefill, decode := w.Ledger(4).Of("prefill"), w.Ledger(8).Of("decode")
	w.SetImage("quiet-v2")
	w.Waves(3, nil)
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	prefill.Within(1)
	decode.Within(2)
	w.Expect(version("prefill")).To(And(HaveLen(1), Equal(version("decode")), Not(Equal(first))))
}

// testSampleGitOps makes the changes that commits to the production overlay make.
func testSampleGitOps(t *testing.T) {
	e := NewEnv(t)
	dir := filepath.Join(t.TempDir(), "gitops")
	e.Expect(os.CopyFS(dir, os.DirFS(filepath.Join(SamplesDir(t), "gitops")))).To(Succeed())
	production := filepath.Join(dir, "overlays", "production")
	sync := func(file, before, after string) {
		e.T.Helper()
		if file != "" {
			path := filepath.Join(production, file)
			text, err := os.ReadFile(path)
			e.Expect(err).NotTo(HaveOccurred())
			e.Expect(strings.Count(string(text), before)).To(Equal(1), "%s has %q", file, before)
			e.Expect(os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), 0o600)).To(Succeed())
		}
		e.Kubectl("apply", "-k", production)
		e.Workload("web").Settle()
	}
	w := e.Workload("web")
	sync("", "", "")
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
	sync("kustomization.yaml", "newTag: v1", "newTag: v2")
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
	sync("release.yaml", "        zone-a: 0 ", "        zone-b: 50%\n        zone-a: 0 ")
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2", "zone-b": "v1 v2", "zone-c": "v1 v1"}))

	staging := NewEnv(t)
	staging.Kubectl("apply", "-k", filepath.Join(dir, "overlays", "staging"))
	s := staging.Workload("web")
	s.Settle()
	s.Expect(s.Images()).To(Equal(Images{"zone-a": "v2", "zone-b": "v2", "zone-c": "v2"}))
}

func testSampleHelm(t *testing.T) {
	e := NewEnv(t)
	chart, err := install.ChartDir("zone-canary")
	e.Expect(err).NotTo(HaveOccurred())
	_, err = install.Helm(e.Ctx, e.Cluster, "install", "web", chart, "--namespace="+e.Namespace,
		"-f", filepath.Join(SamplesDir(t), "helm", "values.yaml"), "--wait", "--timeout=2m")
	e.Expect(err).NotTo(HaveOccurred())
	w := e.Workload("web")
	w.Eventually(func() int32 { return *w.Parent().Spec.Replicas }).Should(BeEquivalentTo(5), "the autoscaler's minimum")
	w.Settle()
	w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
}
