// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestUnschedulable checks replicas of a zone for which the real scheduler finds no node, because the
// zone has no nodes, or because they are full. The status quotes the scheduler at once; after 30
// seconds the reason is Unschedulable, and there is an event. When a node gets the label of the zone,
// everything recovers without help.
func TestUnschedulable(t *testing.T) {
	t.Parallel()
	strategies := map[string]edit{"Manual": hold(), "RollingUpdate": rolling(`{order: Sequential}`)}
	for strategy, edit := range strategies {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			t.Run("no-nodes", func(t *testing.T) {
				t.Parallel()
				testZoneWithoutNodes(newEnv(t), edit)
			})
			t.Run("full", func(t *testing.T) {
				t.Parallel()
				testZoneFull(newEnv(t), edit)
			})
		})
	}
}

// testZoneWithoutNodes checks that no replica of the zone can start before its first node exists.
func testZoneWithoutNodes(e *env, strategy edit) {
	node := e.addNodeWithoutZone("1")
	mark := e.AuditMark()
	w := e.Create(inOwnZone(e, strategy, "100"))
	w.IsUnschedulable(mark, "2 of 2", "node(s) didn't match Pod's node affinity/selector")
	e.Expect(w.Status("elsewhere").ReadyReplicas).To(BeEquivalentTo(2), "positive control: the other subset has nodes")
	e.Expect(w.Status("elsewhere").Message).To(BeEmpty())

	e.giveZone(node)
	w.schedulesAgain()
	e.Expect(w.Images()).To(Equal(images{"own": "v1 v1", "elsewhere": "v1 v1"}))
}

// testZoneFull checks a new template that requests more than the only node of the zone has left.
func testZoneFull(e *env, strategy edit) {
	e.giveZone(e.addNodeWithoutZone("1"))
	second := e.addNodeWithoutZone("2")
	w := e.Create(inOwnZone(e, strategy, "300"))
	w.Settle()
	moved, mark := e.History.Forbid(outside("own")), e.AuditMark()
	manual := w.Parent().Spec.UpdateStrategy.Type == v1alpha1.ManualUpdateStrategy
	w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"%s","value":"800"}]`,
		imagePath, image("v2"), strings.TrimSuffix(imagePath, "image")+"resources/requests/cpu")
	if manual {
		w.SetPartitions(parts{"own": 0})
	}
	w.IsUnschedulable(mark, "1 of 2", "Insufficient cpu")
	moved.Holds()

	e.giveZone(second)
	w.schedulesAgain()
	if manual {
		moved.Holds()
		e.Expect(w.Images()).To(Equal(images{"own": "v2 v2", "elsewhere": "v1 v1"}))
		return
	}
	moved.Fires()
	e.Expect(w.Images()).To(Equal(images{"own": "v2 v2", "elsewhere": "v2 v2"}))
}

// inOwnZone returns a parent with two replicas on nodes of a zone that only this test has, and two on
// any other node. Each replica requests the given CPU; a node has 1000.
func inOwnZone(e *env, strategy edit, cpu string) *Draft {
	own := v1alpha1.Subset{Name: "own", NodeSelector: inZone(e.Namespace), Tolerations: []corev1.Toleration{{Key: e.Namespace, Operator: corev1.TolerationOpExists}}}
	containers := []any{map[string]any{
		"name": "web", "image": image("v1"), "resources": map[string]any{"requests": map[string]any{"cpu": cpu}},
	}}
	return draft("web", replicas(4), policy(appsv1.ParallelPodManagement), subset(own), plain("elsewhere", ""), strategy,
		templateField(containers, "spec", "template", "spec", "containers"))
}

// addNodeWithoutZone adds a node that only pods of this test tolerate, in a zone that no subset
// selects.
func (e *env) addNodeWithoutZone(suffix string) string {
	e.t.Helper()
	name := e.Namespace + "-" + suffix
	taint := corev1.Taint{Key: e.Namespace, Effect: corev1.TaintEffectNoSchedule}
	e.Expect(e.cluster.AddNode(e.ctx, "elsewhere", name, taint)).To(Succeed())
	return name
}

// giveZone labels a node as part of the zone of this test.
func (e *env) giveZone(node string) {
	e.t.Helper()
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, e.Namespace)
	e.Expect(e.Client.Patch(e.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, label))).To(Succeed())
}

// IsUnschedulable waits until the wanted number of replicas of the subset "own" is Unschedulable, and
// the messages for users quote what the scheduler said about the pod, with the given words. The writes
// of the status since the mark must show that it quoted the scheduler before, under another reason.
func (w *Workload) IsUnschedulable(mark int64, count, words string) {
	w.t.Helper()
	var pod *corev1.Pod
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		pod = w.pending(g)
		quote := fmt.Sprintf("%s (unschedulable since %s: %s)", pod.Name, unschedulableSince(pod).Format(time.RFC3339), quoteOf(pod))
		g.Expect(quote).To(ContainSubstring(words))
		g.Expect(w.Status("own").Message).To(ContainSubstring("waiting for " + quote))
		ready := condition(parent, v1alpha1.ConditionReady)
		g.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
		g.Expect(ready.Reason).To(Equal(v1alpha1.ReasonUnschedulable), ready.Message)
		g.Expect(ready.Message).To(Equal("own: no node fits " + count + " replicas: " + quote))
		g.Expect(condition(parent, v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse), "a node may still come")
		events := w.eventsOf(g, v1alpha1.ReasonUnschedulable)
		g.Expect(events).To(HaveLen(1))
		g.Expect(events[0].Type).To(Equal(corev1.EventTypeWarning))
		g.Expect(events[0].Note).To(And(HavePrefix("own: no node fits "), ContainSubstring(words)))
	}).Should(Succeed())

	since, quoted, unschedulable := unschedulableSince(pod), 0, 0
	for _, write := range w.Writes(mark, statuses) {
		status := statusOf(w.env, write)
		ready := condition(&v1alpha1.UnitedDeployment{Status: status}, v1alpha1.ConditionReady)
		switch {
		case ready.Reason == v1alpha1.ReasonUnschedulable:
			unschedulable++
			w.Expect(write.Time).NotTo(BeTemporally("<", since.Add(30*time.Second)), "a plain wait until then: %s", ready.Message)
		case unschedulable == 0 && quotes(status, words):
			quoted++
		}
	}
	w.Expect(unschedulable).To(BeNumerically(">", 0), "positive control: the reason is found in the writes")
	w.Expect(quoted).To(BeNumerically(">", 0), "the subset quotes the scheduler before that")
}

// pending returns the replica of the subset "own" that has been unschedulable for the longest time,
// according to the API server.
func (w *Workload) pending(g Gomega) *corev1.Pod {
	var first *corev1.Pod
	pods := w.podsOf("own")
	for i := range pods {
		if p := &pods[i]; quoteOf(p) != "" && (first == nil || unschedulableSince(p).Before(unschedulableSince(first))) {
			first = p
		}
	}
	g.Expect(first).NotTo(BeNil(), "no pod of the zone is unschedulable")
	return first
}

// quoteOf returns what the scheduler says about a pod that fits on no node, as the status quotes it; ""
// for any other pod.
func quoteOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return strings.TrimSuffix(strings.TrimSpace(c.Message), ".")
		}
	}
	return ""
}

func unschedulableSince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.LastTransitionTime.UTC()
		}
	}
	return time.Time{}
}

// quotes reports whether the message of the subset "own" contains the words.
func quotes(status v1alpha1.UnitedDeploymentStatus, words string) bool {
	for _, s := range status.Subsets {
		if s.Name == "own" && strings.Contains(s.Message, words) {
			return true
		}
	}
	return false
}

// eventsOf returns the events with a reason about the UnitedDeployment.
func (w *Workload) eventsOf(g Gomega, reason string) []eventsv1.Event {
	list := &eventsv1.EventList{}
	g.Expect(w.List(w.ctx, list, client.InNamespace(w.Namespace))).To(Succeed())
	var events []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.Kind == v1alpha1.Kind && event.Regarding.Name == w.Name && event.Reason == reason {
			events = append(events, event)
		}
	}
	return events
}

// schedulesAgain waits until the parent is Ready, and checks that the status no longer quotes the
// scheduler.
func (w *Workload) schedulesAgain() {
	w.t.Helper()
	w.Disturbed()
	w.Settle()
	w.Eventually(func(g Gomega) { // a rollout continues after the first replica is ready
		parent := w.Parent()
		ready := condition(parent, v1alpha1.ConditionReady)
		g.Expect(ready.Reason).To(BeElementOf(v1alpha1.ReasonRolloutComplete, v1alpha1.ReasonRolloutHeld))
		g.Expect(w.unsettled(g, parent)).To(BeEmpty())
		g.Expect(w.Kubectl("get", "united", w.Name, "-o", "jsonpath={.status}")).NotTo(ContainSubstring("nschedulable"))
		events := w.eventsOf(g, v1alpha1.ReasonUnschedulable)
		g.Expect(events).To(HaveLen(1))
		g.Expect(events[0].Series).To(BeNil(), "no second event")
	}).Should(Succeed())
}
