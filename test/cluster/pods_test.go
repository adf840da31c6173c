// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (f *fixture) pod(name string) func() (*corev1.Pod, error) {
	return func() (*corev1.Pod, error) {
		return f.client.CoreV1().Pods(namespace).Get(f.ctx, name, metav1.GetOptions{})
	}
}

func (f *fixture) createPod(t *testing.T, name string, images ...string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, image := range images {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Image: image})
	}
	if _, err := f.client.CoreV1().Pods(namespace).Create(f.ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) testStatefulSet(t *testing.T) {
	g := NewWithT(t)
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector:   map[string]string{corev1.LabelTopologyZone: "zone-b"},
					InitContainers: []corev1.Container{{Name: "init", Image: "init:v1"}},
					Containers:     []corev1.Container{{Name: "web", Image: "web:v1"}, {Name: "sidecar", Image: "proxy"}},
				},
			},
		},
	}
	sets := f.client.AppsV1().StatefulSets(namespace)
	_, err := sets.Create(f.ctx, set, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int32, error) {
		current, err := sets.Get(f.ctx, "web", metav1.GetOptions{})
		return current.Status.AvailableReplicas, err
	}, waitTimeout).Should(BeEquivalentTo(3))

	pods, err := f.client.CoreV1().Pods(namespace).List(f.ctx, metav1.ListOptions{LabelSelector: "app=web"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pods.Items).To(HaveLen(3))
	addresses := map[string]bool{}
	for _, pod := range pods.Items {
		g.Expect(pod.Spec.NodeName).To(HavePrefix("zone-b-"))
		g.Expect(pod.Status.StartTime).NotTo(BeNil())
		g.Expect(pod.Status.ContainerStatuses).To(HaveLen(2))
		g.Expect(pod.Status.ContainerStatuses[0].Image).To(Equal("web:v1"))
		g.Expect(pod.Status.InitContainerStatuses).To(HaveLen(1))
		g.Expect(pod.Status.InitContainerStatuses[0].State.Terminated).NotTo(BeNil())
		for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			g.Expect(condition(&pod, kind)).To(HaveField("Status", corev1.ConditionTrue), "%s", kind)
		}
		addresses[pod.Status.PodIP] = true
	}
	g.Expect(addresses).To(HaveLen(3), "each pod has its own address")
	g.Expect(addresses).NotTo(HaveKey(""))
}

func (f *fixture) testTags(t *testing.T) {
	for image, behavior := range map[string]string{
		"app":                               "ready",
		"broken":                            "ready", // a name, not a tag
		"registry:5000/broken/slow":         "ready",
		"app:v1-broken":                     "ready",
		"app@sha256:" + digest:              "ready",
		"app:broken":                        "broken",
		"registry:5000/app:broken-v2":       "broken",
		"app:broken@sha256:" + digest:       "broken",
		"app:pull":                          "pull",
		"registry.example/team/app:pull-v2": "pull",
		"app:slow":                          "slow",
		"registry:5000/app:slow@sha256:" + digest: "slow",
		"app:quiet-v2": "quiet",
	} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			name := strings.ToLower(strings.NewReplacer(":", "-", "/", "-", "@", "-", ".", "-").Replace(image))[:min(len(image), 50)]
			f.createPod(t, name, image)
			switch behavior {
			case "ready":
				g.Eventually(f.pod(name), waitTimeout).Should(Satisfy(ready))
				pod, err := f.pod(name)()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(readyAfter(pod)).To(BeNumerically("<", 2*time.Second), "at once")
			case "broken":
				g.Eventually(f.pod(name), waitTimeout).Should(HaveField("Status.Phase", corev1.PodRunning))
				g.Consistently(f.pod(name), calm).Should(And(Not(Satisfy(ready)),
					WithTransform(waiting, Equal("CrashLoopBackOff")), WithTransform(restarts, BeNumerically(">=", 1))))
			case "pull":
				g.Eventually(f.pod(name), waitTimeout).Should(WithTransform(waiting, Equal("ImagePullBackOff")))
				g.Consistently(f.pod(name), calm).Should(And(Not(Satisfy(ready)),
					HaveField("Status.Phase", corev1.PodPending), WithTransform(waiting, Equal("ImagePullBackOff"))))
			case "slow":
				g.Eventually(f.pod(name), waitTimeout).Should(And(
					HaveField("Status.Phase", corev1.PodRunning), Not(Satisfy(ready))))
				g.Eventually(f.pod(name), waitTimeout).Should(Satisfy(ready))
				pod, err := f.pod(name)()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(readyAfter(pod)).To(And(BeNumerically(">=", 5*time.Second), BeNumerically("<", 20*time.Second)))
			case "quiet":
				g.Eventually(f.pod(name), waitTimeout).Should(HaveField("Status.Phase", corev1.PodRunning))
				g.Consistently(f.pod(name), 8*time.Second).Should(And(Not(Satisfy(ready)), WithTransform(waiting, BeEmpty())))
				_, err := f.c.Kubectl(f.ctx, "patch", "pod", name, "--subresource=status", "-p",
					`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
				g.Expect(err).NotTo(HaveOccurred())
				g.Eventually(f.pod(name), waitTimeout).Should(Satisfy(ready))
			}
		})
	}
}

// testSeveralContainers: the first container decides, the others run.
func (f *fixture) testSeveralContainers(t *testing.T) {
	g := NewWithT(t)
	f.createPod(t, "first-broken", "app:broken", "proxy:v1")
	f.createPod(t, "second-broken", "app:v1", "proxy:broken")
	g.Eventually(f.pod("second-broken"), waitTimeout).Should(Satisfy(ready))
	g.Eventually(f.pod("first-broken"), waitTimeout).Should(WithTransform(waiting, Equal("CrashLoopBackOff")))
	pod, err := f.pod("first-broken")()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ready(pod)).To(BeFalse())
	g.Expect(pod.Status.ContainerStatuses[1].Ready).To(BeTrue())
}

// testReadyByHand: no stage changes a patched pod back, whatever else happens to it. The positive control is the same
// patch to True: the condition does change.
func (f *fixture) testReadyByHand(t *testing.T) {
	for _, image := range []string{"app:v1", "app:slow"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			name := "by-hand-" + strings.TrimPrefix(image, "app:")
			f.createPod(t, name, image)
			g.Eventually(f.pod(name), waitTimeout).Should(Satisfy(ready))
			patch := func(status string) {
				_, err := f.c.Kubectl(f.ctx, "patch", "pod", name, "--subresource=status", "-p",
					`{"status":{"conditions":[{"type":"Ready","status":"`+status+`"}]}}`)
				g.Expect(err).NotTo(HaveOccurred())
			}
			patch("False")
			_, err := f.c.Kubectl(f.ctx, "label", "pod", name, "touched=yes") // an event for kwok
			g.Expect(err).NotTo(HaveOccurred())
			g.Consistently(f.pod(name), 8*time.Second).ShouldNot(Satisfy(ready))
			patch("True")
			g.Eventually(f.pod(name), waitTimeout).Should(Satisfy(ready))
		})
	}
}

func (f *fixture) testDeletion(t *testing.T) {
	g := NewWithT(t)
	pods := f.client.CoreV1().Pods(namespace)
	f.createPod(t, "held", "app:v1")
	g.Eventually(f.pod("held"), waitTimeout).Should(Satisfy(ready))
	finalizers := func(list string) {
		_, err := pods.Patch(f.ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	gone := func() bool {
		_, err := f.pod("held")()
		return apierrors.IsNotFound(err)
	}
	finalizers(`["united.dev/test"]`)
	g.Expect(pods.Delete(f.ctx, "held", metav1.DeleteOptions{})).To(Succeed())
	g.Consistently(gone, calm).Should(BeFalse(), "a finalizer holds the pod")
	finalizers(`[]`)
	g.Eventually(gone, waitTimeout).Should(BeTrue())

	before, err := f.pod("web-1")()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pods.Delete(f.ctx, "web-1", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(f.pod("web-1"), waitTimeout).Should(And(Satisfy(ready), Not(HaveField("UID", before.UID))))
}

// testNextOfTheName: pods change often while they terminate. None of that hits the next pod of the name, which
// somebody creates as soon as the last one is gone. Trap: the changes are updates, which name the uid. A patch in the
// moment of the deletion makes the API server itself delete by name.
func (f *fixture) testNextOfTheName(t *testing.T) {
	g := NewWithT(t)
	pods := f.client.CoreV1().Pods(namespace)
	changing, stop := context.WithCancel(f.ctx)
	var busy sync.WaitGroup
	for range 4 {
		busy.Go(func() {
			for n := 0; changing.Err() == nil; n++ {
				pod, err := pods.Get(changing, "next", metav1.GetOptions{})
				if err != nil {
					continue // it is not there now
				}
				pod.Labels = map[string]string{"change": strconv.Itoa(n)}
				_, _ = pods.Update(changing, pod, metav1.UpdateOptions{}) // often another change was first
			}
		})
	}
	defer busy.Wait()
	defer stop()
	for range 20 {
		g.Eventually(func() error {
			_, err := pods.Create(f.ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "next"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "app:v1"}}},
			}, metav1.CreateOptions{})
			return err
		}, waitTimeout, time.Millisecond).Should(Succeed())
		created, err := f.pod("next")()
		g.Expect(err).NotTo(HaveOccurred())
		g.Eventually(f.pod("next"), waitTimeout).Should(And(Satisfy(ready), HaveField("UID", created.UID)))
		g.Expect(pods.Delete(f.ctx, "next", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(created.UID))})).To(Succeed())
	}
}

// testStopKubelet: a pod that terminates on a node without a kubelet stays until the kubelet is back.
func (f *fixture) testStopKubelet(t *testing.T) {
	g := NewWithT(t)
	f.createPod(t, "lost", "app:v1")
	g.Eventually(f.pod("lost"), waitTimeout).Should(Satisfy(ready))
	pod, err := f.pod("lost")()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.c.StopKubelet(f.ctx, pod.Spec.NodeName)).To(Succeed())
	g.Expect(f.client.CoreV1().Pods(namespace).Delete(f.ctx, "lost", metav1.DeleteOptions{})).To(Succeed())
	gone := func() bool {
		_, err := f.pod("lost")()
		return apierrors.IsNotFound(err)
	}
	g.Consistently(gone, calm).Should(BeFalse())
	g.Expect(f.c.StartKubelet(f.ctx, pod.Spec.NodeName)).To(Succeed())
	g.Eventually(gone, waitTimeout).Should(BeTrue())
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// readyAfter returns how long after its start a pod became ready.
func readyAfter(pod *corev1.Pod) time.Duration {
	return condition(pod, corev1.PodReady).LastTransitionTime.Sub(pod.Status.StartTime.Time)
}

func ready(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue && pod.Status.Phase == corev1.PodRunning
}

// waiting returns the reason why the first container waits; empty if it does not.
func waiting(pod *corev1.Pod) string {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Waiting == nil {
		return ""
	}
	return pod.Status.ContainerStatuses[0].State.Waiting.Reason
}

func restarts(pod *corev1.Pod) int32 {
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0
	}
	return pod.Status.ContainerStatuses[0].RestartCount
}

const digest = "b0b1c2d3e4f5b0b1c2d3e4f5b0b1c2d3e4f5b0b1c2d3e4f5b0b1c2d3e4f5b0b1"
