// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestContestedPartition checks a child in mid-canary whose partition somebody lowers again and again.
// United raises it again each time, and does nothing else. Before, the repair wrote templates in turn,
// which restarted the canary every ten seconds, without end. When nobody interferes any more, United
// repairs the child.
func TestContestedPartition(t *testing.T) {
	t.Parallel()
	const lowered, none = `{"rollingUpdate":{"partition":0}}`, `{"type":"OnDelete","rollingUpdate":null}`
	for name, tc := range map[string]struct {
		strategy     edit
		every        time.Duration
		patch, field string
	}{
		"Manual":           {partitions(parts{"zone-a": 2}), 500 * time.Millisecond, lowered, "rollingUpdate.partition"},
		"RollingUpdate":    {rolling(`{steps: [{subsets: [zone-a], partition: 2, pause: {}}]}`), 2 * time.Second, lowered, "rollingUpdate.partition"},
		"another strategy": {partitions(parts{"zone-a": 2}), 500 * time.Millisecond, none, "type"},
	} {
		t.Run(name, func(t *testing.T) {
			eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
				control := newEnv(e.t).Create(draft("control", replicas(4), zones("", ""), hold()))
				control.Settle()
				w := e.inMidCanary(p, tc.strategy)
				mark, from := e.AuditMark(), e.History.Mark()
				said := fmt.Sprintf("StatefulSet web-zone-a: spec.updateStrategy.%s was changed by %q", tc.field, "kubectl-fighter")
				contest := w.contest("zone-a", tc.every, `{"spec":{"updateStrategy":`+tc.patch+`}}`)
				w.Stalls("zone-a", v1alpha1.ReasonOverridden, said)
				e.Expect(contest.rounds()).To(BeNumerically(">", 10), "positive control")
				raised := w.childWrites(mark)
				e.Expect(len(raised)).To(BeNumerically(">", 5), "positive control: it is closed again")
				e.Expect(len(w.History.named("web-zone-a-2", from))).To(BeNumerically("<=", 1))

				e.Step("it is only closed", func() {
					quiet := e.AuditMark()
					rounds := contest.rounds()
					e.Eventually(contest.rounds).Should(BeNumerically(">", rounds+5))
					again := w.childWrites(quiet)
					e.Expect(again).To(And(Not(BeEmpty()), HaveEach(Equal(raised[len(raised)-1]))))
					e.Expect(len(again)).To(BeNumerically("<=", contest.rounds()-rounds+1), "one for each time that it was opened")
					e.Expect(e.Writes(quiet, "pods")).To(BeEmpty())
					e.Expect(w.Status("zone-a").Message).To(HavePrefix(said))
				})
				control.reacts()
				contest.stop()
				w.Disturbed()
				w.Runs(images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1"})
				w.Settle()
				e.Expect(w.Partition("zone-a")).To(BeEquivalentTo(2))
				e.Step("what protects is whole", func() {
					w.DeletePod("zone-a", 0)
					w.Runs(images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1"})
				})
				w.Settle()
			})
		})
	}
}

// inMidCanary returns a parent that runs "v1 v1 v2" in zone-a, and "v1 v1" in zone-b.
func (e *env) inMidCanary(p appsv1.PodManagementPolicyType, strategy edit) *Workload {
	e.t.Helper()
	w := e.Create(draft("web", replicas(5), policy(p), plain("zone-a", "60%"), plain("zone-b", "40%"), strategy))
	w.Settle()
	w.SetImage("v2")
	w.Runs(images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1"})
	w.Disturbed()
	w.Settle()
	return w
}

// contest simulates somebody who makes the same change to a child over and over.
type contest struct {
	rounds func() int64
	stop   func()
}

// contest patches a child at an interval until it is stopped.
func (w *Workload) contest(subset string, every time.Duration, patch string) contest {
	w.t.Helper()
	return w.repeatedly(every, func(ctx context.Context) error {
		child := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name + "-" + subset}}
		return w.Client.Patch(ctx, child, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-fighter"))
	})
}

// repeatedly calls do at an interval until it is stopped.
func (w *Workload) repeatedly(every time.Duration, do func(context.Context) error) contest {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	done, rounds := make(chan struct{}), &atomic.Int64{}
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
			if do(ctx) == nil {
				rounds.Add(1)
			}
			return false, nil
		})
	}()
	stop := func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return contest{rounds: rounds.Load, stop: stop}
}

// childWrites returns the accepted writes of children since a mark, each as the child, its image, its
// replicas, and its partition.
func (w *Workload) childWrites(since int64) []string {
	w.t.Helper()
	var list []string
	for _, write := range w.Writes(since, children) {
		if write.Code >= 300 {
			continue
		}
		set := &appsv1.StatefulSet{}
		w.Expect(json.Unmarshal(write.Request, set)).To(Succeed())
		asks := write.Name
		if len(set.Spec.Template.Spec.Containers) > 0 {
			asks += fmt.Sprint(" ", tagOf(set.Spec.Template.Spec.Containers[0].Image), " ", *set.Spec.Replicas, " ", *set.Spec.UpdateStrategy.RollingUpdate.Partition)
		}
		list = append(list, asks)
	}
	return list
}

// named returns the incarnations of a pod since a mark.
func (h History) named(name string, since int) []incarnation {
	var list []incarnation
	for _, i := range h.Since(since) {
		if i.Name == name {
			list = append(list, i)
		}
	}
	return list
}

// promptly bounds how long an action without backoff takes on a busy machine. An action with backoff
// can take minutes.
const promptly = 20 * time.Second

// TestContestedLabels checks what happens when a policy, or somebody, removes a label that identifies a
// child again and again. United restores the label less and less often, but writes what the spec asks
// for at once, above all what protects replicas. Before, it wrote only the labels.
func TestContestedLabels(t *testing.T) {
	t.Parallel()
	for _, label := range []string{v1alpha1.LabelName, v1alpha1.LabelSubset} {
		for name, begin := range map[string]func(*Workload, string) (end func()){
			"policy": (*Workload).policyTakes,
			"loop":   (*Workload).loopTakes,
		} {
			t.Run(name+"/"+label, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				w := e.inMidCanary(appsv1.ParallelPodManagement, partitions(parts{"zone-a": 2}))
				still := e.History.Forbid(anyNewPod)
				mark := e.AuditMark()
				end := begin(w, label)
				w.Stalls("zone-a", v1alpha1.ReasonOverridden, fmt.Sprintf("StatefulSet web-zone-a: metadata.labels[%q] was ", label))
				e.Expect(len(w.childWrites(mark))).To(BeNumerically(">", 5), "positive control")

				written := func(partition int32) {
					w.SetPartitions(parts{"zone-a": partition})
					e.Eventually(func() int32 { return w.Partition("zone-a") }, promptly).Should(Equal(partition))
				}
				written(3)
				still.Holds()
				e.Step("the same as before is written at once, since it raises the partition", func() {
					w.PatchChild("zone-a", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":2}}}}`)
					e.Eventually(func() int32 { return w.Partition("zone-a") }, promptly).Should(BeEquivalentTo(3))
				})
				e.Step("what releases is written too", func() {
					written(1)
					w.Runs(images{"zone-a": "v1 v2 v2", "zone-b": "v1 v1"})
					still.Fires()
				})
				e.Step("the writes are spaced", func() {
					w.Stalls("zone-a", v1alpha1.ReasonOverridden, "repeatedly")
					e.Expect(len(e.Writes(mark, children))).To(BeNumerically("<=", 4*spaced))
				})
				end()
				w.SetPartitions(parts{"zone-a": 2})
				w.Disturbed()
				w.Settle()
				e.Expect(w.Child("zone-a").Labels).To(And(HaveKeyWithValue(v1alpha1.LabelName, "web"), HaveKeyWithValue(v1alpha1.LabelSubset, "zone-a")))
				e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v2 v2", "zone-b": "v1 v1"}))
			})
		}
	}
}

// policyTakes creates a policy that removes a label from the children as they are written.
func (w *Workload) policyTakes(label string) (end func()) {
	w.t.Helper()
	end = w.Override(children, "", fmt.Sprintf(`has(object.metadata.labels) && %q in object.metadata.labels ?
		[JSONPatch{op: "remove", path: "/metadata/labels/%s"}] : []`, label, strings.ReplaceAll(label, "/", "~1")),
		w.childComesOut(func(child *appsv1.StatefulSet) bool { return child.Labels[label] == "" }))
	w.PatchChild("zone-a", `{"metadata":{"annotations":{"example.com/touched":"x"}}}`)
	return end
}

// loopTakes removes a label from the child of zone-a over and over, as another client.
func (w *Workload) loopTakes(label string) (end func()) {
	w.t.Helper()
	return w.contest("zone-a", 150*time.Millisecond, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, label)).stop
}
