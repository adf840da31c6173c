// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

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
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

// TestHelmWaits compares the result of `helm upgrade --install --wait` with the pods, with and without
// a running controller.
func TestHelmWaits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.newWaiting("waits")
	released := []string{"web-zone-a-1", "web-zone-b-1"}
	var manager *install.Manager
	var before map[string]podState
	onlyReleased := func(tag string) {
		e.t.Helper()
		e.Expect(settled(e.ctx, w.work, webName, 6)).To(BeEmpty(), "helm says it is done")
		after := e.pods(w.work, webName)
		e.Expect(moved(before, after)).To(Equal(released))
		for _, name := range released {
			e.Expect(after[name].Image).To(Equal(tag))
		}
	}

	e.step("an install waits for a controller", func() {
		h := w.start("--set=replicas=6,image.tag=v1")
		e.Eventually(func() error {
			return e.Get(e.ctx, types.NamespacedName{Namespace: w.work, Name: webName}, &v1alpha1.UnitedDeployment{})
		}).Should(Succeed())
		e.Expect(w.live().Status.ObservedGeneration).To(BeEquivalentTo(-1))
		h.keepsWaiting()
		manager, _ = e.start(w.home, "waits-manager", "waits-1")
		e.Expect(h.end()).To(Succeed())
		e.Expect(settled(e.ctx, w.work, webName, 6)).To(BeEmpty(), "helm says it is done")
		before = e.pods(w.work, webName)
		e.Expect(before).To(HaveLen(6))
	})
	e.step("an upgrade that is held returns when it is staged, whatever is wrong with the image", func() {
		w.upgrade("--set=replicas=6,image.tag=broken-held")
		w.staged("broken-held")
		e.Expect(moved(before, e.pods(w.work, webName))).To(BeEmpty())
	})
	e.step("one with released replicas returns when they are ready, and not before", func() {
		w.upgrade("--set=replicas=6,image.tag=v2")
		w.patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":1,"zone-b":"50%%"}}}}}`)
		e.settle(w.work, webName, 6)
		onlyReleased("v2")
		// Pods with this tag are not ready until the test marks them ready.
		h := w.start("--set=replicas=6,image.tag=quiet-until-told")
		for i, name := range released {
			e.Eventually(func() string { return e.pods(w.work, webName)[name].Image }).Should(Equal("quiet-until-told"))
			e.Eventually(func() corev1.PodPhase { return w.phase(name) }).Should(Equal(corev1.PodRunning), "kwok would undo the mark")
			e.Eventually(w.notReady).Should(ContainSubstring(name), "the status of this generation names it")
			h.keepsWaiting()
			w.markReady(released[i])
		}
		e.Expect(h.end()).To(Succeed())
		onlyReleased("quiet-until-told")
		w.staged("quiet-until-told")
	})
	e.step("an upgrade waits for a controller", func() {
		e.Expect(manager.Stop()).To(Succeed())
		h := w.start("--set=replicas=6,image.tag=v3")
		e.Eventually(func() bool { return w.live().Generation > w.live().Status.ObservedGeneration }).Should(BeTrue())
		e.Expect(meta.IsStatusConditionTrue(w.live().Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), "of the generation before")
		h.keepsWaiting()
		e.start(w.home, "waits-manager", "waits-2")
		e.Expect(h.end()).To(Succeed())
		onlyReleased("v3")
	})
	e.step("a paused rollout is what was asked for", func() {
		still := e.pods(w.work, webName)
		w.patch(`{"spec":{"paused":true}}`)
		w.upgrade("--set=replicas=6,image.tag=v4")
		e.Expect(settled(e.ctx, w.work, webName, 6)).To(BeEmpty())
		e.Expect(meta.FindStatusCondition(w.live().Status.Conditions, v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonPaused))
		e.Expect(moved(still, e.pods(w.work, webName))).To(BeEmpty())
		w.patch(`{"spec":{"paused":false}}`)
		e.settle(w.work, webName, 6)
		onlyReleased("v4") // the positive control
	})
}

// TestHelmFails checks the result of `helm --wait` for an image that does not come up, and for the one
// after it.
func TestHelmFails(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.newWaiting("fails")
	e.start(w.home, "fails-manager", "fails")
	fails := func(tag, pod string) {
		e.t.Helper()
		h := w.start("--set=replicas=6,progressDeadlineSeconds=5,image.tag=" + tag)
		e.Expect(h.end()).NotTo(Succeed())
		stalled := meta.FindStatusCondition(w.live().Status.Conditions, v1alpha1.ConditionStalled)
		e.Expect(stalled).To(HaveValue(HaveField("Status", metav1.ConditionTrue)))
		e.Expect(stalled.Message).To(ContainSubstring(pod + " (CrashLoopBackOff"))
		e.Expect(h.output()).To(And(
			ContainSubstring(fmt.Sprintf("resource UnitedDeployment/%s/%s not ready. status: Failed, message: %s", w.work, webName, stalled.Message)),
			Not(ContainSubstring("deadline exceeded")), // helm did not time out
		))
	}

	e.step("the first image is broken", func() { fails("broken-first", "web-zone-a-0") })
	e.step("the next one goes through", func() {
		w.upgrade("--set=replicas=6,progressDeadlineSeconds=60,image.tag=v1")
		e.Expect(settled(e.ctx, w.work, webName, 6)).To(BeEmpty(), "helm says it is done")
	})
	e.step("a released replica is broken", func() {
		before := e.pods(w.work, webName)
		w.patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":1}}}}}`)
		fails("broken-second", "web-zone-b-1")
		e.Expect(moved(before, e.pods(w.work, webName))).To(Equal([]string{"web-zone-b-1"}))
	})
	e.step("a stall that was does not fail the next one", func() {
		w.upgrade("--set=replicas=6,progressDeadlineSeconds=60,image.tag=v2")
		e.Expect(settled(e.ctx, w.work, webName, 6)).To(BeEmpty(), "helm says it is done")
		e.Expect(e.pods(w.work, webName)["web-zone-b-1"].Image).To(Equal("v2"))
	})
	e.step("positive control: a time-out would be told", func() {
		h := w.start("--set=replicas=6,progressDeadlineSeconds=500,image.tag=quiet-third", "--timeout=5s")
		e.Expect(h.end()).NotTo(Succeed())
		e.Expect(h.output()).To(And(ContainSubstring("status: InProgress"), ContainSubstring("deadline exceeded")))
	})
}

// waiting is a release of an application, by default charts/zone-canary, in a namespace that has its
// own controller.
type waiting struct {
	*env
	home, work string
	app        string // the directory of the application's chart
	runs       int
}

func (e *env) newWaiting(name string) *waiting {
	e.t.Helper()
	e.needCRD()
	w := &waiting{env: e, home: name + "-system", work: name, app: e.chart("zone-canary")}
	e.namespace(w.home, nil)
	e.namespace(w.work, nil)
	e.helm("install", name, e.chart("united"), "--namespace="+w.home,
		"--set="+restIsInstalled+",rbac.aggregate=false,fullnameOverride="+name+",replicas=1,watchNamespaces={"+w.work+"}")
	return w
}

func (w *waiting) args(args []string) []string {
	w.t.Helper()
	return append([]string{"upgrade", "--install", webName, w.app, "--namespace=" + w.work, "--wait"}, args...)
}

// upgrade runs helm until it ends, which must be without an error.
func (w *waiting) upgrade(args ...string) {
	w.t.Helper()
	w.helm(w.args(args)...)
}

func (w *waiting) live() *v1alpha1.UnitedDeployment {
	w.t.Helper()
	d := &v1alpha1.UnitedDeployment{}
	w.Expect(w.Get(w.ctx, types.NamespacedName{Namespace: w.work, Name: webName}, d)).To(Succeed())
	return d
}

func (w *waiting) patch(format string, args ...any) {
	w.t.Helper()
	w.Expect(patch(w.ctx, w.work, webName, format, args...)).To(Succeed())
}

// staged checks that an image has reached every child.
func (w *waiting) staged(tag string) {
	w.t.Helper()
	list := &appsv1.StatefulSetList{}
	w.Expect(w.List(w.ctx, list, client.InNamespace(w.work))).To(Succeed())
	w.Expect(list.Items).To(HaveLen(3))
	for _, set := range list.Items {
		w.Expect(set.Spec.Template.Spec.Containers[0].Image).To(Equal(fixtures.Image(tag)), set.Name)
	}
}

// notReady returns what the status of this generation waits for.
func (w *waiting) notReady() string {
	w.t.Helper()
	d := w.live()
	ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
	if d.Status.ObservedGeneration != d.Generation || ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return ready.Message
}

func (w *waiting) phase(pod string) corev1.PodPhase {
	w.t.Helper()
	object := &corev1.Pod{}
	w.Expect(w.Get(w.ctx, types.NamespacedName{Namespace: w.work, Name: pod}, object)).To(Succeed())
	return object.Status.Phase
}

func (w *waiting) markReady(pod string) {
	w.t.Helper()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.work, Name: pod}}
	w.Expect(w.Status().Patch(w.ctx, object, client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)))).To(Succeed())
}

// helmRun is a helm that runs in parallel with the test.
type helmRun struct {
	*waiting
	*cluster.Process
}

// start starts helm and does not wait for it.
func (w *waiting) start(args ...string) *helmRun {
	w.t.Helper()
	w.runs++
	process, err := install.StartHelm(shared.cluster, fmt.Sprintf("helm-%s-%d", w.work, w.runs), w.args(args)...)
	w.Expect(err).NotTo(HaveOccurred())
	h := &helmRun{waiting: w, Process: process}
	w.root.Cleanup(func() {
		if w.root.Failed() {
			w.root.Logf("helm said:\n%s", h.output())
		}
	})
	return h
}

func (h *helmRun) output() string {
	h.t.Helper()
	log, err := os.ReadFile(h.LogPath())
	h.Expect(err).NotTo(HaveOccurred())
	return string(log)
}

// waits returns how often helm has checked the UnitedDeployment and found that it has to wait.
func (h *helmRun) waits() int {
	h.t.Helper()
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
	h.t.Helper()
	h.Eventually(h.waits).Should(BeNumerically(">", 0))
	before := h.waits()
	h.patch(`{"metadata":{"labels":{"example.com/look":"%d-%d"}}}`, h.runs, before)
	h.Eventually(h.waits).Should(BeNumerically(">", before))
	h.Expect(h.Done()).NotTo(BeClosed(), h.output())
}

// end waits for the end of helm.
func (h *helmRun) end() error {
	h.t.Helper()
	h.Eventually(h.Done()).Should(BeClosed())
	return h.Stop()
}
