// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

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
	. "github.com/unitedworkloads/united/test/e2e/env"
)

func stallsSoon(c *v1alpha1.Colocation) { c.TimeoutSeconds = ptr.To(int32(3)) }

// groupStalls waits until the status says that a group has no room, and checks that nothing that runs is
// taken down for some seconds.
func groupStalls(w *Workload, want string, words ...string) {
	w.T.Helper()
	w.ComeTo(want)
	w.StallsWhole(v1alpha1.ReasonGroupUnschedulable, words...)
	before := w.Uids()
	w.StaysAt(want, 5)
	w.Expect(w.Uids()).To(Equal(before))
}

// TestColocationRoom checks nodes with room for one group each: the next group waits, the status says
// why, and it continues when there is room.
func TestColocationRoom(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	first := addRoom(e, "1", "zone-a")
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Colocated(stallsSoon), inRoom(e, "300")))
	e.Step("one node", func() {
		groupStalls(w, "4(2),2(1)", "Group 1 fits in no kubernetes.io/hostname: no node fits web-", "Insufficient cpu")
		e.Expect(w.NodesOf()).To(HaveKeyWithValue(first, 3))
		e.Expect(w.Status(Prefill).Message).To(And(
			ContainSubstring("waiting for web-prefill-2 (unschedulable since "), HaveSuffix("; group 2 is created when group 1 is ready")))
	})
	e.Step("another node", func() {
		second := addRoom(e, "2", "zone-a")
		groupStalls(w, "6(2),3(1)", "Group 2 fits in no kubernetes.io/hostname: ")
		e.Expect(w.NodesOf()).To(And(HaveKeyWithValue(first, 3), HaveKeyWithValue(second, 3)))
	})
	e.Step("room for all", func() {
		addRoom(e, "3", "zone-a")
		w.ComeTo("6,3")
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(HaveLen(3))
		e.Expect(w.NodesOf()).To(HaveLen(3))
	})
	e.Step("a lost node", func() {
		addRoom(e, "4", "zone-a")
		kept := w.Uids()
		e.Expect(e.Client.Delete(e.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first}})).To(Succeed())
		e.Eventually(func(g Gomega) { // the pod garbage collector waits for 40 seconds
			g.Expect(w.NodesOf()).To(And(HaveLen(3), Not(HaveKey(first)), Not(HaveKey(""))))
			g.Expect(w.Have()).To(Equal("6,3"))
		}, 4*time.Minute).Should(Succeed())
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(HaveLen(3))
		stayed := 0
		for uid := range w.Uids() {
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
	e := NewEnv(t)
	node := addRoom(e, "1", "zone-a")
	filler := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "filler"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{roomLabel: e.Namespace}, Tolerations: []corev1.Toleration{{Key: e.Namespace, Operator: corev1.TolerationOpExists}},
		TerminationGracePeriodSeconds: ptr.To(int64(0)),
		Containers: []corev1.Container{{Name: "c", Image: Image("v1"), Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300")}}}},
	}}
	e.Expect(e.Client.Create(e.Ctx, filler)).To(Succeed())
	e.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.Ctx, e.Key("filler"), filler)).To(Succeed())
		g.Expect(filler.Spec.NodeName).To(Equal(node))
	}).Should(Succeed())
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(3), Colocated(stallsSoon), inRoom(e, "300"),
		Rolling(`{maxUnavailable: 1}`)))
	e.Eventually(func(g Gomega) {
		g.Expect(w.Have()).To(Or(Equal("2,1(1)"), Equal("2(1),1")))
	}).Should(Succeed())
	w.StallsWhole(v1alpha1.ReasonGroupUnschedulable, "Group 0 does not fit on node "+node+", where web-", "no node fits web-", "Insufficient cpu")
	before := w.Uids()
	e.Consistently(w.Uids, 5*time.Second, time.Second).Should(Equal(before))
	e.Expect(e.Client.Delete(e.Ctx, filler)).To(Succeed())
	w.ComeTo("2,1")
	w.Settle()
	e.Expect(w.Uids()).To(Equal(before))
	e.Expect(w.Groups(OnNode)).To(Equal(map[int]string{0: "decode-0 prefill-0 prefill-1"}))
}

// TestColocationExclusive checks that no two groups share a node, although there is room.
func TestColocationExclusive(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	addRoom(e, "1", "zone-a")
	addRoom(e, "2", "zone-a")
	exclusive := func(c *v1alpha1.Colocation) { c.Exclusive = true }
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Colocated(stallsSoon, exclusive, InParallel), inRoom(e, "1")))
	w.StallsWhole(v1alpha1.ReasonGroupUnschedulable, "fits in no kubernetes.io/hostname: ", "didn't match pod anti-affinity rules")
	e.Expect(w.Have()).To(Equal("6(2),3(1)"))
	nodes := w.NodesOf()
	e.Expect(nodes).To(HaveLen(3), "two nodes, and none")
	e.Expect(nodes).To(HaveKeyWithValue("", 3))
	addRoom(e, "3", "zone-a")
	w.ComeTo("6,3")
	w.Settle()
	e.Expect(w.NodesOf()).To(And(HaveLen(3), HaveEach(3)))
	e.Expect(w.Groups(OnNode)).To(HaveLen(3))
	e.Step("a rollout needs no other nodes", func() {
		w.SetImage("v2")
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{Prefill: "v2 v2 v2 v2 v2 v2", Decode: "v2 v2 v2"}))
		e.Expect(w.NodesOf()).To(And(HaveLen(3), HaveEach(3)))
		e.Expect(w.Groups(OnNode)).To(HaveLen(3))
	})
}

// TestColocationChanges checks a change from groups in one zone, which share nodes, to one node for each
// group. The old pods of a group do not determine where its new ones run.
func TestColocationChanges(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	for _, node := range []string{"1", "2", "3"} {
		addRoom(e, node, "zone-a")
	}
	zone := func(c *v1alpha1.Colocation) { c.TopologyKey = corev1.LabelTopologyZone }
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Colocated(zone), inRoom(e, "1"), Rolling(`{maxUnavailable: 1}`)))
	w.Settle()
	w.Patch(`{"spec":{"topology":{"colocation":{"topologyKey":"kubernetes.io/hostname","exclusive":true}}}}`)
	w.Settle()
	e.Expect(w.Groups(OnNode)).To(HaveLen(3))
	e.Expect(w.NodesOf()).To(And(HaveLen(3), HaveEach(3)))
	before := w.Uids()
	w.Patch(`{"spec":{"topology":{"colocation":{"order":"Parallel","timeoutSeconds":5}}}}`)
	w.Settle()
	e.Expect(w.Uids()).To(Equal(before), "these restart nothing")
}

// TestColocationIsARollout checks that turning it on, or off, reaches only released pods.
func TestColocationIsARollout(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Plain(Prefill, ""), Plain(Decode, ""), Hold()))
	w.Settle()
	e.Expect(w.Have()).To(Equal("5,4"))
	grouped := func() (n int) {
		pods := &corev1.PodList{}
		e.Expect(e.List(e.Ctx, pods, client.InNamespace(e.Namespace), client.HasLabels{v1alpha1.LabelColocationGroup})).To(Succeed())
		return len(pods.Items)
	}
	w.Patch(`{"spec":{"topology":{"colocation":{"topologyKey":"kubernetes.io/hostname","ratios":{"prefill":2,"decode":1}}}}}`)
	w.ComeTo("6,3")
	w.Settle()
	e.Expect(grouped()).To(Equal(0), "everything is held")
	w.SetPartitions(Parts{Decode: 0})
	e.Eventually(grouped).Should(Equal(3))
	w.Settle()
	w.SetPartitions(Parts{Prefill: 0})
	e.Eventually(grouped).Should(Equal(9))
	w.Settle()
	e.Expect(w.Groups(OnNode)).To(HaveLen(3))
	w.Patch(`{"spec":{"topology":{"colocation":null}}}`)
	e.Eventually(grouped).Should(Equal(0))
	w.Settle()
	e.Expect(w.Have()).To(Equal("5,4"))
}

// TestColocationKinds checks the groups of other kinds with ordinals. All pods of a group of a
// LeaderWorkerSet are in the domain.
func TestColocationKinds(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		if k.Title != "AdvancedStatefulSet" && k.Title != "LeaderWorkerSet" {
			continue
		}
		t.Run(k.Title, func(t *testing.T) {
			t.Parallel()
			w := k.ContractOf(t, Policy(appsv1.ParallelPodManagement), Replicas(10), Colocated(), Plain(Prefill, ""), Plain(Decode, ""))
			w.ComeTo("7,3")
			w.IsContent()
			w.Expect(w.Groups(OnNode)).To(HaveLen(4))
			w.SetImages("v2")
			w.Eventually(w.Images).Should(Equal(Images{Prefill: "v2 v2 v2 v2 v2 v2 v2", Decode: "v2 v2 v2"}))
			w.IsContent()
			w.Expect(w.Groups(OnNode)).To(HaveLen(4))
			w.ScaleTo(3, "2,1")
			w.IsContent()
			w.Eventually(w.NodesOf).Should(HaveLen(1), "workers are deleted after their leader")
			w.Expect(w.Groups(OnNode)).To(HaveLen(1))
		})
	}
}

// TestColocationWithoutPolicy checks that no pod is scheduled without its group, and that the status says
// what is missing. The policy is that of the whole control plane.
func TestColocationWithoutPolicy(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	binding := &admissionv1.MutatingAdmissionPolicyBinding{}
	e.Expect(e.Get(e.Ctx, client.ObjectKey{Name: "united-colocation"}, binding)).To(Succeed())
	restore := func(ctx context.Context) error {
		again := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels, Annotations: binding.Annotations}, Spec: binding.Spec}
		return client.IgnoreAlreadyExists(e.Client.Create(ctx, again))
	}
	t.Cleanup(func() { e.Expect(restore(context.WithoutCancel(e.Ctx))).To(Succeed()) })
	e.Expect(e.Client.Delete(e.Ctx, binding)).To(Succeed())
	policyIs(e, false)

	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Colocated(), Plain(Prefill, ""), Plain(Decode, "")))
	w.ComeTo("2(2),1(1)")
	command := "kubectl delete pod -n " + e.Namespace + " -l 'united.dev/name=web,united.dev/colocation-ratio,!united.dev/colocation-group'"
	w.StallsWhole(v1alpha1.ReasonUngrouped, "MutatingAdmissionPolicy united-colocation", "web-prefill-0 and 2 more replicas cannot be scheduled", command)
	w.StaysAt("2(2),1(1)", 3)

	e.Expect(restore(e.Ctx)).To(Succeed())
	policyIs(e, true)
	selector := client.MatchingLabels{v1alpha1.LabelName: "web"}
	e.Expect(e.DeleteAllOf(e.Ctx, &corev1.Pod{}, client.InNamespace(e.Namespace), selector, client.HasLabels{v1alpha1.LabelColocationRatio})).To(Succeed())
	w.ComeTo("6,3")
	w.Settle()
	e.Expect(w.Groups(OnNode)).To(HaveLen(3))
}

// policyIs waits until the API server applies the policy for groups, or does not.
func policyIs(e *Env, there bool) {
	e.T.Helper()
	e.Eventually(func(g Gomega) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "probe-0",
				Labels:      map[string]string{v1alpha1.LabelName: "probe", v1alpha1.LabelColocationRatio: "2", appsv1.PodIndexLabel: "5"},
				Annotations: map[string]string{v1alpha1.AnnotationColocationStart: "1"}},
			Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "mine"}, {Name: v1alpha1.GateColocation}}, Containers: []corev1.Container{{Name: "c", Image: Image("v1")}}},
		}
		g.Expect(e.Client.Create(e.Ctx, pod, client.DryRunAll)).To(Succeed())
		want := "" // (5 - 1) / 2
		if there {
			want = "2"
			g.Expect(pod.Spec.SchedulingGates).To(Equal([]corev1.PodSchedulingGate{{Name: "mine"}}))
		}
		g.Expect(pod.Labels[v1alpha1.LabelColocationGroup]).To(Equal(want))
	}).Should(Succeed())
}
