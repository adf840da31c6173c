// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/chart/env"
)

// stepped is a chart whose application rolls out by itself, with a step in zone-a that waits for
// approval, and one in zone-b with a pause.
const stepped = `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: web, namespace: {{ .Release.Namespace }}}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    statefulSetTemplate:
      spec:
        serviceName: web
        podManagementPolicy: Parallel
        template:
          metadata: {labels: {app: web}}
          spec:
            terminationGracePeriodSeconds: 1
            containers: [{name: web, image: "registry.example/web:{{ .Values.tag }}"}]
  topology:
    subsets: [{name: zone-a}, {name: zone-b}, {name: zone-c}]
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 2
      steps:
      - {subsets: [zone-a], partition: 1, pause: {}}
      - {subsets: [zone-b], partition: 0, pause: {duration: {{ .Values.pause }}}}
`

// TestHelmApproval compares the result of `helm upgrade --wait` with the pods during a coordinated
// rollout: helm ends at a step that waits for approval, but keeps waiting during a pause, which ends by
// itself.
func TestHelmApproval(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := newWaiting(e, "approval")
	w.app = t.TempDir()
	e.Expect(os.Mkdir(filepath.Join(w.app, "templates"), 0o755)).To(Succeed())
	for name, content := range map[string]string{
		"Chart.yaml":                         "{apiVersion: v2, name: stepped, version: 1.0.0}\n",
		filepath.Join("templates", "w.yaml"): stepped,
	} {
		e.Expect(os.WriteFile(filepath.Join(w.app, name), []byte(content), 0o600)).To(Succeed())
	}
	e.Start(w.home, "approval-manager", "approval")
	reason := func() string {
		ready := ptr.Deref(meta.FindStatusCondition(w.live().Status.Conditions, v1alpha1.ConditionReady), metav1.Condition{})
		if ready.ObservedGeneration != w.live().Generation {
			return ""
		}
		return ready.Reason
	}
	approve := func() {
		e.T.Helper()
		kubectl(e, "-n", w.work, "annotate", "--overwrite", "united", WebName, v1alpha1.AnnotationApproved+"="+w.live().Status.Rollout.ApprovalKey)
	}
	var before map[string]PodState

	e.Step("an install needs no approval", func() {
		w.upgrade("--set=tag=v1,pause=1h")
		e.Expect(Settled(e.Ctx, w.work, WebName, 6)).To(BeEmpty(), "helm says it is done")
		before = e.Pods(w.work, WebName)
		e.Expect(before).To(HaveLen(6))
	})
	e.Step("an upgrade is done when the step is reached, and its replicas are ready", func() {
		h := w.start("--set=tag=quiet-v2,pause=1h")
		e.Eventually(func() string { return e.Pods(w.work, WebName)["web-zone-a-1"].Image }).Should(Equal("quiet-v2"))
		e.Eventually(func() corev1.PodPhase { return w.phase("web-zone-a-1") }).Should(Equal(corev1.PodRunning), "kwok would undo the mark")
		e.Eventually(w.notReady).Should(ContainSubstring("web-zone-a-1"))
		h.keepsWaiting()
		w.markReady("web-zone-a-1")
		e.Expect(h.end()).To(Succeed())
		e.Expect(reason()).To(Equal(v1alpha1.ReasonAwaitingApproval))
		e.Expect(Moved(before, e.Pods(w.work, WebName))).To(Equal([]string{"web-zone-a-1"}))
	})
	e.Step("a broken image in the first step fails it, with the name of the replica", func() {
		h := w.start("--set=tag=broken-v3,pause=1h")
		e.Expect(h.end()).NotTo(Succeed())
		e.Expect(h.output()).To(And(ContainSubstring("status: Failed"), ContainSubstring("web-zone-a-1 (CrashLoopBackOff"),
			Not(ContainSubstring("deadline exceeded"))))
		e.Expect(Moved(before, e.Pods(w.work, WebName))).To(Equal([]string{"web-zone-a-1"}))
	})
	e.Step("a timed pause is waited for", func() {
		w.upgrade("--set=tag=v4,pause=1h")
		e.Expect(reason()).To(Equal(v1alpha1.ReasonAwaitingApproval))
		e.Expect(e.Pods(w.work, WebName)["web-zone-a-1"].Image).To(Equal("v4"))
		e.Expect(Moved(before, e.Pods(w.work, WebName))).To(Equal([]string{"web-zone-a-1"}))
		approve()
		e.Eventually(reason).Should(Equal(v1alpha1.ReasonStepPaused))
		h := w.start("--set=tag=v4,pause=1h", "--timeout=20s")
		h.keepsWaiting()
		e.Expect(h.end()).NotTo(Succeed())
		e.Expect(h.output()).To(And(ContainSubstring("status: InProgress"), ContainSubstring("deadline exceeded")))
		e.Expect(Moved(before, e.Pods(w.work, WebName))).To(Equal([]string{"web-zone-a-1", "web-zone-b-0", "web-zone-b-1"}))
	})
	e.Step("with a short one the same upgrade goes to the end", func() {
		w.upgrade("--set=tag=v4,pause=1s")
		e.Expect(reason()).To(Equal(v1alpha1.ReasonRolloutComplete))
		e.Expect(e.Pods(w.work, WebName)).To(HaveLen(6))
		for name, pod := range e.Pods(w.work, WebName) {
			e.Expect(pod.Image).To(Equal("v4"), name)
		}
	})
}
