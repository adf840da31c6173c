// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// strangersWait is how long an event of a pod that is not a replica waits for more of them.
const strangersWait = time.Second

// podEvents triggers a pass over the parent of a pod that was created, changed or deleted.
//
// Anybody who may create pods can create thousands of them with the labels of a parent, and each pass over that parent
// reads them all. They are not replicas, so nothing waits for them, and many of their events trigger one pass. Before
// this was so, passes over a parent cost 15 s of CPU while 3,000 of them were deleted.
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
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if !isSamePod(e.ObjectOld, e.ObjectNew) {
				enqueue(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { enqueue(ctx, q, e.Object) },
	})
}

// isSamePod reports whether an update changed nothing of a pod that we keep (stripPod). A kubelet updates the status of a
// pod several times before the pod is ready, with its addresses and with conditions that nobody here reads.
func isSamePod(before, after client.Object) bool {
	pods := [2]*corev1.Pod{}
	for i, object := range []client.Object{before, after} {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return false
		}
		compared := *pod
		compared.ResourceVersion = ""
		pods[i] = &compared
	}
	return equality.Semantic.DeepEqual(pods[0], pods[1])
}

// isStranger reports whether a pod with our labels is not a replica, according to the name of its controller: for a
// replica, that is the child, or an object that the child's controller created and named after it.
func isStranger(pod client.Object) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return true
	}
	child := adapters.ChildName(pod.GetLabels()[v1alpha1.LabelName], pod.GetLabels()[v1alpha1.LabelSubset])
	return owner.Name != child && !strings.HasPrefix(owner.Name, child+"-")
}
