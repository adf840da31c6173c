// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

// TestHelmWaits compares the result of `helm upgrade --install --wait` with the pods, with and without
// a running controller.
func TestHelmWaits(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := newWaiting(e, "waits")
	released := []string{"web-zone-a-1", "web-zone-b-1"}
	var manager *install.Manager
	var before map[string]PodState
	onlyReleased := func(tag string) {
		e.T.Helper()
		e.Expect(Settled(e.Ctx, w.work, WebName, 6)).To(BeEmpty(), "helm says it is done")
		after := e.Pods(w.work, WebName)
		e.Expect(Moved(before, after)).To(Equal(released))
		for _, name := range released {
			e.Expect(after[name].Image).To(Equal(tag))
		}
	}

	e.Step("an install waits for a controller", func() {
		h := w.start("--set=replicas=6,image.tag=v1")
		e.Eventually(func() error {
			return e.Get(e.Ctx, types.NamespacedName{Namespace: w.work, Name: WebName}, &v1alpha1.UnitedDeployment{})
		}).Should(Succeed())
		e.Expect(w.live().Status.ObservedGeneration).To(BeEquivalentTo(-1))
		h.keepsWaiting()
		manager, _ = e.Start(w.home, "waits-manager", "waits-1")
		e.Expect(h.end()).To(Succeed())
		e.Expect(Settled(e.Ctx, w.work, WebName, 6)).To(BeEmpty(), "helm says it is done")
		before = e.Pods(w.work, WebName)
		e.Expect(before).To(HaveLen(6))
	})
	e.Step("an upgrade that is held returns when it is staged, whatever is wrong with the image", func() {
		w.upgrade("--set=replicas=6,image.tag=broken-held")
		w.staged("broken-held")
		e.Expect(Moved(before, e.Pods(w.work, WebName))).To(BeEmpty())
	})
	e.Step("one with released replicas returns when they are ready, and not before", func() {
		w.upgrade("--set=replicas=6,image.tag=v2")
		w.patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":1,"zone-b":"50%%"}}}}}`)
		e.Settle(w.work, WebName, 6)
		onlyReleased("v2")
		// Pods with this tag are not ready until the test marks them ready.
		h := w.start("--set=replicas=6,image.tag=quiet-until-told")
		for i, name := range released {
			e.Eventually(func() string { return e.Pods(w.work, WebName)[name].Image }).Should(Equal("quiet-until-told"))
			e.Eventually(func() corev1.PodPhase { return w.phase(name) }).Should(Equal(corev1.PodRunning), "kwok would undo the mark")
			e.Eventually(w.notReady).Should(ContainSubstring(name), "the status of this generation names it")
			h.keepsWaiting()
			w.markReady(released[i])
		}
		e.Expect(h.end()).To(Succeed())
		onlyReleased("quiet-until-told")
		w.staged("quiet-until-told")
	})
	e.Step("an upgrade waits for a controller", func() {
		e.Expect(manager.Stop()).To(Succeed())
		h := w.start("--set=replicas=6,image.tag=v3")
		e.Eventually(func() bool { return w.live().Generation > w.live().Status.ObservedGeneration }).Should(BeTrue())
		e.Expect(meta.IsStatusConditionTrue(w.live().Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), "of the generation before")
		h.keepsWaiting()
		e.Start(w.home, "waits-manager", "waits-2")
		e.Expect(h.end()).To(Succeed())
		onlyReleased("v3")
	})
	e.Step("a paused rollout is what was asked for", func() {
		still := e.Pods(w.work, WebName)
		w.patch(`{"spec":{"paused":true}}`)
		w.upgrade("--set=replicas=6,image.tag=v4")
		e.Expect(Settled(e.Ctx, w.work, WebName, 6)).To(BeEmpty())
		e.Expect(meta.FindStatusCondition(w.live().Status.Conditions, v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonPaused))
		e.Expect(Moved(still, e.Pods(w.work, WebName))).To(BeEmpty())
		w.patch(`{"spec":{"paused":false}}`)
		e.Settle(w.work, WebName, 6)
		onlyReleased("v4") // the positive control
	})
}

// TestHelmFails checks the result of `helm --wait` for an image that does not come up, and for the one
// after it.
func TestHelmFails(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := newWaiting(e, "fails")
	e.Start(w.home, "fails-manager", "fails")
	fails := func(tag, pod string) {
		e.T.Helper()
		h := w.start("--set=replicas=6,progressDeadlineSeconds=5,image.tag=" + tag)
		e.Expect(h.end()).NotTo(Succeed())
		stalled := meta.FindStatusCondition(w.live().Status.Conditions, v1alpha1.ConditionStalled)
		e.Expect(stalled).To(HaveValue(HaveField("Status", metav1.ConditionTrue)))
		e.Expect(stalled.Message).To(ContainSubstring(pod + " (CrashLoopBackOff"))
		e.Expect(h.output()).To(And(
			ContainSubstring(fmt.Sprintf("resource UnitedDeployment/%s/%s not ready. status: Failed, message: %s", w.work, WebName, stalled.Message)),
			Not(ContainSubstring("deadline exceeded")), // helm did not time out
		))
	}

	e.Step("the first image is broken", func() { fails("broken-first", "web-zone-a-0") })
	e.Step("the next one goes through", func() {
		w.upgrade("--set=replicas=6,progressDeadlineSeconds=60,image.tag=v1")
		e.Expect(Settled(e.Ctx, w.work, WebName, 6)).To(BeEmpty(), "helm says it is done")
	})
	e.Step("a released replica is broken", func() {
		before := e.Pods(w.work, WebName)
		w.patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":1}}}}}`)
		fails("broken-second", "web-zone-b-1")
		e.Expect(Moved(before, e.Pods(w.work, WebName))).To(Equal([]string{"web-zone-b-1"}))
	})
	e.Step("a stall that was does not fail the next one", func() {
		w.upgrade("--set=replicas=6,progressDeadlineSeconds=60,image.tag=v2")
		e.Expect(Settled(e.Ctx, w.work, WebName, 6)).To(BeEmpty(), "helm says it is done")
		e.Expect(e.Pods(w.work, WebName)["web-zone-b-1"].Image).To(Equal("v2"))
	})
	e.Step("positive control: a time-out would be told", func() {
		h := w.start("--set=replicas=6,progressDeadlineSeconds=500,image.tag=quiet-third", "--timeout=20s")
		e.Expect(h.end()).NotTo(Succeed())
		e.Expect(h.output()).To(And(ContainSubstring("status: InProgress"), ContainSubstring("deadline exceeded")))
	})
}

// waiting is a release of an application, by default charts/zone-canary, in a namespace that has its
// own controller.
type waiting struct {
	*Env
	home, work string
	app        string // the directory of the application's chart
	runs       int
}

func newWaiting(e *Env, name string) *waiting {
	e.T.Helper()
	e.NeedCRD()
	w := &waiting{Env: e, home: name + "-system", work: name, app: e.Chart("zone-canary")}
	e.Namespace(w.home, nil)
	e.Namespace(w.work, nil)
	e.Helm("install", name, e.Chart("united"), "--namespace="+w.home,
		"--set="+RestIsInstalled+",rbac.aggregate=false,fullnameOverride="+name+",replicas=1,watchNamespaces={"+w.work+"}")
	return w
}

func (w *waiting) args(args []string) []string {
	w.T.Helper()
	return append([]string{"upgrade", "--install", WebName, w.app, "--namespace=" + w.work, "--wait"}, args...)
}

// upgrade runs helm until it ends, which must be without an error.
func (w *waiting) upgrade(args ...string) {
	w.T.Helper()
	w.Helm(w.args(args)...)
}

func (w *waiting) live() *v1alpha1.UnitedDeployment {
	w.T.Helper()
	d := &v1alpha1.UnitedDeployment{}
	w.Expect(w.Get(w.Ctx, types.NamespacedName{Namespace: w.work, Name: WebName}, d)).To(Succeed())
	return d
}

func (w *waiting) patch(format string, args ...any) {
	w.T.Helper()
	w.Expect(Patch(w.Ctx, w.work, WebName, format, args...)).To(Succeed())
}

// staged checks that an image has reached every child.
func (w *waiting) staged(tag string) {
	w.T.Helper()
	list := &appsv1.StatefulSetList{}
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.work))).To(Succeed())
	w.Expect(list.Items).To(HaveLen(3))
	for _, set := range list.Items {
		w.Expect(set.Spec.Template.Spec.Containers[0].Image).To(Equal(fixtures.Image(tag)), set.Name)
	}
}

// notReady returns what the status of this generation waits for.
func (w *waiting) notReady() string {
	w.T.Helper()
	d := w.live()
	ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	if d.Status.ObservedGeneration != d.Generation || ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return ready.Message
}

func (w *waiting) phase(pod string) corev1.PodPhase {
	w.T.Helper()
	object := &corev1.Pod{}
	w.Expect(w.Get(w.Ctx, types.NamespacedName{Namespace: w.work, Name: pod}, object)).To(Succeed())
	return object.Status.Phase
}

func (w *waiting) markReady(pod string) {
	w.T.Helper()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.work, Name: pod}}
	w.Expect(w.Status().Patch(w.Ctx, object, client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)))).To(Succeed())
}

// helmRun is a helm that runs in parallel with the test.
type helmRun struct {
	*waiting
	*cluster.Process
}

// start starts helm and does not wait for it.
func (w *waiting) start(args ...string) *helmRun {
	w.T.Helper()
	w.runs++
	process, err := install.StartHelm(Shared.Cluster, fmt.Sprintf("helm-%s-%d", w.work, w.runs), w.args(args)...)
	w.Expect(err).NotTo(HaveOccurred())
	h := &helmRun{waiting: w, Process: process}
	w.Root.Cleanup(func() {
		if w.Root.Failed() {
			w.Root.Logf("helm said:\n%s", h.output())
		}
	})
	return h
}

func (h *helmRun) output() string {
	h.T.Helper()
	log, err := os.ReadFile(h.LogPath())
	h.Expect(err).NotTo(HaveOccurred())
	return string(log)
}

// waits returns how often helm has checked the UnitedDeployment and found that it has to wait.
func (h *helmRun) waits() int {
	h.T.Helper()
	found := 0
	for line := range bytes.Lines([]byte(h.output())) {
		if bytes.Contains(line, []byte("waiting for resource")) && bytes.Contains(line, []byte("kind="+v1alpha1.Kind)) &&
			bytes.Contains(line, []byte("actualStatus=InProgress")) {
			found++
		}
	}
	return found
}

// keepsWaiting checks that helm continues to wait in the current state: a change of an unrelated label
// makes it check again.
func (h *helmRun) keepsWaiting() {
	h.T.Helper()
	h.Eventually(h.waits).Should(BeNumerically(">", 0))
	before := h.waits()
	h.patch(`{"metadata":{"labels":{"example.com/look":"%d-%d"}}}`, h.runs, before)
	h.Eventually(h.waits).Should(BeNumerically(">", before))
	h.Expect(h.Done()).NotTo(BeClosed(), h.output())
}

// end waits for the end of helm.
func (h *helmRun) end() error {
	h.T.Helper()
	h.Eventually(h.Done()).Should(BeClosed())
	return h.Stop()
}
