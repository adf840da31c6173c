// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func podOf(name, owner string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "a"},
	}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Name: owner, Controller: ptr.To(true)}}
	}
	return p
}

// TestPodEvents: an event of a replica triggers a pass at once; events of thousands of other pods with the labels
// trigger only a few.
func TestPodEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		owner string
		// passes is their number for 3,000 events in 3 s, if each pass takes no time.
		passes int
	}{
		"replicas of a StatefulSet":           {"web-a", 3000},
		"replicas of a Deployment":            {"web-a-5d4f", 3000},
		"workers of a LeaderWorkerSet":        {"web-a-0", 3000},
		"nobody's":                            {"", 3},
		"another's":                           {"api-a", 3},
		"another's whose name begins like it": {"web-ab", 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
				passes := 0
				go func() {
					for {
						request, over := q.Get()
						if over {
							return
						}
						passes++
						q.Done(request)
					}
				}()
				events := podEvents()
				for i := range 3000 {
					events.Delete(t.Context(), event.DeleteEvent{Object: podOf(fmt.Sprint("pod-", i), tc.owner)}, q)
					<-time.After(time.Millisecond)
				}
				synctest.Wait()
				<-time.After(2 * strangersWait)
				q.ShutDown()
				synctest.Wait()
				if passes < tc.passes || passes > tc.passes+1 {
					t.Error(passes, "passes")
				}
			})
		})
	}
}

// TestPodUpdates: an update triggers a pass only if it changed something of the pod that we keep.
func TestPodUpdates(t *testing.T) {
	change := map[string]struct {
		of    func(p *corev1.Pod)
		added int
	}{
		"only its version": {func(*corev1.Pod) {}, 0},
		"its address":      {func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }, 0},
		"a condition that nobody reads": {func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue})
		}, 0},
		"ready": {func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		}, 1},
		"its node":          {func(p *corev1.Pod) { p.Spec.NodeName = "a-1" }, 1},
		"is being deleted":  {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }, 1},
		"a label":           {func(p *corev1.Pod) { p.Labels["controller-revision-hash"] = "x" }, 1},
		"another parent":    {func(p *corev1.Pod) { p.Labels[v1alpha1.LabelName] = "api" }, 1}, // of the earlier parent; it is a stranger to the new one
		"its owner is gone": {func(p *corev1.Pod) { p.OwnerReferences = nil }, 1},
	}
	for name, tc := range change {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			kept := func(version string, change func(p *corev1.Pod)) *corev1.Pod {
				p := podOf("web-a-0", "web-a")
				p.ResourceVersion, p.Spec.Containers = version, []corev1.Container{{Name: "main"}}
				change(p)
				stripped, err := stripPod(p)
				if err != nil {
					t.Fatal(err)
				}
				return stripped.(*corev1.Pod)
			}
			podEvents().Update(t.Context(), event.UpdateEvent{ObjectOld: kept("1", func(*corev1.Pod) {}), ObjectNew: kept("2", tc.of)}, q)
			if q.Len() != tc.added {
				t.Errorf("%d passes, want %d", q.Len(), tc.added)
			}
		})
	}
}
