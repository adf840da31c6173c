// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func stallsSoon(c *v1alpha1.Colocation) { c.TimeoutSeconds = ptr.To(int32(3)) }

// groupStalls waits until the status says that a group has no room, and checks that nothing that runs is
// taken down for some seconds.
func (w *Workload) groupStalls(want string, words ...string) {
	w.t.Helper()
	w.comeTo(want)
	w.StallsWhole(v1alpha1.ReasonGroupUnschedulable, words...)
	before := w.uids()
	w.staysAt(want, 5)
	w.Expect(w.uids()).To(Equal(before))
}

// TestColocationRoom checks nodes with room for one group each: the next group waits, the status says
// why, and it continues when there is room.
func TestColocationRoom(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.addRoom("1", "zone-a")
	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(9), colocated(stallsSoon), inRoom(e, "300")))
	e.Step("one node", func() {
		w.groupStalls("4(2),2(1)", "Group 1 fits in no kubernetes.io/hostname: no node fits web-", "Insufficient cpu")
		e.Expect(w.nodesOf()).To(HaveKeyWithValue(first, 3))
		e.Expect(w.Status(prefill).Message).To(And(
			ContainSubstring("waiting for web-prefill-2 (unschedulable since "), HaveSuffix("; group 2 is created when group 1 is ready")))
	})
	e.Step("another node", func() {
		second := e.addRoom("2", "zone-a")
		w.groupStalls("6(2),3(1)", "Group 2 fits in no kubernetes.io/hostname: ")
		e.Expect(w.nodesOf()).To(And(HaveKeyWithValue(first, 3), HaveKeyWithValue(second, 3)))
	})
	e.Step("room for all", func() {
		e.addRoom("3", "zone-a")
		w.comeTo("6,3")
		w.Settle()
		e.Expect(w.groups(onNode)).To(HaveLen(3))
		e.Expect(w.nodesOf()).To(HaveLen(3))
	})
	e.Step("a lost node", func() {
		e.addRoom("4", "zone-a")
		kept := w.uids()
		e.Expect(e.Client.Delete(e.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first}})).To(Succeed())
		e.Eventually(func(g Gomega) { // the pod garbage collector waits for 40 seconds
			g.Expect(w.nodesOf()).To(And(HaveLen(3), Not(HaveKey(first)), Not(HaveKey(""))))
			g.Expect(w.have()).To(Equal("6,3"))
		}, 4*time.Minute).Should(Succeed())
		w.Settle()
		e.Expect(w.groups(onNode)).To(HaveLen(3))
		stayed := 0
		for uid := range w.uids() {
			if kept[uid] {
				stayed++
			}
		}
		e.Expect(stayed).To(Equal(6), "the other groups are not touched")
	})
}

// TestColocationTooLittleRoom checks a group that does not fit where its first pods are: nothing is
// taken down, and the group is completed when something else makes room.
func TestColocationTooLittleRoom(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	node := e.addRoom("1", "zone-a")
	filler := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "filler"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{roomLabel: e.Namespace}, Tolerations: []corev1.Toleration{{Key: e.Namespace, Operator: corev1.TolerationOpExists}},
		TerminationGracePeriodSeconds: ptr.To(int64(0)),
		Containers: []corev1.Container{{Name: "c", Image: image("v1"), Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300")}}}},
	}}
	e.Expect(e.Client.Create(e.ctx, filler)).To(Succeed())
	e.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.ctx, e.key("filler"), filler)).To(Succeed())
		g.Expect(filler.Spec.NodeName).To(Equal(node))
	}).Should(Succeed())
	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(3), colocated(stallsSoon), inRoom(e, "300"),
		rolling(`{maxUnavailable: 1}`)))
	e.Eventually(func(g Gomega) {
		g.Expect(w.have()).To(Or(Equal("2,1(1)"), Equal("2(1),1")))
	}).Should(Succeed())
	w.StallsWhole(v1alpha1.ReasonGroupUnschedulable, "Group 0 does not fit on node "+node+", where web-", "no node fits web-", "Insufficient cpu")
	before := w.uids()
	e.Consistently(w.uids, 5*time.Second, time.Second).Should(Equal(before))
	e.Expect(e.Client.Delete(e.ctx, filler)).To(Succeed())
	w.comeTo("2,1")
	w.Settle()
	e.Expect(w.uids()).To(Equal(before))
	e.Expect(w.groups(onNode)).To(Equal(map[int]string{0: "decode-0 prefill-0 prefill-1"}))
}

// TestColocationExclusive checks that no two groups share a node, although there is room.
func TestColocationExclusive(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.addRoom("1", "zone-a")
	e.addRoom("2", "zone-a")
	exclusive := func(c *v1alpha1.Colocation) { c.Exclusive = true }
	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(9), colocated(stallsSoon, exclusive, inParallel), inRoom(e, "1")))
	w.StallsWhole(v1alpha1.ReasonGroupUnschedulable, "fits in no kubernetes.io/hostname: ", "didn't match pod anti-affinity rules")
	e.Expect(w.have()).To(Equal("6(2),3(1)"))
	nodes := w.nodesOf()
	e.Expect(nodes).To(HaveLen(3), "two nodes, and none")
	e.Expect(nodes).To(HaveKeyWithValue("", 3))
	e.addRoom("3", "zone-a")
	w.comeTo("6,3")
	w.Settle()
	e.Expect(w.nodesOf()).To(And(HaveLen(3), HaveEach(3)))
	e.Expect(w.groups(onNode)).To(HaveLen(3))
	e.Step("a rollout needs no other nodes", func() {
		w.SetImage("v2")
		w.Settle()
		e.Expect(w.Images()).To(Equal(images{prefill: "v2 v2 v2 v2 v2 v2", decode: "v2 v2 v2"}))
		e.Expect(w.nodesOf()).To(And(HaveLen(3), HaveEach(3)))
		e.Expect(w.groups(onNode)).To(HaveLen(3))
	})
}

// TestColocationChanges checks a change from groups in one zone, which share nodes, to one node for each
// group. The old pods of a group do not determine where its new ones run.
func TestColocationChanges(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, node := range []string{"1", "2", "3"} {
		e.addRoom(node, "zone-a")
	}
	zone := func(c *v1alpha1.Colocation) { c.TopologyKey = corev1.LabelTopologyZone }
	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(9), colocated(zone), inRoom(e, "1"), rolling(`{maxUnavailable: 1}`)))
	w.Settle()
	w.Patch(`{"spec":{"topology":{"colocation":{"topologyKey":"kubernetes.io/hostname","exclusive":true}}}}`)
	w.Settle()
	e.Expect(w.groups(onNode)).To(HaveLen(3))
	e.Expect(w.nodesOf()).To(And(HaveLen(3), HaveEach(3)))
	before := w.uids()
	w.Patch(`{"spec":{"topology":{"colocation":{"order":"Parallel","timeoutSeconds":5}}}}`)
	w.Settle()
	e.Expect(w.uids()).To(Equal(before), "these restart nothing")
}

// TestColocationIsARollout checks that turning it on, or off, reaches only released pods.
func TestColocationIsARollout(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(9), plain(prefill, ""), plain(decode, ""), hold()))
	w.Settle()
	e.Expect(w.have()).To(Equal("5,4"))
	grouped := func() (n int) {
		pods := &corev1.PodList{}
		e.Expect(e.List(e.ctx, pods, client.InNamespace(e.Namespace), client.HasLabels{v1alpha1.LabelColocationGroup})).To(Succeed())
		return len(pods.Items)
	}
	w.Patch(`{"spec":{"topology":{"colocation":{"topologyKey":"kubernetes.io/hostname","ratios":{"prefill":2,"decode":1}}}}}`)
	w.comeTo("6,3")
	w.Settle()
	e.Expect(grouped()).To(Equal(0), "everything is held")
	w.SetPartitions(parts{decode: 0})
	e.Eventually(grouped).Should(Equal(3))
	w.Settle()
	w.SetPartitions(parts{prefill: 0})
	e.Eventually(grouped).Should(Equal(9))
	w.Settle()
	e.Expect(w.groups(onNode)).To(HaveLen(3))
	w.Patch(`{"spec":{"topology":{"colocation":null}}}`)
	e.Eventually(grouped).Should(Equal(0))
	w.Settle()
	e.Expect(w.have()).To(Equal("5,4"))
}

// TestColocationKinds checks the groups of other kinds with ordinals. All pods of a group of a
// LeaderWorkerSet are in the domain.
func TestColocationKinds(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		if k.name != "AdvancedStatefulSet" && k.name != "LeaderWorkerSet" {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w := k.contractOf(t, policy(appsv1.ParallelPodManagement), replicas(10), colocated(), plain(prefill, ""), plain(decode, ""))
			w.comeTo("7,3")
			w.isContent()
			w.Expect(w.groups(onNode)).To(HaveLen(4))
			w.setImage("v2")
			w.Eventually(w.Images).Should(Equal(images{prefill: "v2 v2 v2 v2 v2 v2 v2", decode: "v2 v2 v2"}))
			w.isContent()
			w.Expect(w.groups(onNode)).To(HaveLen(4))
			w.scaleTo(3, "2,1")
			w.isContent()
			w.Eventually(w.nodesOf).Should(HaveLen(1), "workers are deleted after their leader")
			w.Expect(w.groups(onNode)).To(HaveLen(1))
		})
	}
}

// TestColocationWithoutPolicy checks that no pod is scheduled without its group, and that the status says
// what is missing. The policy is that of the whole control plane.
func TestColocationWithoutPolicy(t *testing.T) {
	t.Parallel()
	e := newPlaneOf(t).newEnv(t)
	binding := &admissionv1.MutatingAdmissionPolicyBinding{}
	e.Expect(e.Get(e.ctx, client.ObjectKey{Name: "united-colocation"}, binding)).To(Succeed())
	restore := func(ctx context.Context) error {
		again := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels, Annotations: binding.Annotations}, Spec: binding.Spec}
		return client.IgnoreAlreadyExists(e.Client.Create(ctx, again))
	}
	t.Cleanup(func() { e.Expect(restore(context.WithoutCancel(e.ctx))).To(Succeed()) })
	e.Expect(e.Client.Delete(e.ctx, binding)).To(Succeed())
	e.policyIs(false)

	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(9), colocated(), plain(prefill, ""), plain(decode, "")))
	w.comeTo("2(2),1(1)")
	command := "kubectl delete pod -n " + e.Namespace + " -l 'united.dev/name=web,united.dev/colocation-ratio,!united.dev/colocation-group'"
	w.StallsWhole(v1alpha1.ReasonUngrouped, "MutatingAdmissionPolicy united-colocation", "web-prefill-0 and 2 more replicas cannot be scheduled", command)
	w.staysAt("2(2),1(1)", 3)

	e.Expect(restore(e.ctx)).To(Succeed())
	e.policyIs(true)
	selector := client.MatchingLabels{v1alpha1.LabelName: "web"}
	e.Expect(e.DeleteAllOf(e.ctx, &corev1.Pod{}, client.InNamespace(e.Namespace), selector, client.HasLabels{v1alpha1.LabelColocationRatio})).To(Succeed())
	w.comeTo("6,3")
	w.Settle()
	e.Expect(w.groups(onNode)).To(HaveLen(3))
}

// policyIs waits until the API server applies the policy for groups, or does not.
func (e *env) policyIs(there bool) {
	e.t.Helper()
	e.Eventually(func(g Gomega) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "probe-0",
				Labels:      map[string]string{v1alpha1.LabelName: "probe", v1alpha1.LabelColocationRatio: "2", appsv1.PodIndexLabel: "5"},
				Annotations: map[string]string{v1alpha1.AnnotationColocationStart: "1"}},
			Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "mine"}, {Name: v1alpha1.GateColocation}}, Containers: []corev1.Container{{Name: "c", Image: image("v1")}}},
		}
		g.Expect(e.Client.Create(e.ctx, pod, client.DryRunAll)).To(Succeed())
		want := "" // (5 - 1) / 2
		if there {
			want = "2"
			g.Expect(pod.Spec.SchedulingGates).To(Equal([]corev1.PodSchedulingGate{{Name: "mine"}}))
		}
		g.Expect(pod.Labels[v1alpha1.LabelColocationGroup]).To(Equal(want))
	}).Should(Succeed())
}
