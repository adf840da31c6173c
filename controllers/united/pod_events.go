// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// strangersWait is for how long what happens to pods that are no replicas waits for more of it.
const strangersWait = time.Second

// podEvents starts a pass over the parent of a pod that comes, changes or goes.
//
// Anybody who may create pods can give thousands of them the labels of a parent, and each pass over that reads them all. They
// are no replicas, so nothing waits for them: what happens to many of them starts one pass. Passes over a parent while 3,000 of
// them were deleted used to cost 15 s of CPU.
func podEvents() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue, pods ...client.Object) {
		for _, pod := range pods {
			for _, request := range parentByLabel(ctx, pod) {
				if isStranger(pod) {
					q.AddAfter(request, strangersWait)
				} else {
					q.Add(request)
				}
			}
		}
	}
	return handler.WithLowPriorityWhenUnchanged[client.Object, reconcile.Request](handler.Funcs{
		CreateFunc:  func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc:  func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { enqueue(ctx, q, e.Object) },
	})
}

// isStranger reports whether a pod with our labels is no replica, as far as the name of its controller tells: that of a
// replica is the child, or something that the child's controller made and called after it.
func isStranger(pod client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return true
	}
	child := adapters.ChildName(pod.GetLabels()[v1alpha1.LabelName], pod.GetLabels()[v1alpha1.LabelSubset])
	return owner.Name != child && !strings.HasPrefix(owner.Name, child+"-")
}
