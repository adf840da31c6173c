// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
)

const (
	// syncTimeout is how long a page waits for the first objects of a kind.
	syncTimeout = 10 * time.Second
	// rightsAge is how long an answer about rights counts.
	rightsAge = 15 * time.Second
	// probeEvery is how often an API server that does not answer is asked whether it is back.
	probeEvery = time.Second
)

// cluster is what the user may see of it, kept up to date by one watch for each kind that somebody looks at.
type cluster struct {
	api       client.Client
	config    *rest.Config
	namespace string // "" for all
	// changed is called with the UnitedDeployment of what has changed, and with none if everything may have.
	changed func(client.ObjectKey)

	mu sync.Mutex
	// cached is replaced when an API server comes back: the informers would wait longer and longer.
	cached cache.Cache
	stop   context.CancelFunc
	kinds  map[schema.GroupVersionKind]bool
	rights map[authorizationv1.ResourceAttributes]right
	// away is why the API server cannot be asked, since when; nil if it can.
	away *outage
}

type right struct {
	has   bool
	until time.Time
}

// outage is a time in which the API server does not answer.
type outage struct {
	Since time.Time
	Why   string
}

// options keep small what is watched: only objects with United's labels, and of pods what is shown.
func (c *cluster) options() (cache.Options, error) {
	ours, err := labels.Parse(v1alpha1.LabelName)
	if err != nil {
		return cache.Options{}, err
	}
	ofParents, err := labels.Parse(v1alpha1.LabelName + ",!" + v1alpha1.LabelSubset)
	if err != nil {
		return cache.Options{}, err
	}
	o := cache.Options{
		Scheme: c.api.Scheme(), Mapper: c.api.RESTMapper(), DefaultLabelSelector: ours, DefaultTransform: reduced,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.UnitedDeployment{}: {Label: labels.Everything()},
			&appsv1.ControllerRevision{}: {Label: ofParents},
			&eventsv1.Event{}:            {Label: labels.Everything(), Field: fields.OneTermEqualSelector("regarding.kind", v1alpha1.Kind)},
		},
	}
	if c.namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{c.namespace: {}}
	}
	return o, nil
}

// reduced keeps of an object what is shown of it.
func reduced(object any) (any, error) {
	switch o := object.(type) {
	case *unstructured.Unstructured:
		return o, ownership.Compact(o)
	case *corev1.Pod:
		if len(o.Spec.Containers) == 0 || o.Spec.Containers[0].Name == "" {
			return o, nil // it is reduced already, and who changed its labels is no longer known
		}
		by := adapters.RevisionLabelChangedBy(o)
		o.Annotations, o.ManagedFields = nil, nil
		if by != "" {
			o.Annotations = map[string]string{adapters.RevisionLabelChanged: by}
		}
		var images []corev1.Container // without names
		for i := range o.Spec.Containers {
			images = append(images, corev1.Container{Image: o.Spec.Containers[i].Image})
		}
		o.Spec = corev1.PodSpec{Containers: images, NodeName: o.Spec.NodeName, SchedulingGates: o.Spec.SchedulingGates, Volumes: o.Spec.Volumes}
	case *appsv1.ControllerRevision:
		o.ManagedFields = nil
	case *eventsv1.Event:
		o.ManagedFields = nil
	}
	return object, nil
}

// renew starts with an empty cache.
func (c *cluster) renew(ctx context.Context) error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	fresh, err := cache.New(c.config, opts)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	go func() { _ = fresh.Start(ctx) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
	}
	c.cached, c.stop, c.kinds = fresh, stop, map[schema.GroupVersionKind]bool{}
	return nil
}

// Get reads an object.
func (c *cluster) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	from, err := c.watched(ctx, object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	return from.Get(ctx, key, object, opts...)
}

// List reads objects.
func (c *cluster) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, c.api.Scheme())
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	object := client.Object(nil)
	if _, is := list.(*unstructured.UnstructuredList); is {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		object = u
	} else {
		made, err := c.api.Scheme().New(gvk)
		if err != nil {
			return err
		}
		object, _ = made.(client.Object)
	}
	from, err := c.watched(ctx, object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := from.List(ctx, list, opts...); err != nil {
		return fmt.Errorf("%ss cannot be read: %w", gvk.Kind, err)
	}
	return nil
}

// watched returns the cache, with a watch of a kind. Without the right to it, the error is that of the API server for a list.
func (c *cluster) watched(ctx context.Context, object client.Object) (client.Reader, error) {
	gvk, err := apiutil.GVKForObject(object, c.api.Scheme())
	if err != nil {
		return nil, err
	}
	mapping, err := c.api.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	for _, verb := range []string{"list", "watch"} {
		may, err := c.may(ctx, authorizationv1.ResourceAttributes{Namespace: c.namespace, Verb: verb, Group: gvk.Group, Resource: mapping.Resource.Resource})
		if err != nil {
			return nil, err
		}
		if !may {
			return nil, apierrors.NewForbidden(mapping.Resource.GroupResource(), "", errors.New("you cannot "+verb+" it"))
		}
	}
	c.mu.Lock()
	cached, has := c.cached, c.kinds[gvk]
	c.kinds[gvk] = true
	c.mu.Unlock()
	if has {
		return cached, nil
	}
	informer, err := cached.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		c.mu.Lock()
		delete(c.kinds, gvk) // the next one tries again
		c.mu.Unlock()
		return nil, err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: c.heard, DeleteFunc: c.heard,
		UpdateFunc: func(was, is any) {
			before, okBefore := was.(client.Object)
			after, okAfter := is.(client.Object)
			if !okBefore || !okAfter || before.GetResourceVersion() != after.GetResourceVersion() {
				c.heard(is)
			}
		},
	})
	return cached, err
}

// heard says which UnitedDeployment an object is of.
func (c *cluster) heard(object any) {
	if last, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = last.Obj
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return
	}
	name := accessor.GetLabels()[v1alpha1.LabelName]
	switch o := object.(type) {
	case *v1alpha1.UnitedDeployment:
		name = o.Name
	case *eventsv1.Event:
		name = o.Regarding.Name
	}
	c.changed(client.ObjectKey{Namespace: accessor.GetNamespace(), Name: name})
}

// may reports whether the user has a right.
func (c *cluster) may(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	c.mu.Lock()
	known, asked := c.rights[what]
	c.mu.Unlock()
	if asked && time.Now().Before(known.until) {
		return known.has, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := c.api.Create(ctx, review); err != nil {
		if asked {
			return known.has, nil // an API server that is away takes no right away
		}
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rights[what] = right{review.Status.Allowed, time.Now().Add(rightsAge)}
	return review.Status.Allowed, nil
}

// answers is the transport of all requests: it notices when the API server does not answer.
type answers struct {
	http.RoundTripper
	c *cluster
}

// RoundTrip makes a request.
func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(request)
	switch {
	case err != nil && request.Context().Err() == nil:
		a.c.lost("it does not answer: " + err.Error())
	case err == nil && response.StatusCode == http.StatusUnauthorized:
		a.c.lost("it no longer accepts your credentials")
	case err == nil && request.Method == http.MethodGet && response.StatusCode >= http.StatusBadGateway && response.StatusCode <= http.StatusGatewayTimeout:
		a.c.lost("it answers " + response.Status)
	}
	return response, err
}

func (c *cluster) lost(why string) {
	c.mu.Lock()
	first := c.away == nil
	if first {
		c.away = &outage{time.Now(), why}
	}
	c.mu.Unlock()
	if first {
		c.changed(client.ObjectKey{})
	}
}

// outage returns why the API server cannot be asked; nil if it can.
func (c *cluster) outage() *outage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

// probe asks an API server that was lost whether it is back, until the context ends.
func (c *cluster) probe(ctx context.Context) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c.outage() == nil {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, syncTimeout)
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: c.namespace, Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "uniteddeployments"},
		}}
		err := c.api.Create(asked, review)
		cancel()
		if err != nil || c.renew(ctx) != nil {
			continue
		}
		c.mu.Lock()
		c.away = nil
		c.mu.Unlock()
		c.changed(client.ObjectKey{})
	}
}
