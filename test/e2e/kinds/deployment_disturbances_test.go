// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// crashOne reports, as the kubelet, that a replica of a subset crashes.
func crashOne(w *Contracted, subset string) {
	w.T.Helper()
	w.Disturbed()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":%q}],
		"containerStatuses":[{"name":"web","image":"x","imageID":"x","ready":false,"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.PodsOf(subset)[0].Name}}
	w.Expect(w.Client.Status().Patch(w.Ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch))).To(Succeed())
}

// TestDeploymentBrokenOutOfTurn checks a replica that crashes, under order Sequential, in a subset that
// has to wait for an earlier one. A Deployment cannot update that replica alone, so the replica waits
// too.
func TestDeploymentBrokenOutOfTurn(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(6), Zones("", ""), Rolling(`{maxUnavailable: 2, order: Sequential}`))
	w.ComesTo("3 v1", "3 v1", "")
	crashOne(w, "zone-b")
	w.Eventually(func() int32 { return w.Status("zone-b").ReadyReplicas }).Should(Equal(int32(2)))
	mark := e.History.Mark()
	w.SetImages("v2")
	w.ComesTo("3 v2", "3 v2", "")
	var order []string
	for _, i := range e.History.Since(mark) {
		order = append(order, i.Subset)
	}
	e.Expect(order).To(Equal([]string{"zone-a", "zone-a", "zone-a", "zone-b", "zone-b", "zone-b"}))
}

// TestDeploymentHeldWithSurplus checks a Deployment with room for surplus replicas that is stopped in
// the middle of an update: it keeps one replica more than its spec asks for, and United accepts that.
func TestDeploymentHeldWithSurplus(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	surge := TemplateField(map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(1)}}, "spec", "strategy")
	w := e.DeploymentsOf(Replicas(3), Zones(""), Hold(), surge)
	w.ComesTo("3 v1", "", "")
	w.SetImages("quiet")
	w.SetPartitions(Parts{"zone-a": 0})
	w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet?, 3 v1"}))
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).ShouldNot(BeEmpty(), "the control: on its way it is not")
	w.SetPartitions(Parts{"zone-a": "100%"})
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
	e.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": "1 quiet?, 3 v1"}))
}

// TestDeploymentHeldAndEmptied deletes all ReplicaSets of a Deployment that was held in the middle of
// an update, and checks that it recreates its replicas on the protected version.
func TestDeploymentHeldAndEmptied(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(3), Zones(""), Hold(), Slowly())
	w.ComesTo("3 v1", "", "")
	w.SetImages("quiet")
	w.SetPartitions(Parts{"zone-a": 0})
	w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet?, 2 v1"}))
	w.SetPartitions(Parts{"zone-a": "100%"})
	awaitPaused(w, "zone-a", true)
	e.Expect(e.DeleteAllOf(e.Ctx, &appsv1.ReplicaSet{}, client.InNamespace(e.Namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	w.Disturbed()
	w.ComesTo("3 v1", "", "")
}

// TestDeploymentPausedByAdmission checks that United reports a mutating policy that keeps a Deployment
// paused, and does not write without end.
func TestDeploymentPausedByAdmission(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(6), Zones("", ""), Hold())
	w.ComesTo("3 v1", "3 v1", "")
	lift := e.Override("deployments", "", `object.metadata.name == "web-zone-a" ? [JSONPatch{op: "add", path: "/spec/paused", value: true},
		JSONPatch{op: "add", path: "/metadata/labels/example.com~1written", value: oldObject.metadata.resourceVersion}] : []`, func() bool {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "web-zone-a"}}
		e.Expect(e.Client.Patch(e.Ctx, d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/probe":"x"}}}`)), client.DryRunAll)).To(Succeed())
		return d.Spec.Paused
	})
	w.SetImages("v2")
	w.SetPartitions(Parts{"zone-a": 0})
	w.Stalls("zone-a", v1alpha1.ReasonOverridden, "spec.paused was changed by admission")
	lift()
	w.Disturbed()
	w.ComesTo("3 v2", "3 v1", "")
}

// TestDeploymentBlip checks that a replica which is briefly not ready after a coordinated rollout
// causes no write to its Deployment, which does not ask for surplus replicas either.
func TestDeploymentBlip(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(4), Zones("", ""), Rolling(`{maxUnavailable: 1}`))
	w.SetImages("v2")
	w.ComesTo("2 v2", "2 v2", "")
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
	d := &appsv1.Deployment{}
	e.Expect(e.Get(e.Ctx, e.Key("web-zone-a"), d)).To(Succeed())
	e.Expect(d.Spec.Strategy.RollingUpdate.MaxSurge.String()).To(Equal("0"))
	mark := e.AuditMark()
	for _, p := range w.Pods() {
		if p.Subset != "zone-a" {
			continue
		}
		w.MarkPod(p.Name, corev1.ConditionFalse)
		w.Eventually(func() int32 { return w.Status("zone-a").ReadyReplicas }).Should(Equal(int32(1)))
		w.MarkPod(p.Name, corev1.ConditionTrue)
		w.Eventually(func() int32 { return w.Status("zone-a").ReadyReplicas }).Should(Equal(int32(2)))
	}
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
	e.Expect(e.Writes(mark, "deployments")).To(BeEmpty())
	w.SetImages("v3")
	w.ComesTo("2 v3", "2 v3", "")
	e.Expect(e.Writes(mark, "deployments")).NotTo(BeEmpty(), "the control: a release is seen")
}

// TestDeploymentTemplateChangedByEachWrite checks a policy that changes the template on each write, so
// that each write replaces all pods of a Deployment. United writes the Deployment only a few times,
// because it keeps the pace of a rollout when the rollout is done.
func TestDeploymentTemplateChangedByEachWrite(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(6), Zones("", ""), Rolling(`{maxUnavailable: 1, steps: [{subsets: [zone-a], partition: "0%", pause: {}}]}`))
	e.Override("deployments", "", `object.metadata.name != "web-zone-a" ? [] : [JSONPatch{op: "add", path: "/spec/template/spec/containers/0/env",
		value: [{"name": "COUNT", "value": string(oldObject.metadata.resourceVersion)}]}]`, func() bool {
		return len(deploymentAsWritten(w, "web-zone-a").Spec.Template.Spec.Containers[0].Env) > 0
	})
	for _, move := range []struct{ to, inB string }{{"v2", "3 v1"}, {"v1", "3 v1"}, {"v3", "3 v1"}} {
		mark, pods := e.AuditMark(), e.History.Mark()
		w.SetImages(move.to)
		w.ComesTo("3 "+move.to, move.inB, "")
		w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
		e.Expect(len(e.Writes(mark, "deployments"))).To(BeNumerically("<=", 8), "to %s", move.to)
		e.Expect(len(e.History.Since(pods))).To(BeNumerically("<=", 3*8), "to %s", move.to)
	}
}

// deploymentAsWritten returns a Deployment as admission changes it on a write.
func deploymentAsWritten(w *Contracted, name string) *appsv1.Deployment {
	w.T.Helper()
	d := &appsv1.Deployment{}
	w.Expect(w.Get(w.Ctx, w.Key(name), d)).To(Succeed())
	w.Expect(w.Client.Patch(w.Ctx, d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/probe":"x"}}}`)), client.DryRunAll)).To(Succeed())
	return d
}

// TestDeploymentOverriddenStrategy checks that United reports a policy that lets a Deployment take down
// all of its pods at once, and does not rewrite the strategy without end.
func TestDeploymentOverriddenStrategy(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(6), Zones("", ""), Rolling(`{maxUnavailable: 1, order: Sequential}`))
	lift := e.Override("deployments", "", `object.metadata.name != "web-zone-a" ? [] : [JSONPatch{op: "replace", path: "/spec/strategy",
		value: {"type": dyn("RollingUpdate"), "rollingUpdate": dyn({"maxUnavailable": "100%", "maxSurge": "0%"})}},
		JSONPatch{op: "add", path: "/metadata/labels/example.com~1count", value: string(oldObject.metadata.resourceVersion)}]`, func() bool {
		return deploymentAsWritten(w, "web-zone-a").Spec.Strategy.RollingUpdate.MaxUnavailable.String() == "100%"
	})
	mark := e.AuditMark()
	w.SetImages("quiet2") // so that its pace matters all the time; zone-a comes first, regardless of the order of observation
	w.StallsWhole(v1alpha1.ReasonOverridden, "spec.strategy was changed by admission")
	e.Expect(len(e.Writes(mark, "deployments"))).To(BeNumerically("<=", 2*Spaced))
	lift()
	w.SetImages("v3") // otherwise it takes up to five minutes
	w.ComesTo("3 v3", "3 v3", "")
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
}
