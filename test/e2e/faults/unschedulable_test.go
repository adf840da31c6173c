// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestUnschedulable checks replicas of a zone for which the real scheduler finds no node, because the
// zone has no nodes, or because they are full. The status quotes the scheduler at once; after 30
// seconds the reason is Unschedulable, and there is an event. When a node gets the label of the zone,
// everything recovers without help.
func TestUnschedulable(t *testing.T) {
	t.Parallel()
	strategies := map[string]Edit{"Manual": Hold(), "RollingUpdate": Rolling(`{order: Sequential}`)}
	for strategy, edit := range strategies {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			t.Run("no-nodes", func(t *testing.T) {
				t.Parallel()
				testZoneWithoutNodes(NewEnv(t), edit)
			})
			t.Run("full", func(t *testing.T) {
				t.Parallel()
				testZoneFull(NewEnv(t), edit)
			})
		})
	}
}

// testZoneWithoutNodes checks that no replica of the zone can start before its first node exists.
func testZoneWithoutNodes(e *Env, strategy Edit) {
	node := e.AddNodeWithoutZone("1")
	mark := e.AuditMark()
	w := e.Create(inOwnZone(e, strategy, "100"))
	w.IsUnschedulable(mark, "2 of 2", "node(s) didn't match Pod's node affinity/selector")
	e.Expect(w.Status("elsewhere").ReadyReplicas).To(BeEquivalentTo(2), "positive control: the other subset has nodes")
	e.Expect(w.Status("elsewhere").Message).To(BeEmpty())

	giveZone(e, node)
	schedulesAgain(w)
	e.Expect(w.Images()).To(Equal(Images{"own": "v1 v1", "elsewhere": "v1 v1"}))
}

// testZoneFull checks a new template that requests more than the only node of the zone has left.
func testZoneFull(e *Env, strategy Edit) {
	giveZone(e, e.AddNodeWithoutZone("1"))
	second := e.AddNodeWithoutZone("2")
	w := e.Create(inOwnZone(e, strategy, "300"))
	w.Settle()
	moved, mark := e.History.Forbid(Outside("own")), e.AuditMark()
	manual := w.Parent().Spec.UpdateStrategy.Type == v1alpha1.ManualUpdateStrategy
	w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"%s","value":"800"}]`,
		ImagePath, Image("v2"), strings.TrimSuffix(ImagePath, "image")+"resources/requests/cpu")
	if manual {
		w.SetPartitions(Parts{"own": 0})
	}
	w.IsUnschedulable(mark, "1 of 2", "Insufficient cpu")
	moved.Holds()

	giveZone(e, second)
	schedulesAgain(w)
	if manual {
		moved.Holds()
		e.Expect(w.Images()).To(Equal(Images{"own": "v2 v2", "elsewhere": "v1 v1"}))
		return
	}
	moved.Fires()
	e.Expect(w.Images()).To(Equal(Images{"own": "v2 v2", "elsewhere": "v2 v2"}))
}

// inOwnZone returns a parent with two replicas on nodes of a zone that only this test has, and two on
// any other node. Each replica requests the given CPU; a node has 1000.
func inOwnZone(e *Env, strategy Edit, cpu string) *Draft {
	own := v1alpha1.Subset{Name: "own", NodeSelector: inZone(e.Namespace), Tolerations: []corev1.Toleration{{Key: e.Namespace, Operator: corev1.TolerationOpExists}}}
	containers := []any{map[string]any{
		"name": "web", "image": Image("v1"), "resources": map[string]any{"requests": map[string]any{"cpu": cpu}},
	}}
	return NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Subset(own), Plain("elsewhere", ""), strategy,
		TemplateField(containers, "spec", "template", "spec", "containers"))
}

// giveZone labels a node as part of the zone of this test.
func giveZone(e *Env, node string) {
	e.T.Helper()
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, e.Namespace)
	e.Expect(e.Client.Patch(e.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, label))).To(Succeed())
}

// schedulesAgain waits until the parent is Ready, and checks that the status no longer quotes the
// scheduler.
func schedulesAgain(w *Workload) {
	w.T.Helper()
	w.Disturbed()
	w.Settle()
	w.Eventually(func(g Gomega) { // a rollout continues after the first replica is ready
		parent := w.Parent()
		ready := Condition(parent, v1alpha1.ConditionReady)
		g.Expect(ready.Reason).To(BeElementOf(v1alpha1.ReasonRolloutComplete, v1alpha1.ReasonRolloutHeld))
		g.Expect(w.Unsettled(g, parent)).To(BeEmpty())
		g.Expect(w.Kubectl("get", "united", w.Name, "-o", "jsonpath={.status}")).NotTo(ContainSubstring("nschedulable"))
		events := w.EventsOf(g, v1alpha1.ReasonUnschedulable)
		g.Expect(events).To(HaveLen(1))
		g.Expect(events[0].Series).To(BeNil(), "no second event")
	}).Should(Succeed())
}
