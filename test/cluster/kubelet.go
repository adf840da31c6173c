// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// kubeletCheckInterval is how long a pod that terminates on a node without a kubelet waits for the next check.
const kubeletCheckInterval = 500 * time.Millisecond

// kubelets delete the pods that have terminated, as the user kwok; kwok itself does the rest of a kubelet's work. Trap:
// kwok deletes a pod by its name. If the pod changes once more while that delete is under way, kwok deletes again,
// and hits the next pod of the name, which a StatefulSet may have created by then. A kubelet names the uid.
type kubelets struct {
	client client.Client

	mu   sync.Mutex
	lost map[string]bool // nodes whose kubelet has been stopped

	stop context.CancelFunc
	done chan struct{}
	err  error // valid after done is closed
}

// startKubelets does not wait: a pod that terminates before they work is deleted when they do.
func (c *Cluster) startKubelets() error {
	configuration, err := loadConfig(c.path("kwok.kubeconfig"))
	if err != nil {
		return err
	}
	logFile, err := os.OpenFile(c.path("logs", "kubelets.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("starting the kubelets: %w", err)
	}
	manager, err := ctrl.NewManager(configuration, ctrl.Options{
		Logger: logTo(logFile), Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultTransform: onlyWhatKubeletsNeed},
		Controller: config.Controller{SkipNameValidation: new(true)}, // a test may have several clusters
	})
	if err != nil {
		return fmt.Errorf("starting the kubelets: %w", err)
	}
	k := &kubelets{client: manager.GetClient(), lost: map[string]bool{}, done: make(chan struct{})}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16}).Complete(k)
	if err != nil {
		return fmt.Errorf("starting the kubelets: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	go func() {
		defer close(k.done)
		defer logFile.Close() //nolint:errcheck // what was written to it is for people
		k.err = manager.Start(ctx)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kubelets = k
	return nil
}

func logTo(file *os.File) logr.Logger {
	return funcr.New(func(prefix, args string) { fmt.Fprintln(file, prefix, args) }, funcr.Options{LogTimestamp: true})
}

// onlyWhatKubeletsNeed leaves out the rest of the pods and nodes, of which a benchmark has many.
func onlyWhatKubeletsNeed(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: essential(&o.ObjectMeta), Spec: corev1.PodSpec{NodeName: o.Spec.NodeName}}, nil
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: essential(&o.ObjectMeta)}, nil
	}
	return object, nil
}

func essential(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
	}
}

// Reconcile implements reconcile.Reconciler.
func (k *kubelets) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := k.client.Get(ctx, request.NamespacedName, pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The API server itself removes a pod without a node. With a grace period of 0 the pod has been deleted by its
	// kubelet, and a finalizer holds it.
	grace := pod.DeletionGracePeriodSeconds
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || (grace != nil && *grace == 0) {
		return ctrl.Result{}, nil
	}
	running, err := k.runsOn(ctx, pod.Spec.NodeName)
	if err != nil || !running {
		return ctrl.Result{RequeueAfter: kubeletCheckInterval}, err
	}
	err = k.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, and perhaps there is another one
		err = nil
	}
	return ctrl.Result{}, err
}

// runsOn reports whether the node exists and its kubelet has not been stopped.
func (k *kubelets) runsOn(ctx context.Context, node string) (bool, error) {
	k.mu.Lock()
	lost := k.lost[node]
	k.mu.Unlock()
	if lost {
		return false, nil
	}
	err := k.client.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{})
	return err == nil, client.IgnoreNotFound(err)
}

// setLost has the effect that pods which terminate on the node stay, or no longer do.
func (k *kubelets) setLost(node string, lost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost[node] = lost
}

// end stops them; it is an error if they had stopped before.
func (k *kubelets) end() error {
	if k == nil {
		return nil
	}
	select {
	case <-k.done:
		return fmt.Errorf("the kubelets ended: %w", k.err)
	default:
	}
	k.stop()
	<-k.done
	return nil
}
