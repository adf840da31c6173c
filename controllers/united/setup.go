// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/checks"
	"github.com/unitedworkloads/united/controllers/united/checks/queries"
	"github.com/unitedworkloads/united/controllers/united/fairness"
	"github.com/unitedworkloads/united/controllers/united/observe"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// +kubebuilder:rbac:groups=apps.united.dev,resources=uniteddeployments,verbs=list;watch
// +kubebuilder:rbac:groups=apps.united.dev,resources=uniteddeployments/status,verbs=patch
// +kubebuilder:rbac:groups=apps.united.dev,resources=uniteddeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=statefulsets/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/status;statefulsets/status,verbs=patch
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

const (
	// lookAgain is how often each parent gets a pass if nothing happens. Such a pass writes nothing if there is nothing
	// to do; it limits the effect of a missed event.
	lookAgain = 10 * time.Minute
	// passTimeout bounds a pass. Admission webhooks may take 30 seconds for each write.
	passTimeout = 5 * time.Minute
)

// CacheOptions returns options with which the cache holds only objects with United's labels, and only those parts of
// pods that are used. The kinds of children are not listed: the cache holds those that are requested.
func CacheOptions() (cache.Options, error) {
	ours, err := labels.NewRequirement(v1alpha1.LabelName, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("label selector: %w", err)
	}
	// A child's own ControllerRevisions have the labels of its pods, including that of the subset; those of a parent do
	// not.
	notOfChild, err := labels.NewRequirement(v1alpha1.LabelSubset, selection.DoesNotExist, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("label selector: %w", err)
	}
	labelled := labels.NewSelector().Add(*ours)
	return cache.Options{
		DefaultLabelSelector: labelled,
		DefaultTransform:     stripChild,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.UnitedDeployment{}: {SyncPeriod: ptr.To(lookAgain), Label: labels.Everything()},
			&corev1.Pod{}:                {Label: labelled, Transform: stripPod},
			&appsv1.ControllerRevision{}: {Label: labelled.Add(*notOfChild)},
		},
	}, nil
}

// stripChild makes a child small in memory, and a ControllerRevision that is not ours: a StatefulSet makes as many as its user
// asks for, with the labels that he gives its pods.
func stripChild(object any) (any, error) {
	switch o := object.(type) {
	case *unstructured.Unstructured:
		return o, errors.Join(ownership.Compact(o), adapters.Pack(o))
	case *appsv1.ControllerRevision:
		if owner := metav1.GetControllerOfNoCopy(o); owner != nil && owner.Kind != v1alpha1.Kind {
			o.Data, o.ManagedFields = runtime.RawExtension{}, nil
		}
	}
	return object, nil
}

// stripPod keeps only the fields of a pod that adapters use.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	if len(pod.Spec.Containers) == 0 {
		return pod, nil // it is already stripped
	}
	stripped := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, SchedulingGates: pod.Spec.SchedulingGates},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, StartTime: pod.Status.StartTime},
	}
	if pod.DeletionTimestamp != nil {
		stripped.Finalizers = pod.Finalizers
	}
	if by := adapters.RevisionLabelChangedBy(pod); by != "" {
		stripped.Annotations = map[string]string{adapters.RevisionLabelChanged: by}
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady:
			stripped.Status.Conditions = append(stripped.Status.Conditions,
				corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			stripped.Status.Conditions = append(stripped.Status.Conditions,
				corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime})
		}
	}
	stripped.Status.InitContainerStatuses = stripContainers(pod.Status.InitContainerStatuses)
	stripped.Status.ContainerStatuses = stripContainers(pod.Status.ContainerStatuses)
	return stripped, nil
}

// stripContainers keeps only why containers wait, and that they ended with an error.
func stripContainers(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	ended := func(t *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
		if t == nil || t.ExitCode == 0 {
			return nil
		}
		return &corev1.ContainerStateTerminated{ExitCode: t.ExitCode}
	}
	var kept []corev1.ContainerStatus
	for _, s := range statuses {
		k := corev1.ContainerStatus{Ready: s.Ready}
		if s.State.Waiting != nil {
			k.State.Waiting = &corev1.ContainerStateWaiting{Reason: s.State.Waiting.Reason}
		}
		if s.State.Running != nil {
			k.State.Running = &corev1.ContainerStateRunning{StartedAt: s.State.Running.StartedAt}
		}
		k.State.Terminated = ended(s.State.Terminated)
		k.LastTerminationState.Terminated = ended(s.LastTerminationState.Terminated)
		if k.State.Waiting != nil || k.State.Terminated != nil || k.LastTerminationState.Terminated != nil {
			kept = append(kept, k)
		}
	}
	return kept
}

// indexByParent lets a cache find the objects of a parent without scanning all others of its namespace.
func indexByParent(ctx context.Context, in client.FieldIndexer, object client.Object) error {
	err := in.IndexField(ctx, object, v1alpha1.LabelName, func(o client.Object) []string {
		return []string{o.GetLabels()[v1alpha1.LabelName]}
	})
	if err != nil {
		return fmt.Errorf("index %T by parent: %w", object, err)
	}
	return nil
}

// SetUp adds the controller to a manager whose cache has CacheOptions. namespaces are the ones that it caches, nil for
// all. objects are the resources that checks may name, and servers is the path of the file with their Prometheus servers; "" without
// any.
func SetUp(ctx context.Context, mgr ctrl.Manager, known adapters.Registry, workers int, namespaces map[string]cache.Config, objects []schema.GroupResource, servers string) error {
	for _, object := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := indexByParent(ctx, mgr.GetFieldIndexer(), object); err != nil {
			return err
		}
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Adapters: known,
		Recorder: mgr.GetEventRecorder("united"), Metrics: publish.NewMetrics(metrics.Registry), Clock: clock.RealClock{},
		Shares: fairness.New(workers), Meter: fairness.NewMeter(clock.RealClock{}),
		StatusBatching: publish.StandardBatching(),
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("client for the objects of checks: %w", err)
	}
	observed := checks.New(dynamicClient, mgr.GetRESTMapper(), objects, queries.NewServers(servers, clock.RealClock{}), clock.RealClock{})
	if err := errors.Join(mgr.Add(observed), mgr.Add(manager.RunnableFunc(returnMemory))); err != nil {
		return fmt.Errorf("runner of checks, return of memory: %w", err)
	}
	r.Checks = observed
	// Our own status writes also trigger passes, so that a pass that used an outdated status is followed by one that does
	// not, unless no pass decides by what they changed.
	others := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		same := e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() // this looks again
		return same || !r.WroteQuietly(client.ObjectKeyFromObject(e.ObjectNew), e.ObjectNew.GetResourceVersion())
	}}
	controllerBuilder := ctrl.NewControllerManagedBy(mgr).
		Named("uniteddeployment").
		For(&v1alpha1.UnitedDeployment{}, builder.WithPredicates(others)).
		Watches(&appsv1.ControllerRevision{}, r.gathering().events()).
		Watches(&corev1.Pod{}, r.gathering().events()).
		WatchesRawSource(wakeUps(r.Shares)).
		WatchesRawSource(r.gathering().checks(observed.OnChange)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: retries(), ReconciliationTimeout: passTimeout})
	c, err := controllerBuilder.Build(r)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	related, err := relatedCaches(mgr, known, namespaces)
	if err != nil {
		return err
	}
	r.Related = map[schema.GroupVersionKind]client.Reader{}
	for kind, cached := range related {
		r.Related[kind] = cached
	}
	indexed := map[watched]bool{}
	r.kinds = &kinds{mapper: mgr.GetRESTMapper(), list: listOne(mgr.GetAPIReader(), namespaces), watch: func(w watched) error {
		from := mgr.GetCache()
		if apart := related[w.of]; apart != nil {
			from = apart
		}
		if !indexed[w] { // a watch that failed is tried again, but an index can be added only once
			if err := indexByParent(ctx, from, observe.ObjectOf(w.kind)); err != nil {
				return err
			}
			indexed[w] = true
		}
		return c.Watch(source.Kind[client.Object](from, observe.ObjectOf(w.kind), r.gathering().events()))
	}}
	return nil
}

// listOne returns a function that lists at most one object of a kind in each of the namespaces, or in all of them. If
// that is permitted, so is what a cache does.
func listOne(from client.Reader, namespaces map[string]cache.Config) func(context.Context, schema.GroupVersionKind) error {
	in := slices.Sorted(maps.Keys(namespaces))
	if len(in) == 0 {
		in = []string{metav1.NamespaceAll}
	}
	return func(ctx context.Context, gvk schema.GroupVersionKind) error {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		for _, namespace := range in {
			if err := from.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
				return err //nolint:wrapcheck // the caller says which kind
			}
		}
		return nil
	}
}

// relatedCaches returns the caches for objects that are related to children that delegate, by the kind of these
// children. Those objects do not have our labels, so they cannot be in the manager's cache, which has one selector for
// each kind. The caches are empty until they are used.
func relatedCaches(mgr ctrl.Manager, known adapters.Registry, namespaces map[string]cache.Config) (map[schema.GroupVersionKind]cache.Cache, error) {
	caches := map[schema.GroupVersionKind]cache.Cache{}
	for _, adapter := range known {
		delegating, ok := adapter.(adapters.Delegating)
		if !ok {
			continue
		}
		theirs, err := labels.NewRequirement(delegating.RelatedLabel(), selection.Exists, nil)
		if err != nil {
			return nil, fmt.Errorf("label selector: %w", err)
		}
		cached, err := cache.New(mgr.GetConfig(), cache.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
			DefaultNamespaces: namespaces, DefaultLabelSelector: labels.NewSelector().Add(*theirs),
			DefaultTransform: func(object any) (any, error) {
				if u, ok := object.(*unstructured.Unstructured); ok {
					delegating.Reduce(u)
				}
				return object, nil
			},
		})
		if err != nil {
			return nil, fmt.Errorf("cache of what is related to %ss: %w", adapter.GroupVersionKind().Kind, err)
		}
		if err := mgr.Add(cached); err != nil {
			return nil, fmt.Errorf("cache of what is related to %ss: %w", adapter.GroupVersionKind().Kind, err)
		}
		caches[adapter.GroupVersionKind()] = cached
	}
	return caches, nil
}

// wakeUps triggers a pass over a parent that may have one now.
func wakeUps(s *fairness.Shares) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		s.OnWake(func(parent types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: parent}) })
		return nil
	})
}

// retries limits the rate of passes that failed. Trap: by default the delay grows to a quarter of an hour; if the API
// server was unavailable for that long, a rollout would stop for as long again.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, undone.MaxBackOff)
}

// parentByLabel returns the parent of a child or a pod, even if that has lost its owner.
func parentByLabel(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelName]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
