// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestContestedPartition checks a child in mid-canary whose partition somebody lowers again and again.
// United raises it again each time, and does nothing else. Before, the repair wrote templates in turn,
// which restarted the canary every ten seconds, without end. When nobody interferes any more, United
// repairs the child.
func TestContestedPartition(t *testing.T) {
	t.Parallel()
	const lowered, none = `{"rollingUpdate":{"partition":0}}`, `{"type":"OnDelete","rollingUpdate":null}`
	for name, tc := range map[string]struct {
		strategy     Edit
		every        time.Duration
		patch, field string
	}{
		"Manual":           {Partitions(Parts{"zone-a": 2}), 500 * time.Millisecond, lowered, "rollingUpdate.partition"},
		"RollingUpdate":    {Rolling(`{steps: [{subsets: [zone-a], partition: 2, pause: {}}]}`), 2 * time.Second, lowered, "rollingUpdate.partition"},
		"another strategy": {Partitions(Parts{"zone-a": 2}), 500 * time.Millisecond, none, "type"},
	} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				control := NewEnv(e.T).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
				control.Settle()
				w := inMidCanary(e, p, tc.strategy)
				mark, from := e.AuditMark(), e.History.Mark()
				said := fmt.Sprintf("StatefulSet web-zone-a: spec.updateStrategy.%s was changed by %q", tc.field, "kubectl-fighter")
				contest := w.Contest("zone-a", tc.every, `{"spec":{"updateStrategy":`+tc.patch+`}}`)
				w.Stalls("zone-a", v1alpha1.ReasonOverridden, said)
				e.Expect(contest.Rounds()).To(BeNumerically(">", 10), "positive control")
				raised := childWrites(w, mark)
				e.Expect(len(raised)).To(BeNumerically(">", 5), "positive control: it is closed again")
				e.Expect(len(named(w.History, "web-zone-a-2", from))).To(BeNumerically("<=", 1))

				e.Step("it is only closed", func() {
					quiet := e.AuditMark()
					rounds := contest.Rounds()
					e.Eventually(contest.Rounds).Should(BeNumerically(">", rounds+5))
					again := childWrites(w, quiet)
					e.Expect(again).To(And(Not(BeEmpty()), HaveEach(Equal(raised[len(raised)-1]))))
					e.Expect(len(again)).To(BeNumerically("<=", contest.Rounds()-rounds+1), "one for each time that it was opened")
					e.Expect(e.Writes(quiet, "pods")).To(BeEmpty())
					e.Expect(w.Status("zone-a").Message).To(HavePrefix(said))
				})
				control.Reacts()
				contest.Stop()
				w.Disturbed()
				w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1"})
				w.Settle()
				e.Expect(w.Partition("zone-a")).To(BeEquivalentTo(2))
				e.Step("what protects is whole", func() {
					w.DeletePod("zone-a", 0)
					w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1"})
				})
				w.Settle()
			})
		})
	}
}

// inMidCanary returns a parent that runs "v1 v1 v2" in zone-a, and "v1 v1" in zone-b.
func inMidCanary(e *Env, p appsv1.PodManagementPolicyType, strategy Edit) *Workload {
	e.T.Helper()
	w := e.Create(NewDraft("web", Replicas(5), Policy(p), Plain("zone-a", "60%"), Plain("zone-b", "40%"), strategy))
	w.Settle()
	w.SetImage("v2")
	w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1"})
	w.Disturbed()
	w.Settle()
	return w
}

// childWrites returns the accepted writes of children since a mark, each as the child, its image, its
// replicas, and its partition.
func childWrites(w *Workload, since int64) []string {
	w.T.Helper()
	var list []string
	for _, write := range w.Writes(since, Children) {
		if write.Code >= 300 {
			continue
		}
		set := &appsv1.StatefulSet{}
		w.Expect(json.Unmarshal(write.Request, set)).To(Succeed())
		asks := write.Name
		if len(set.Spec.Template.Spec.Containers) > 0 {
			asks += fmt.Sprint(" ", TagOf(set.Spec.Template.Spec.Containers[0].Image), " ", *set.Spec.Replicas, " ", *set.Spec.UpdateStrategy.RollingUpdate.Partition)
		}
		list = append(list, asks)
	}
	return list
}

// named returns the incarnations of a pod since a mark.
func named(h History, name string, since int) []Incarnation {
	var list []Incarnation
	for _, i := range h.Since(since) {
		if i.Name == name {
			list = append(list, i)
		}
	}
	return list
}

// TestContestedLabels checks what happens when a policy, or somebody, removes a label that identifies a
// child again and again. United restores the label less and less often, but writes what the spec asks
// for at once, above all what protects replicas. Before, it wrote only the labels.
func TestContestedLabels(t *testing.T) {
	t.Parallel()
	for _, label := range []string{v1alpha1.LabelName, v1alpha1.LabelSubset} {
		for name, begin := range map[string]func(*Workload, string) (end func()){
			"policy": (*Workload).PolicyTakes,
			"loop":   (*Workload).LoopTakes,
		} {
			t.Run(name+"/"+label, func(t *testing.T) {
				t.Parallel()
				e := NewEnv(t)
				w := inMidCanary(e, appsv1.ParallelPodManagement, Partitions(Parts{"zone-a": 2}))
				still := e.History.Forbid(AnyNewPod)
				mark := e.AuditMark()
				end := begin(w, label)
				w.Stalls("zone-a", v1alpha1.ReasonOverridden, fmt.Sprintf("StatefulSet web-zone-a: metadata.labels[%q] was ", label))
				e.Expect(len(childWrites(w, mark))).To(BeNumerically(">", 5), "positive control")

				written := func(partition int32) {
					w.SetPartitions(Parts{"zone-a": partition})
					e.Eventually(func() int32 { return w.Partition("zone-a") }, Promptly).Should(Equal(partition))
				}
				written(3)
				still.Holds()
				e.Step("the same as before is written at once, since it raises the partition", func() {
					w.PatchChild("zone-a", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":2}}}}`)
					e.Eventually(func() int32 { return w.Partition("zone-a") }, Promptly).Should(BeEquivalentTo(3))
				})
				e.Step("what releases is written too", func() {
					written(1)
					w.Runs(Images{"zone-a": "v1 v2 v2", "zone-b": "v1 v1"})
					still.Fires()
				})
				e.Step("the writes are spaced", func() {
					w.Stalls("zone-a", v1alpha1.ReasonOverridden, "repeatedly")
					e.Expect(len(e.Writes(mark, Children))).To(BeNumerically("<=", 4*Spaced))
				})
				end()
				w.SetPartitions(Parts{"zone-a": 2})
				w.Disturbed()
				w.Settle()
				e.Expect(w.Child("zone-a").Labels).To(And(HaveKeyWithValue(v1alpha1.LabelName, "web"), HaveKeyWithValue(v1alpha1.LabelSubset, "zone-a")))
				e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v2 v2", "zone-b": "v1 v1"}))
			})
		}
	}
}
