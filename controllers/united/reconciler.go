// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package united reconciles UnitedDeployments: observe, plan, carry out, tell.
// What is decided is decided by the pure packages below this one and by
// controllers/subset; this package reads the world for them and writes what
// they say.
package united

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Reconciler brings one UnitedDeployment at a time to what its spec asks for.
type Reconciler struct {
	// Client reads from the cache, and never sees less than what it wrote.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Adapters are the kinds of children it can have.
	Adapters adapters.Registry
	Recorder events.EventRecorder
	Metrics  *Metrics
	Clock    clock.PassiveClock

	failures subset.Failures
}

// Reconcile is one pass over one UnitedDeployment.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	parent := &v1alpha1.UnitedDeployment{}
	if err := r.Client.Get(ctx, req.NamespacedName, parent); err != nil {
		if apierrors.IsNotFound(err) {
			r.Metrics.Forget(req.NamespacedName)
			r.failures.Forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if parent.DeletionTimestamp != nil {
		// The garbage collector takes the children, or leaves them, as it was asked.
		return ctrl.Result{}, nil
	}

	spec, err := readSpec(parent, r.Adapters)
	if err != nil {
		return r.tellBlocked(ctx, parent, &subset.Failure{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), Stalled: true})
	}
	w, err := r.observe(ctx, parent, spec)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch kept := r.snapshot(ctx, w); {
	case kept.failure != nil:
		w.unkept, w.update = kept.failure, w.lastKept()
		if w.update == nil {
			return r.tellBlocked(ctx, parent, kept.failure)
		}
	case kept.stale:
		return again(subset.ErrStale)
	}
	p := makePlan(w)
	done := r.carryOut(ctx, w, p)
	status, wake := makeStatus(w, p, done)
	if err := r.tell(ctx, parent, status, done); err != nil {
		return again(err)
	}
	return ctrl.Result{RequeueAfter: wake}, r.truncate(ctx, w, status)
}

func (r *Reconciler) store() *revision.Store {
	return &revision.Store{Client: r.Client, Live: r.Live}
}

func (r *Reconciler) writer(adapter adapters.Adapter) *subset.Writer {
	return &subset.Writer{Adapter: adapter, Client: r.Client, Live: r.Live}
}

// truncate deletes the revisions that neither the status, as it was and as it
// is now, nor a child names, but for the youngest of them.
func (r *Reconciler) truncate(ctx context.Context, w *world, status *v1alpha1.UnitedDeploymentStatus) error {
	inUse := w.inUse()
	inUse[status.CurrentRevision], inUse[status.UpdateRevision] = true, true
	for _, s := range status.Subsets {
		inUse[s.CurrentRevision], inUse[s.UpdateRevision] = true, true
	}
	if len(revision.Surplus(w.revisions, inUse, revisionLimit(w.parent))) == 0 {
		return nil
	}
	if err := r.askChildren(ctx, w, inUse); err != nil {
		return err
	}
	return r.store().Truncate(ctx, w.revisions, inUse, revisionLimit(w.parent))
}

// askChildren adds what the children name, read past the cache: a controller that
// does not know yet that another leads may have a cache in which they are old, and
// what a child protects cannot be made again.
func (r *Reconciler) askChildren(ctx context.Context, w *world, inUse map[string]bool) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(w.spec.adapter.GroupVersionKind())
	if err := r.Live.List(ctx, list, client.InNamespace(w.parent.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.parent.Name}); err != nil {
		return fmt.Errorf("list children: %w", err)
	}
	for i := range list.Items {
		annotations := list.Items[i].GetAnnotations()
		inUse[annotations[v1alpha1.AnnotationRevision]] = true
		inUse[annotations[v1alpha1.AnnotationProtectedRevision]] = true
	}
	return nil
}
