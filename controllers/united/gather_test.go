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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/memory"
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

// TestGathering: events of replicas within half a second start one pass, unless something waits for them; events
// of thousands of other pods with the labels start only a few.
func TestGathering(t *testing.T) {
	for name, tc := range map[string]struct {
		owner string
		idle  bool
		// passes is their number for 3,000 events in 3 s, if each pass takes no time.
		passes int
	}{
		"replicas of a StatefulSet":                     {"web-a", true, 6},
		"replicas of a StatefulSet, something waits":    {"web-a", false, 3000},
		"replicas of a Deployment":                      {"web-a-5d4f", true, 6},
		"workers of a LeaderWorkerSet, something waits": {"web-a-0", false, 3000},
		"nobody's":                            {"", false, 3},
		"another's":                           {"api-a", false, 3},
		"another's whose name begins like it": {"web-ab", true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
				g, passes := newGathering(tc.idle), 0
				go func() {
					for {
						request, over := q.Get()
						if over {
							return
						}
						g.begin(request.NamespacedName)
						passes++
						q.Done(request)
					}
				}()
				for i := range 3000 {
					g.events().Delete(t.Context(), event.DeleteEvent{Object: podOf(fmt.Sprint("pod-", i), tc.owner)}, q)
					<-time.After(time.Millisecond)
				}
				synctest.Wait()
				<-time.After(2 * strangersWait)
				q.ShutDown()
				synctest.Wait()
				if passes < tc.passes || passes > 2*tc.passes { // two at most for each period: an event may come just before a pass begins
					t.Error(passes, "passes")
				}
			})
		})
	}
}

// newGathering returns a gathering for the parent web.
func newGathering(idle bool) *gathering {
	g := &gathering{clock: clock.RealClock{}, memory: &memory.Memory{}}
	g.end(types.NamespacedName{Namespace: "shop", Name: "web"}, idle, nil)
	return g
}

// TestUrgentEvents: what a decision may wait for starts a pass at once, also right after the last one; everything else does
// within half a second, and every event starts one.
func TestUrgentEvents(t *testing.T) {
	pod := func(change func(*corev1.Pod)) client.Object { p := podOf("web-a-0", "web-a"); change(p); return p }
	set := func(fields ...any) client.Object {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetNamespace("shop")
		u.SetName("web-a")
		u.SetLabels(map[string]string{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "a"})
		for i := 0; i < len(fields); i += 2 {
			if err := unstructured.SetNestedField(u.Object, fields[i+1], "status", fields[i].(string)); err != nil {
				t.Fatal(err)
			}
		}
		return u
	}
	edited := set()
	edited.SetGeneration(2)
	same := func(*corev1.Pod) {}
	for name, tc := range map[string]struct {
		before, after client.Object
		urgent        bool
	}{
		"ready": {pod(same), pod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}), true},
		"failed": {pod(same), pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
		}), true},
		"gone":                    {pod(same), nil, true},
		"has a node":              {pod(same), pod(func(p *corev1.Pod) { p.Spec.NodeName = "a-1" }), false},
		"is new":                  {nil, pod(same), false},
		"a child is observed":     {set(), set("observedGeneration", int64(2)), true},
		"a child settles":         {set("currentRevision", "a"), set("currentRevision", "b"), true},
		"a child is edited":       {set(), edited, true},
		"a child is gone":         {set(), nil, true},
		"a child counts its pods": {set("replicas", int64(2)), set("replicas", int64(3)), false},
	} {
		for _, idle := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", idle ", idle), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
					defer q.ShutDown()
					g := newGathering(idle)
					g.begin(types.NamespacedName{Namespace: "shop", Name: "web"})
					switch {
					case tc.before == nil:
						g.events().Create(t.Context(), event.CreateEvent{Object: tc.after}, q)
					case tc.after == nil:
						g.events().Delete(t.Context(), event.DeleteEvent{Object: tc.before}, q)
					default:
						g.events().Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
					}
					synctest.Wait()
					if got := q.Len() == 1; got != (tc.urgent && !idle) {
						t.Error("at once:", got)
					}
					<-time.After(gatherTime)
					synctest.Wait()
					if q.Len() != 1 {
						t.Error("it starts no pass")
					}
				})
			})
		}
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
			newGathering(true).events().Update(t.Context(), event.UpdateEvent{ObjectOld: kept("1", func(*corev1.Pod) {}), ObjectNew: kept("2", tc.of)}, q)
			if q.Len() != tc.added {
				t.Errorf("%d passes, want %d", q.Len(), tc.added)
			}
		})
	}
}
