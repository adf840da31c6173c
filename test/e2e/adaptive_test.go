// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// adaptive sets the schedule strategy Adaptive, with its two times in seconds.
func adaptive(reschedule, retry int32) edit {
	return func(d *Draft) {
		d.Spec.Topology.ScheduleStrategy = &v1alpha1.ScheduleStrategy{
			Type: v1alpha1.AdaptiveScheduleStrategy, Adaptive: &v1alpha1.AdaptiveScheduling{RescheduleAfterSeconds: &reschedule, RetryAfterSeconds: &retry},
		}
	}
}

// between adds a subset with bounds such as "1..2". With a pool, the subset selects the nodes with the
// label of the pool.
func between(name, bounds string, pool *nodePool) edit {
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
				{Key: pool.label, Operator: corev1.NodeSelectorOpExists},
			}}}}
		}
		subset(s)(d)
	}
}

// nodePool is a label that no node has until a test sets it.
type nodePool struct {
	*env
	label string
}

func (e *env) pool(name string) *nodePool {
	return &nodePool{e, "pool.example.com/" + e.Namespace + "-" + name}
}

// open sets the label on a node.
func (p *nodePool) open() {
	p.t.Helper()
	node := slices.Sorted(maps.Keys(p.zones))[0]
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"yes"}}}`, p.label))
	p.Expect(p.Client.Patch(p.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch)).To(Succeed())
}

// have returns how many pods each subset has, in the order of the spec, and in parentheses how many of
// them have no node.
func (w *Workload) have() string {
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

// comeTo waits until the subsets have the wanted number of pods.
func (w *Workload) comeTo(want string) {
	w.t.Helper()
	w.Eventually(w.have).Should(Equal(want))
}

// scaleTo scales, and waits until the subsets have the wanted number of pods.
func (w *Workload) scaleTo(n int32, want string) {
	w.t.Helper()
	w.Scale(n)
	w.comeTo(want)
}

// capsAreOver waits until no subset is capped.
func (w *Workload) capsAreOver() {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		for _, s := range w.Parent().Status.Subsets {
			g.Expect(s.Cap).To(BeNil(), s.Name)
			g.Expect(meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionSchedulable)).To(BeTrue(), s.Name)
		}
	}).Should(Succeed())
}

// staysAt checks for a number of seconds that nothing changes.
func (w *Workload) staysAt(want string, seconds int) {
	w.t.Helper()
	w.Consistently(w.have, time.Duration(seconds)*time.Second, time.Second).Should(Equal(want))
}

// adaptiveStrategies are the update strategies that Adaptive has to work with.
var adaptiveStrategies = map[string]edit{
	"Manual":        func(*Draft) {},
	"RollingUpdate": rolling(`{maxUnavailable: 1}`),
}

// TestAdaptiveOrder checks that the subsets are filled in order, and that replicas which fit on no node
// move on to the next subset. A replica that has a node stays.
func TestAdaptiveOrder(t *testing.T) {
	t.Parallel()
	for name, strategy := range adaptiveStrategies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			b := e.pool("b")
			w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(3), adaptive(10, 10), strategy,
				between("a", "..2", nil), between("b", "..2", b), between("c", "", nil)))
			e.Step("b has no nodes", func() {
				w.comeTo("2,1(1),0")
				w.comeTo("2,0,1")
				w.isCapped("b", v1alpha1.ReasonRetryLater)
				w.scaleTo(5, "2,0,3")
				w.scaleTo(4, "2,0,2")
			})
			e.Step("the cap is over, and moves nothing", func() {
				w.capsAreOver()
				w.staysAt("2,0,2", 3)
				w.Settle()
			})
			e.Step("a scale-up tries b again", func() {
				w.scaleTo(5, "2,1(1),2")
				w.comeTo("2,0,3")
				w.Scale(4)
				w.capsAreOver()
				w.comeTo("2,0,2")
			})
			e.Step("what has no node goes first", func() {
				w.scaleTo(5, "2,1(1),2")
				w.scaleTo(4, "2,0,2")
				w.scaleTo(3, "2,0,1")
			})
			e.Step("another subset", func() {
				w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"d","minReplicas":2}},{"op":"replace","path":"/spec/replicas","value":6}]`)
				w.comeTo("2,0,2,2")
				w.Settle()
			})
			e.Step("b gets a node, and d goes", func() {
				b.open()
				w.capsAreOver()
				w.staysAt("2,0,2,2", 3)
				w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/3"}]`)
				w.comeTo("2,2,2")
				w.Settle()
				w.scaleTo(3, "2,1,0")
				w.scaleTo(5, "2,2,1")
				w.Settle()
			})
		})
	}
}

// TestAdaptiveMinimum checks that the first subset keeps its minimum, whether its replicas have a node
// or not.
func TestAdaptiveMinimum(t *testing.T) {
	t.Parallel()
	for name, strategy := range adaptiveStrategies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			b := e.pool("b")
			w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(3), adaptive(10, 10), strategy,
				between("b", "1..2", b), between("c", "", nil)))
			e.Step("one is pending", func() {
				w.comeTo("2(2),1")
				w.comeTo("1(1),2")
				w.isCapped("b", v1alpha1.ReasonUnschedulable)
				w.scaleTo(4, "1(1),3")
				w.scaleTo(3, "1(1),2")
				w.staysAt("1(1),2", 12)
				w.isCapped("b", v1alpha1.ReasonUnschedulable)
			})
			e.Step("the manager forgets nothing", func() {
				before := w.Status("b").Cap
				e.Expect(before).NotTo(BeNil())
				w.WipeStatus()
				w.staysAt("1(1),2", 5)
			})
			e.Step("b gets a node", func() {
				b.open()
				w.capsAreOver()
				w.comeTo("1,2")
				w.Settle()
				w.scaleTo(5, "2,3")
				w.Settle()
				w.scaleTo(4, "2,2")
				w.scaleTo(3, "2,1")
				w.scaleTo(1, "1,0")
				w.Settle()
			})
		})
	}
}

// TestAdaptiveKinds checks that replicas without a node are created elsewhere, for every kind of child.
func TestAdaptiveKinds(t *testing.T) {
	eachKind(t, kinds(), func(t *testing.T, k kind) {
		a := &nodePool{label: "pool.example.com/" + strings.ToLower(k.name)}
		w := k.contractOf(t, policy(appsv1.ParallelPodManagement), replicas(3), adaptive(5, 5), between("a", "", a), between("b", "", nil))
		a.env = w.env
		w.comeTo("3(3),0")
		w.comeTo("0,3")
		w.isContent()
		w.capsAreOver()
		w.staysAt("0,3", 2)
		a.open()
		w.scaleTo(4, "1,3")
		w.isContent()
		w.scaleTo(2, "1,1")
		w.isContent()
	})
}

// isCapped waits until a subset is capped for a reason, and the status quotes the scheduler.
func (w *Workload) isCapped(subset, reason string) {
	w.t.Helper()
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

// reserving keeps replicas without a node.
func reserving(d *Draft) { d.Spec.Topology.ScheduleStrategy.Adaptive.ReserveUnschedulablePods = true }

// runsAll waits until all pods run an image, with a node or without, and the manager is content.
func (w *Workload) runsAll(tag string) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		for _, p := range w.Pods() {
			g.Expect(p.Image).To(Equal(tag), p.Name)
			g.Expect(p.Terminating).To(BeFalse(), p.Name)
		}
	}).Should(Succeed())
}

// isContent waits until Ready is True for this generation, whatever is reserved.
func (w *Workload) isContent() {
	w.t.Helper()
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
}

// Replicas without a node stay, and substitutes come up elsewhere; a new image reaches all; when there is a node, the
// substitutes go.
func TestAdaptiveReserve(t *testing.T) {
	t.Parallel()
	for name, strategy := range adaptiveStrategies {
		t.Run(name, func(t *testing.T) { testReserve(t, strategy) })
	}
}

func testReserve(t *testing.T, strategy edit) {
	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		a, b := e.pool("a"), e.pool("b")
		w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(2), adaptive(20, 1), reserving, strategy,
			between("a", "", a), between("b", "", b), between("c", "", nil)))
		e.Step("a and b have no nodes", func() {
			w.comeTo("2(2),0,0")
			w.comeTo("2(2),2(2),0")
			w.comeTo("2(2),2(2),2")
			w.isCapped("a", v1alpha1.ReasonUnschedulable)
			w.isCapped("b", v1alpha1.ReasonUnschedulable)
			w.isContent()
			w.scaleTo(4, "2(2),2(2),4")
			w.scaleTo(2, "2(2),2(2),2")
			w.scaleTo(4, "2(2),2(2),4")
			w.isContent()
		})
		e.Step("a new image", func() {
			w.SetImage("v2")
			w.runsAll("v2")
			w.comeTo("2(2),2(2),4")
			w.isContent()
			w.staysAt("2(2),2(2),4", 25)
		})
		e.Step("a gets a node", func() {
			floor := w.readyFloor(4)
			a.open()
			w.comeTo("4,0,0")
			floor()
			w.Settle()
			w.scaleTo(5, "5,0,0")
			w.Settle()
		})
	})
	t.Run("with minimums", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		a, b := e.pool("a"), e.pool("b")
		w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(2), adaptive(10, 1), reserving, strategy,
			between("a", "1", a), between("b", "1", b), between("c", "", nil)))
		e.Step("a and b have no nodes", func() {
			w.comeTo("1(1),1(1),2")
			w.isContent()
			w.scaleTo(4, "1(1),1(1),4")
			w.isContent()
		})
		e.Step("a gets a node", func() {
			floor := w.readyFloor(4)
			a.open()
			w.comeTo("4,1(1),0")
			floor()
			w.scaleTo(5, "5,1(1),0")
			w.isContent()
		})
	})
}

// readyFloor looks from now on whether so many pods are ready, at each moment that it looks; the function that it gives ends that.
func (w *Workload) readyFloor(least int) (end func()) {
	stop, done, low := make(chan struct{}), make(chan struct{}), least
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			pods := &corev1.PodList{}
			if w.List(w.ctx, pods, client.InNamespace(w.Namespace)) != nil {
				continue
			}
			ready := 0
			for i := range pods.Items {
				if p := readPod(&pods.Items[i], w.zones); p.Ready && !p.Terminating {
					ready++
				}
			}
			low = min(low, ready)
		}
	}()
	return func() {
		w.t.Helper()
		close(stop)
		<-done
		w.Expect(low).To(BeNumerically(">=", least), "pods that were ready")
	}
}
