// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// Adaptive sets the schedule strategy Adaptive, with its two times in seconds.
func Adaptive(reschedule, retry int32) Edit {
	return func(d *Draft) {
		d.Spec.Topology.ScheduleStrategy = &v1alpha1.ScheduleStrategy{
			Type: v1alpha1.AdaptiveScheduleStrategy, Adaptive: &v1alpha1.AdaptiveScheduling{RescheduleAfterSeconds: &reschedule, RetryAfterSeconds: &retry},
		}
	}
}

// Between adds a subset with bounds such as "1..2". With a pool, the subset selects the nodes with the
// label of the pool.
func Between(name, bounds string, pool *NodePool) Edit {
	return func(d *Draft) {
		s := v1alpha1.Subset{Name: name}
		low, high, _ := strings.Cut(bounds, "..")
		if low != "" {
			s.MinReplicas = ptr.To(intstr.Parse(low))
		}
		if high != "" {
			s.MaxReplicas = ptr.To(intstr.Parse(high))
		}
		if pool != nil {
			s.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: pool.Label, Operator: corev1.NodeSelectorOpExists},
			}}}}
		}
		Subset(s)(d)
	}
}

// NodePool is a label that no node has until a test sets it.
type NodePool struct {
	*Env
	Label string
}

func (e *Env) Pool(name string) *NodePool {
	return &NodePool{e, "pool.example.com/" + e.Namespace + "-" + name}
}

// Open sets the label on a node.
func (p *NodePool) Open() { p.label(`"yes"`) }

// Close removes the label: pods that run there stay.
func (p *NodePool) Close() { p.label("null") }

func (p *NodePool) label(value string) {
	p.T.Helper()
	node := slices.Sorted(maps.Keys(p.Zones))[0]
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, p.Label, value))
	p.Expect(p.Client.Patch(p.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch)).To(Succeed())
}

// Have returns how many pods each subset has, in the order of the spec, and in parentheses how many of
// them have no node.
func (w *Workload) Have() string {
	all, pending := map[string]int{}, map[string]int{}
	for _, p := range w.Pods() {
		all[p.Subset]++
		if p.Node == "" {
			pending[p.Subset]++
		}
	}
	var said []string
	for _, s := range w.Parent().Spec.Topology.Subsets {
		text := fmt.Sprint(all[s.Name])
		if n := pending[s.Name]; n > 0 {
			text += fmt.Sprintf("(%d)", n)
		}
		said = append(said, text)
		delete(all, s.Name)
	}
	for name := range all {
		said = append(said, "also "+name)
	}
	return strings.Join(said, ",")
}

// ComeTo waits until the subsets have the wanted number of pods.
func (w *Workload) ComeTo(want string) {
	w.T.Helper()
	w.Eventually(w.Have).Should(Equal(want))
}

// ScaleTo scales, and waits until the subsets have the wanted number of pods.
func (w *Workload) ScaleTo(n int32, want string) {
	w.T.Helper()
	w.Scale(n)
	w.ComeTo(want)
}

// CapsAreOver waits until no subset is capped.
func (w *Workload) CapsAreOver() {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		for _, s := range w.Parent().Status.Subsets {
			g.Expect(s.Cap).To(BeNil(), s.Name)
			g.Expect(meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionSchedulable)).To(BeTrue(), s.Name)
		}
	}).Should(Succeed())
}

// StaysAt checks for a number of seconds that nothing changes.
func (w *Workload) StaysAt(want string, seconds int) {
	w.T.Helper()
	w.Consistently(w.Have, time.Duration(seconds)*time.Second, time.Second).Should(Equal(want))
}

// AdaptiveStrategies are the update strategies that Adaptive has to work with.
var AdaptiveStrategies = map[string]Edit{
	"Manual":        func(*Draft) {},
	"RollingUpdate": Rolling(`{maxUnavailable: 1}`),
}

// IsCapped waits until a subset is capped for a reason, and the status quotes the scheduler.
func (w *Workload) IsCapped(subset, reason string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		s := w.Status(subset)
		g.Expect(s.Cap).NotTo(BeNil())
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSchedulable)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
		g.Expect(c.Reason).To(Equal(reason))
		g.Expect(c.Message).To(ContainSubstring("nodes are available"))
	}).Should(Succeed())
}

// IsContent waits until Ready is True for this generation, whatever is reserved.
func (w *Workload) IsContent() {
	w.T.Helper()
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
}

// AddNodeWithoutZone adds a node that only pods of this test tolerate, in a zone that no subset
// selects.
func (e *Env) AddNodeWithoutZone(suffix string) string {
	e.T.Helper()
	name := e.Namespace + "-" + suffix
	taint := corev1.Taint{Key: e.Namespace, Effect: corev1.TaintEffectNoSchedule}
	e.Expect(e.Cluster.AddNode(e.Ctx, "elsewhere", name, taint)).To(Succeed())
	return name
}

// IsUnschedulable waits until the wanted number of replicas of the subset "own" is Unschedulable, and
// the messages for users quote what the scheduler said about the pod, with the given words. The writes
// of the status since the mark must show that it quoted the scheduler before, under another reason.
func (w *Workload) IsUnschedulable(mark int64, count, words string) {
	w.T.Helper()
	var pod *corev1.Pod
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		pod = w.pending(g)
		quote := fmt.Sprintf("%s (unschedulable since %s: %s)", pod.Name, unschedulableSince(pod).Format(time.RFC3339), quoteOf(pod))
		g.Expect(quote).To(ContainSubstring(words))
		g.Expect(w.Status("own").Message).To(ContainSubstring("waiting for " + quote))
		ready := Condition(parent, v1alpha1.ConditionReady)
		g.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
		g.Expect(ready.Reason).To(Equal(v1alpha1.ReasonUnschedulable), ready.Message)
		g.Expect(ready.Message).To(Equal("own: no node fits " + count + " replicas: " + quote))
		g.Expect(Condition(parent, v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse), "a node may still come")
		events := w.EventsOf(g, v1alpha1.ReasonUnschedulable)
		g.Expect(events).To(HaveLen(1))
		g.Expect(events[0].Type).To(Equal(corev1.EventTypeWarning))
		g.Expect(events[0].Note).To(And(HavePrefix("own: no node fits "), ContainSubstring(words)))
	}).Should(Succeed())

	since, quoted, unschedulable := unschedulableSince(pod), 0, 0
	for _, write := range w.Writes(mark, Statuses) {
		status := StatusOf(w.Env, write)
		ready := Condition(&v1alpha1.UnitedDeployment{Status: status}, v1alpha1.ConditionReady)
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
	pods := w.PodsOf("own")
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

// EventsOf returns the events with a reason about the UnitedDeployment.
func (w *Workload) EventsOf(g Gomega, reason string) []eventsv1.Event {
	list := &eventsv1.EventList{}
	g.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace))).To(Succeed())
	var events []eventsv1.Event
	for _, event := range list.Items {
		if event.Regarding.Kind == v1alpha1.Kind && event.Regarding.Name == w.Name && event.Reason == reason {
			events = append(events, event)
		}
	}
	return events
}
