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
