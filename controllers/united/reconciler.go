// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package united reconciles UnitedDeployments: observe, plan, execute, publish. All decisions are made in package
// planner, and in the pure packages that it calls; this package reads the state of the cluster for it and writes the
// results.
package united

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/perparent"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/writer"
	"github.com/unitedworkloads/united/controllers/united/fairness"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/revision/store"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// Reconciler reconciles UnitedDeployments.
type Reconciler struct {
	// Client reads from the cache, and always sees its own writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Related reads from the caches of the objects that are related to children of a kind that delegates
	// (adapters.Delegating).
	Related map[schema.GroupVersionKind]client.Reader
	// Adapters are for the supported kinds of children.
	Adapters adapters.Registry
	Recorder events.EventRecorder
	Metrics  *publish.Metrics
	Clock    clock.PassiveClock
	// Shares and Meter prevent one parent from using the time of all. Without them there are no limits.
	Shares *fairness.Shares
	Meter  fairness.Meter
	// StatusBatching is how long a status waits for the next one.
	StatusBatching publish.Batching

	kinds             *kinds
	failures          undone.Failures
	unreadableParents unreadableParents
	compared          writer.Comparisons
	repeats           undone.Repeats
	contests          undone.Contests
	holders           holders
	specs             specs
	observedChildren  observedChildren
	statuses          publish.Memory
	parsed            store.Parsed
	// unreached are the subsets that the last pass of a parent did not reach, as in planner.Input.
	unreached perparent.Memory[map[string]int]
}

// Reconcile runs a pass over one UnitedDeployment if it may have one now.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	parent := &v1alpha1.UnitedDeployment{}
	if err := r.Client.Get(ctx, req.NamespacedName, parent); err != nil {
		if apierrors.IsNotFound(err) {
			r.reportReadable(ctx, req.NamespacedName)
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if parent.DeletionTimestamp != nil {
		// The garbage collector deletes or orphans the children, as the user requested.
		r.Shares.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if why := unreadableParent(parent); why != "" {
		r.Shares.Forget(req.NamespacedName) // no other parent should wait behind it
		return r.reportUnreadable(ctx, parent, why)
	}
	r.reportReadable(ctx, req.NamespacedName)
	passes := &fairness.Passes{Shares: r.Shares, Meter: r.Meter, Client: r.Client, Clock: r.Clock}
	pass, wait := passes.Start(req.NamespacedName)
	if pass == nil {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	defer pass.End()
	return r.pass(ctx, parent, pass)
}

// pass is one pass over a UnitedDeployment: observe, plan, execute, publish.
func (r *Reconciler) pass(ctx context.Context, parent *v1alpha1.UnitedDeployment, pass *fairness.Pass) (ctrl.Result, error) {
	spec, err := r.specs.read(parent, r.Adapters)
	if err != nil {
		return r.publishBlocked(ctx, parent, &subset.Failure{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error(), Stalled: true})
	}
	switch unusable, err := r.kinds.ensure(ctx, spec.Adapter, r.Clock.Now()); {
	case err != nil:
		return ctrl.Result{}, err
	case unusable != nil:
		return r.publishBlocked(ctx, parent, unusable)
	}
	in, err := r.observe(ctx, parent, spec)
	if err != nil {
		return ctrl.Result{}, err
	}
	in, plan, kept := r.keepRevision(ctx, in, planner.Make(in))
	switch {
	case kept.Stale:
		return r.requeueAfter(subset.ErrStale)
	case plan == nil:
		return r.publishBlocked(ctx, parent, kept.Failure)
	}
	results := r.execute(ctx, in, plan, pass)
	if pass.ParentIsGone() {
		return ctrl.Result{}, nil // there is no object with a status
	}
	status, wake := report.Status(in, plan, results)
	unrecorded := r.recordCurrent(ctx, in, plan, status)
	wait, err := r.publisher().Publish(ctx, parent, status, plan, results)
	if err != nil {
		return r.requeueAfter(err)
	}
	wait = sooner(wait, sooner(wake, r.publisher().ConfirmAfter(parent)))
	if unrecorded != nil {
		result, err := r.requeueAfter(unrecorded)
		return ctrl.Result{RequeueAfter: sooner(wait, result.RequeueAfter)}, err
	}
	return ctrl.Result{RequeueAfter: wait}, r.truncate(ctx, in, results, status)
}

// recordCurrent records on a revision that it has become the current one. The status has it only after that.
func (r *Reconciler) recordCurrent(ctx context.Context, in *planner.Input, p *planner.Plan, status *v1alpha1.UnitedDeploymentStatus) error {
	current, last := report.Unrecorded(in, p, status)
	if current == nil {
		return nil
	}
	err, putOff := asStaleRevision(r.store(in.Parent).RecordCurrent(ctx, in.Parent, current, last)), (*undone.OverriddenError)(nil)
	if err == nil {
		err = r.spacing(in.Parent).errIfOverridden(currentRecordOf(current.Name))
	}
	if err != nil {
		status.CurrentRevision = cmp.Or(in.Parent.Status.CurrentRevision, p.CurrentRevision)
	}
	if errors.As(err, &putOff) && in.Unkept == nil { // if the revision itself cannot be stored, that is reported first
		report.SetOverridden(in.Parent, status, putOff.Error(), putOff.Lasting, in.Now)
	}
	return err
}

// forget removes the state of a parent that is gone.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.Metrics.Forget(key)
	r.failures.Forget(key)
	r.compared.Forget(key)
	r.repeats.Forget(key)
	r.contests.Forget(key)
	r.holders.Forget(key)
	r.specs.Forget(key)
	r.observedChildren.Forget(key)
	r.statuses.Forget(key)
	r.parsed.Forget(key)
	r.unreached.Forget(key)
	r.Shares.Forget(key)
}

// publisher returns what publishes the result of a pass.
func (r *Reconciler) publisher() *publish.Publisher {
	return &publish.Publisher{
		Client: r.Client, Live: r.Live, Adapters: r.Adapters, Recorder: r.Recorder, Metrics: r.Metrics, Clock: r.Clock,
		Batching: r.StatusBatching, Repeats: &r.repeats, Memory: &r.statuses,
	}
}

// store returns the store of a parent's revisions.
func (r *Reconciler) store(parent *v1alpha1.UnitedDeployment) *store.Store {
	return &store.Store{Client: r.Client, Live: r.Live, Parsed: &r.parsed, Spacing: r.spacing(parent)}
}

func (r *Reconciler) writer(adapter adapters.Adapter) *writer.Writer {
	return &writer.Writer{
		Adapter: adapter, Client: r.Client, Live: r.Live, Now: r.Clock.Now,
		Comparisons: &r.compared, Repeats: &r.repeats, Contests: &r.contests,
	}
}

// truncate deletes the revisions, except the youngest ones, that neither the old nor the new status nor a child names.
func (r *Reconciler) truncate(ctx context.Context, in *planner.Input, results planner.Results, status *v1alpha1.UnitedDeploymentStatus) error {
	inUse := in.InUseAfter(results)
	inUse[status.CurrentRevision], inUse[status.UpdateRevision] = true, true
	for _, s := range status.Subsets {
		inUse[s.CurrentRevision], inUse[s.UpdateRevision] = true, true
	}
	if len(revision.Surplus(in.Revisions, inUse, spec.RevisionLimit(in.Parent))) == 0 {
		return nil
	}
	if err := r.addNamedByChildren(ctx, in, inUse); err != nil {
		return err
	}
	r.forgetSurplus(in, inUse)
	return r.store(in.Parent).Truncate(ctx, in.Revisions, inUse, spec.RevisionLimit(in.Parent))
}

// addNamedByChildren adds the revisions that the children name. It reads past the cache, because a controller that does
// not know yet that another one leads may have outdated children in its cache, and a protected revision cannot be
// created again.
func (r *Reconciler) addNamedByChildren(ctx context.Context, in *planner.Input, inUse map[string]bool) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(in.Spec.Adapter.GroupVersionKind())
	if err := r.Live.List(ctx, list, client.InNamespace(in.Parent.Namespace), client.MatchingLabels{v1alpha1.LabelName: in.Parent.Name}); err != nil {
		return fmt.Errorf("list children: %w", err)
	}
	for i := range list.Items {
		annotations := list.Items[i].GetAnnotations()
		inUse[annotations[v1alpha1.AnnotationRevision]] = true
		inUse[annotations[v1alpha1.AnnotationProtectedRevision]] = true
	}
	return nil
}

// publishBlocked publishes why nothing can be done for a parent, and returns when to try again.
func (r *Reconciler) publishBlocked(ctx context.Context, parent *v1alpha1.UnitedDeployment, failure *subset.Failure) (ctrl.Result, error) {
	now := r.Clock.Now()
	wait, err := r.publisher().Publish(ctx, parent, report.Blocked(parent, failure, now), nil, nil)
	if err != nil {
		return r.requeueAfter(err)
	}
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if failure.RetryAt.IsZero() {
		return ctrl.Result{RequeueAfter: r.publisher().ConfirmAfter(parent)}, nil // only a change of the spec helps, and that is watched
	}
	return ctrl.Result{RequeueAfter: sooner(max(failure.RetryAt.Sub(now), time.Millisecond), r.publisher().ConfirmAfter(parent))}, nil
}

// requeueAfter returns when to try again after an error. Normally a watch reports the change earlier. But the API
// server can report a conflict although nothing has changed, and then no watch does.
func (r *Reconciler) requeueAfter(err error) (ctrl.Result, error) {
	putOff := (*undone.OverriddenError)(nil)
	switch {
	case errors.As(err, &putOff):
		return ctrl.Result{RequeueAfter: max(putOff.Until.Sub(r.Clock.Now()), time.Millisecond)}, nil
	case errors.Is(err, subset.ErrStale):
		return ctrl.Result{RequeueAfter: planner.RetryStale}, nil
	}
	return ctrl.Result{}, err
}

// sooner returns the shorter of two delays; 0 means that there is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
