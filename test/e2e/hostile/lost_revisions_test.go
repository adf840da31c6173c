// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// midCanary creates a workload in mid-canary, with zone-a on "v1 v1 v2" and zone-b on v1, under
// manualUpdate or at a step that waits for approval.
func midCanary(e *Env, p appsv1.PodManagementPolicyType, coordinated bool) *Workload {
	e.T.Helper()
	strategy := Hold()
	if coordinated {
		strategy = Rolling(`{maxUnavailable: 1, steps: [{subsets: [zone-a], partition: 2, pause: {}}]}`)
	}
	w := e.Create(NewDraft("web", Replicas(6), Zones("", ""), Policy(p), strategy))
	w.Settle()
	w.SetImage("v2")
	if coordinated {
		w.AwaitPhase(v1alpha1.RolloutAwaitingApproval)
	} else {
		w.SetPartitions(Parts{"zone-a": 2})
	}
	w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
	w.Settle()
	return w
}

// TestOwnRevisionDeleted deletes the child's own ControllerRevision of the version that its protected
// replicas run, and a protected pod, which the StatefulSet then recreates on v2. It checks that United
// reverts that pod, and that the rollout ends.
func TestOwnRevisionDeleted(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := midCanary(e, p, true)
		child := w.Child("zone-b")
		e.Expect(child.Status.CurrentRevision).NotTo(Equal(child.Status.UpdateRevision), "the control: there are two")
		e.Expect(w.Delete(w.Ctx, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: child.Status.CurrentRevision}})).To(Succeed())
		w.DeletePod("zone-b", 0)
		w.Eventually(func(g Gomega) {
			g.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"}))
			g.Expect(w.Child("zone-b").Status.CurrentRevision).To(Equal(child.Status.CurrentRevision), "it is made anew, and remembered")
			g.Expect(w.Child("zone-b").Status.UpdateRevision).To(Equal(child.Status.UpdateRevision))
		}).WithTimeout(2 * WaitTimeout).Should(Succeed())
		w.Settle()
		w.SetRolling(`{partition: 0, steps: null}`)
		w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2"})
		w.Settle()
	})
}

// TestPausedCanaryEvicted evicts a canary pod under spec.paused while its StatefulSet cannot create
// pods, and checks that the pod comes back as it was.
func TestPausedCanaryEvicted(t *testing.T) {
	t.Parallel()
	for name, coordinated := range map[string]bool{"Manual": false, "RollingUpdate": true} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w := midCanary(e, p, coordinated)
				w.Patch(`{"spec":{"paused":true}}`)
				w.Settle()
				quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "none"}}
				quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
				e.Expect(e.Client.Create(e.Ctx, quota)).To(Succeed())
				e.Eventually(func(g Gomega) {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "probe"}}
					pod.Spec.Containers = []corev1.Container{{Name: "web", Image: Image("v1")}}
					g.Expect(e.Client.Create(e.Ctx, pod, client.DryRunAll)).To(MatchError(ContainSubstring("exceeded quota")))
				}).Should(Succeed(), "the quota is in force")
				e.Expect(e.Delete(e.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "web-zone-a-2"}})).To(Succeed())
				w.Disturbed()
				e.Eventually(func(g Gomega) {
					g.Expect(w.Count("zone-a")).To(Equal(2), "the control: it is away")
					g.Expect(w.Status("zone-a").Replicas).To(Equal(int32(2)), "and United knows")
				}).Should(Succeed())
				e.Expect(w.Partition("zone-a")).To(Equal(int32(2)))
				e.Expect(e.Delete(e.Ctx, quota)).To(Succeed())
				// Trap: all StatefulSets share a limit of 10 retries a second, also with those that
				// merely wait for their cache. So a retry can be minutes away. A change of the
				// StatefulSet is processed at once.
				e.Eventually(func() int {
					w.PatchChild("zone-a", `{"metadata":{"annotations":{"example.com/retry":%q}}}`, time.Now().String())
					return w.Count("zone-a")
				}).Should(Equal(3))
				w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
			})
		})
	}
}

// TestTakenRevisions checks what happens when somebody removes the owner of the parent's
// ControllerRevisions, or makes their annotation unreadable, again and again. When that ends,
// everything continues as before.
func TestTakenRevisions(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]string{
		"control": `{"metadata":{"annotations":{"example.com/a":"b"}}}`,
		"owner":   `{"metadata":{"ownerReferences":null}}`,
		"subsets": `{"metadata":{"annotations":{"united.dev/subsets":"garbage"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := midCanary(e, appsv1.ParallelPodManagement, false)
			revisions := w.ParentRevisions
			for round := range 20 {
				for _, cr := range revisions() {
					e.Expect(client.IgnoreNotFound(w.Client.Patch(w.Ctx, &cr, client.RawPatch(types.MergePatchType, []byte(patch))))).To(Succeed())
				}
				// The manager reads the revisions whenever the parent changes.
				w.Patch(`{"metadata":{"annotations":{"example.com/round":"%d"}}}`, round)
			}
			w.SetPartitions(Parts{"zone-a": 3})
			w.Eventually(func() int32 { return w.Partition("zone-a") }).Should(Equal(int32(3)))
			w.Scale(7)
			w.Eventually(func() int32 { return w.Asked("zone-a", "zone-b") }).Should(Equal(int32(7)))
			w.Disturbed()
			w.Settle()
			e.Expect(revisions()).To(HaveLen(2), "no copies are made")
			parent := w.Parent()
			for _, cr := range revisions() {
				e.Expect(metav1.IsControlledBy(&cr, parent)).To(BeTrue(), cr.Name)
			}
			e.Expect(w.Images()["zone-a"]).To(HavePrefix("v1 v1 v2"))
			w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0})
			w.Runs(Images{"zone-a": "v2 v2 v2 v2", "zone-b": "v2 v2 v2"})
			w.Settle()
		})
	}
}

// TestUnlabelledRevisions removes the labels from all ControllerRevisions once: those of the parent,
// and those of its children. It checks that United restores the labels, and that protected replicas
// come back as they were.
func TestUnlabelledRevisions(t *testing.T) {
	t.Parallel()
	for name, coordinated := range map[string]bool{"Manual": false, "RollingUpdate": true} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w := midCanary(e, p, coordinated)
				status, protected := w.Parent().Status, w.Child("zone-a").Status.CurrentRevision
				list := &appsv1.ControllerRevisionList{}
				e.Expect(w.List(w.Ctx, list, client.InNamespace(e.Namespace))).To(Succeed())
				for i := range list.Items {
					e.Expect(w.Client.Patch(w.Ctx, &list.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`)))).To(Succeed())
				}
				w.Patch(`{"spec":{"template":{"statefulSetTemplate":{"metadata":{"annotations":{"example.com/a":"b"}}}}}}`)
				w.DeleteChild("zone-b", metav1.DeletePropagationBackground)
				w.DeletePod("zone-a", 0)
				w.Disturbed()
				w.Eventually(w.Images).WithTimeout(2 * WaitTimeout).Should(Equal(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"}))
				w.Settle()
				for _, name := range []string{protected, status.CurrentRevision, status.UpdateRevision} {
					cr := &appsv1.ControllerRevision{}
					e.Expect(w.Get(w.Ctx, w.Key(name), cr)).To(Succeed())
					e.Expect(cr.Labels).To(HaveKeyWithValue(v1alpha1.LabelName, w.Name), name)
				}
			})
		})
	}
}

// TestForgottenAndTaken checks a child that forgets what its protected replicas run, or can no longer
// find it, while somebody removes from the child, or from its own ControllerRevisions, what would show
// it. United seeds the child again, and protected replicas come back as they were.
func TestForgottenAndTaken(t *testing.T) {
	t.Parallel()
	forget := func(w *Workload) {
		child := w.Child("zone-b")
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"currentRevision":%q}}`, child.Status.UpdateRevision))
		w.Expect(w.Client.Status().Patch(w.Ctx, child, patch)).To(Succeed())
	}
	take := func(w *Workload) { w.PatchChild("zone-b", "%s", `{"metadata":{"annotations":null}}`) }
	own := func(patch string) func(w *Workload) {
		return func(w *Workload) { patchRevisions(w, "zone-b", patch) }
	}
	for name, does := range map[string][]func(w *Workload){
		"the status":                                {forget},
		"the status, then the annotations":          {forget, take},
		"the annotations, then the status":          {take, forget},
		"its revisions' labels":                     {own(`{"metadata":{"labels":null}}`)},
		"its revisions' labels, and annotations":    {own(`{"metadata":{"labels":null}}`), take},
		"its revisions' labels and owner":           {own(`{"metadata":{"labels":null,"ownerReferences":null}}`)},
		"its revisions' labels, owner, annotations": {own(`{"metadata":{"labels":null,"ownerReferences":null}}`), take},
	} {
		for strategy, coordinated := range map[string]bool{"Manual": false, "RollingUpdate": true} {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
					w := midCanary(e, p, coordinated)
					before := w.Child("zone-b")
					for _, do := range does {
						do(w)
					}
					w.DeletePod("zone-b", 0)
					w.Disturbed()
					w.Eventually(func(g Gomega) {
						g.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"}))
						child := w.Child("zone-b")
						g.Expect(child.Status.CurrentRevision).To(Equal(before.Status.CurrentRevision), "it remembers")
						g.Expect(recordOf(child)).To(Equal(recordOf(before)), "and has what was written on it")
					}).WithTimeout(2 * WaitTimeout).Should(Succeed())
					w.Settle()
				})
			})
		}
	}
}

// recordOf returns the record on a child, without the parent's generation and the checksum.
func recordOf(child *appsv1.StatefulSet) map[string]string {
	record := ours(child.Annotations)
	delete(record, v1alpha1.AnnotationRecordChecksum)
	return record
}

func patchRevisions(w *Workload, subset, patch string) {
	w.T.Helper()
	found := w.OwnRevisions(subset)
	w.Expect(found).NotTo(BeEmpty())
	for _, cr := range found {
		w.Expect(w.Client.Patch(w.Ctx, &cr, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
}
